"""One operation of a coordinator, and what comes out of it.

An operation is one request, one timer that fired, or one load. Its records are appended as one batch, all or none.
Handlers use neither log nor clock: they see the groups, the offsets and `now_ms`, set timers, and collect records,
responses and log events. Then the caller says at once whether the append failed. `after_append` is the part of the
handler that waits for this (Kafka's append future), and `response` is sent, or a refusal in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.model.groups.classic.subscription import unreadable
from groupledger.coordinator.model.log_lines import LogEvent
from groupledger.coordinator.model.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.java_hash_map import TimelineHashMap
    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.deadlines import Deadlines
    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.groups.modern.topics import KnownTopics
    from groupledger.coordinator.model.groups.share.group import ShareGroup
    from groupledger.coordinator.model.groups.streams.assignors import StreamsAssignor
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.messages import Response
    from groupledger.coordinator.model.offset_store import OffsetStore
    from groupledger.schemas.codec.records import Record
    from groupledger.schemas.kafka.errors import Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of records in one `__consumer_offsets` partition; without records, it is a transaction marker."""

    partition: int
    base_offset: int
    timestamp_ms: int
    records: tuple[Record, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    committed: bool | None = None  # of a marker: whether the transaction was committed; None for a batch of records


class Result(NamedTuple):  # a tuple, because one is built with every request
    """What operations did, in order. A request that has no response in its own result is answered by a later one."""

    batches: tuple[Batch, ...] = ()
    responses: tuple[Response, ...] = ()
    events: tuple[LogEvent, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Result]) -> Result:
        """Returns several results as one."""
        merged: tuple[list[Batch], list[Response], list[LogEvent]] = ([], [], [])
        for result in results:
            merged[0].extend(result.batches)
            merged[1].extend(result.responses)
            merged[2].extend(result.events)
        return cls(tuple(merged[0]), tuple(merged[1]), tuple(merged[2]))

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for batch in self.batches for record in batch.records)


class Operation:  # no dataclass, because one is built with every request, and this is twice as fast
    __slots__ = (
        "after_append",
        "config",
        "consumer_groups",
        "created_group_id",
        "deadlines",
        "events",
        "forgotten",
        "groups",
        "now_ms",
        "offsets",
        "partition",
        "producer_epoch",
        "producer_id",
        "records",
        "response",
        "responses",
        "share_groups",
        "streams_assignor",
        "streams_groups",
        "then",
        "topics",
        "unshown",
    )

    def __init__(  # noqa: PLR0913, PLR0917  # what a shard has, as it has it
        self,
        config: Config,
        deadlines: Deadlines,
        groups: TimelineHashMap[str, Group],
        offsets: OffsetStore,
        partition: int,
        now_ms: int,
        consumer_groups: TimelineHashMap[str, ConsumerGroup],
        share_groups: TimelineHashMap[str, ShareGroup],
        topics: KnownTopics,
        forgotten: dict[str, ConsumerGroup | StreamsGroup],
        streams_groups: TimelineHashMap[str, StreamsGroup],
        unshown: list[StreamsGroup],
        streams_assignor: StreamsAssignor,
    ) -> None:
        self.config = config
        self.deadlines = deadlines
        self.groups = groups
        self.offsets = offsets
        self.partition = partition
        self.now_ms = now_ms
        self.consumer_groups = consumer_groups
        self.share_groups = share_groups
        self.topics = topics
        self.forgotten = forgotten  # without a record: who only reads still sees them
        self.streams_groups = streams_groups
        self.unshown = unshown  # configured, which who only reads sees after the next append
        self.streams_assignor = streams_assignor
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.records: list[Record] = []
        self.responses: list[Response] = []
        self.events: list[LogEvent] = []
        self.response: Response | None = None  # the answer that waits for the append
        self.after_append: Callable[[Error], None] | None = None
        self.then: Callable[[Any, Operation], None] | None = None  # the next operation, if the append succeeds
        self.created_group_id: str | None = None  # this group is removed if the append fails

    def append(self, record: Record, after_append: Callable[[Error], None]) -> None:
        """Appends a group's record; `after_append` is called with Error.NONE or with the error of the append."""
        self.records.append(record)
        self.after_append = after_append

    def create_group(self, group: Group) -> None:
        group.unreadable = unreadable(self.config)
        self.groups.put(group.group_id, group)
        self.created_group_id = group.group_id

    def log(self, kind: str, **fields: Any) -> None:
        self.events.append(LogEvent(self.now_ms, self.partition, kind, fields))

    def set_timer(self, kind: str, group_id: str, delay_ms: int, member_id: str = "") -> None:
        self.deadlines.set((kind, self.partition, group_id, member_id), self.now_ms + delay_ms)

    def has_timer(self, kind: str, group_id: str, member_id: str = "") -> bool:
        return (kind, self.partition, group_id, member_id) in self.deadlines

    def cancel_timer(self, kind: str, group_id: str, member_id: str = "") -> None:
        self.deadlines.cancel((kind, self.partition, group_id, member_id))

"""Defines one operation of a coordinator, and its result.

An operation is one request, one timer that fired, or one load. Its records are appended as one batch, all or none.
Handlers use neither log nor clock: they see the groups, the offsets and `now_ms`, set timers, and collect records,
responses and log events. After the handler, `Shard.run` appends the records and calls `after_append`, the part of the
handler that waits for the append (Kafka's append future), with its error or NONE. Then `response` is sent, or a refusal
if the append failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.java_hash_map import TimelineHashMap
from groupledger.coordinator.model.groups.any_group import of_type
from groupledger.coordinator.model.groups.unwritten import Unwritten
from groupledger.coordinator.model.log_lines import LogEvent
from groupledger.coordinator.model.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from groupledger.coordinator.model.offset_store import OffsetStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.deadlines import Deadlines
    from groupledger.coordinator.model.groups.any_group import AnyGroup, GroupT
    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.groups.modern.topics import KnownTopics
    from groupledger.coordinator.model.groups.streams.assignors import StreamsAssignor
    from groupledger.coordinator.model.messages import Response
    from groupledger.schemas.codec.records import Record
    from groupledger.schemas.kafka.errors import Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of records in one `__consumer_offsets` partition. A batch without records is a transaction marker."""

    partition: int
    base_offset: int
    timestamp_ms: int
    records: tuple[Record, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    committed: bool | None = None  # of a marker: whether the transaction was committed; None for a batch of records


class Result(NamedTuple):  # a tuple, because one is built with every request
    """The batches, responses and log events of one or several operations, in order. A request that has no response in
    its own result is answered in a later one."""

    batches: tuple[Batch, ...] = ()
    responses: tuple[Response, ...] = ()
    events: tuple[LogEvent, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Result]) -> Result:
        """Returns several results, in order, as one result."""
        merged: tuple[list[Batch], list[Response], list[LogEvent]] = ([], [], [])
        for result in results:
            merged[0].extend(result.batches)
            merged[1].extend(result.responses)
            merged[2].extend(result.events)
        return cls(tuple(merged[0]), tuple(merged[1]), tuple(merged[2]))

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for batch in self.batches for record in batch.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of one `__consumer_offsets` partition that its operations use and change."""

    partition: int
    config: Config
    deadlines: Deadlines
    topics: KnownTopics
    streams_assignor: StreamsAssignor
    groups: TimelineHashMap[str, AnyGroup] = field(default_factory=TimelineHashMap)
    unwritten: Unwritten = field(default_factory=Unwritten)
    offsets: OffsetStore = field(default_factory=OffsetStore)


class Operation:  # no dataclass, because one is built with every request, and this is twice as fast
    __slots__ = (
        "after_append",
        "config",
        "created_group_id",
        "deadlines",
        "events",
        "groups",
        "now_ms",
        "offsets",
        "partition",
        "producer_epoch",
        "producer_id",
        "records",
        "replaced_group",
        "response",
        "responses",
        "streams_assignor",
        "then",
        "topics",
        "unwritten",
    )

    def __init__(self, state: PartitionState, now_ms: int) -> None:
        self.partition = state.partition
        self.config = state.config
        self.deadlines = state.deadlines
        self.topics = state.topics
        self.streams_assignor = state.streams_assignor
        self.groups = state.groups
        self.unwritten = state.unwritten
        self.offsets = state.offsets
        self.now_ms = now_ms
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.records: list[Record] = []
        self.responses: list[Response] = []
        self.events: list[LogEvent] = []
        self.response: Response | None = None  # the answer that waits for the append
        self.after_append: Callable[[Error], None] | None = None
        self.then: Callable[[Any, Operation], None] | None = None  # the next operation, if the append succeeds
        self.created_group_id: str | None = None  # this group is removed if the append fails
        self.replaced_group: AnyGroup | None = None  # and this one is put back

    def append(self, record: Record, after_append: Callable[[Error], None]) -> None:
        """Adds a record of a group to the operation's batch. `after_append` is called with Error.NONE or with the error
        of the append."""
        self.records.append(record)
        self.after_append = after_append

    def group(self, group_id: str, group_type: type[GroupT]) -> GroupT | None:
        """Returns the group with this id if it is of `group_type`, and otherwise None."""
        return of_type(self.groups.get(group_id), group_type)

    def require_group(self, group_id: str, group_type: type[GroupT]) -> GroupT:
        """Returns the group with this id. Raises LookupError if it is not of `group_type`, which cannot happen, because
        requests are routed by the type of their group."""
        group = self.group(group_id, group_type)
        if group is None:
            raise LookupError(f"{group_id} is not a {group_type.group_type} group")
        return group

    def create_group(self, group: Group) -> None:
        """Adds a group under its id. No other group has this id, or an empty one of another type, which the new group
        replaces."""
        self.created_group_id = group.group_id
        self.replaced_group = self.groups.get(group.group_id)
        self.groups.put(group.group_id, group)

    def remove_created_group(self) -> None:
        """Reverts `create_group`, if the operation has created a group."""
        if self.replaced_group is not None:
            self.groups.put(self.replaced_group.group_id, self.replaced_group)
        elif self.created_group_id is not None:
            self.groups.pop(self.created_group_id)

    def forget(self, group: AnyGroup) -> None:
        """Removes a group for which no tombstone is written."""
        self.groups.pop(group.group_id)
        self.unwritten.forgotten[group.group_id] = group

    def log(self, kind: str, **fields: Any) -> None:
        self.events.append(LogEvent(self.now_ms, self.partition, kind, fields))

    def set_timer(self, kind: str, group_id: str, delay_ms: int, member_id: str = "") -> None:
        self.deadlines.set((kind, self.partition, group_id, member_id), self.now_ms + delay_ms)

    def has_timer(self, kind: str, group_id: str, member_id: str = "") -> bool:
        return (kind, self.partition, group_id, member_id) in self.deadlines

    def cancel_timer(self, kind: str, group_id: str, member_id: str = "") -> None:
        self.deadlines.cancel((kind, self.partition, group_id, member_id))

"""One operation of a coordinator, and what comes out of it.

An operation is one request, one timer that fired, or one load: what it appends goes into one batch, all or nothing.
Handlers touch neither log nor clock: they see the groups, the offsets and `now_ms`, set timers, and collect records,
responses and log events. Then comes the caller's verdict on the append, which is immediate here: `after_append` tells
the part of the handler that waits for it (Kafka's append future), and `response` goes out, or a refusal in its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.coordinator.model.log_lines import LogEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.java_hash_map import TimelineHashMap
    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.deadlines import Deadlines
    from groupledger.coordinator.model.group import Group
    from groupledger.coordinator.model.messages import Response
    from groupledger.coordinator.model.offset_store import OffsetStore
    from groupledger.schemas.codec.records import Record
    from groupledger.schemas.kafka.errors import Error

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """Records as one batch of one `__consumer_offsets` partition; or, without records, a transaction marker."""

    partition: int
    base_offset: int
    timestamp_ms: int
    records: tuple[Record, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    committed: bool | None = None  # the marker's verdict; None for a batch of records


class Result(NamedTuple):  # a tuple, because one is built with every request
    """What operations did, in order. A request without a response in its own result is parked."""

    batches: tuple[Batch, ...] = ()
    responses: tuple[Response, ...] = ()
    events: tuple[LogEvent, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Result]) -> Result:
        """Several results as one."""
        merged: tuple[list[Batch], list[Response], list[LogEvent]] = ([], [], [])
        for result in results:
            merged[0].extend(result.batches)
            merged[1].extend(result.responses)
            merged[2].extend(result.events)
        return cls(tuple(merged[0]), tuple(merged[1]), tuple(merged[2]))

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for batch in self.batches for record in batch.records)


@dataclass(slots=True)
class Operation:
    config: Config
    deadlines: Deadlines
    groups: TimelineHashMap[str, Group]
    offsets: OffsetStore
    partition: int
    now_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    records: list[Record] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)
    events: list[LogEvent] = field(default_factory=list)
    response: Response | None = None  # the answer that waits for the append
    after_append: Callable[[Error], None] | None = None
    created_group_id: str | None = None  # taken back if the append fails

    def append(self, record: Record, after_append: Callable[[Error], None]) -> None:
        """Append a group's record; `after_append` is called with Error.NONE or with why it failed."""
        self.records.append(record)
        self.after_append = after_append

    def create_group(self, group: Group) -> None:
        self.groups.put(group.group_id, group)
        self.created_group_id = group.group_id

    def log(self, kind: str, **fields: Any) -> None:
        self.events.append(LogEvent(self.now_ms, self.partition, kind, fields))

    def set_timer(self, kind: str, group_id: str, delay_ms: int, member_id: str = "") -> None:
        self.deadlines.set((kind, self.partition, group_id, member_id), self.now_ms + delay_ms)

    def cancel_timer(self, kind: str, group_id: str, member_id: str = "") -> None:
        self.deadlines.cancel((kind, self.partition, group_id, member_id))

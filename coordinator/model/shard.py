"""The coordinator of one `__consumer_offsets` partition: its groups, its offsets, the end of its log.

State changes in two ways only. What a failover must find again changes by applying appended records: the committed and
pending offsets, and the end of a group by its tombstone. The soft state of a live group, which is its members, its
generation and its state, changes by explicit transitions while a handler runs, as in Kafka; the group's own record is
therefore applied when a log is loaded, and not again when it is appended.

`run` is the way in: it gives a handler an `Operation`, then settles the append. If the append failed, no record is
applied, a group that the operation created is removed, and the handler's `after_append` takes back what it must.
`load` applies a log from its beginning. Consumer groups of KIP-848, share groups and streams groups change by their
records alone, so theirs are applied in both cases.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import TimelineHashMap
from groupledger.coordinator.model.errors import IllegalStateError, response_error_of_failed_append
from groupledger.coordinator.model.groups.classic.group import ANSWERED, Group
from groupledger.coordinator.model.groups.classic.states import Event
from groupledger.coordinator.model.groups.classic.subscription import unreadable
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.consumer.records import EPOCH, RECORDS
from groupledger.coordinator.model.groups.share import records as share_records
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.streams import records as streams_records
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.handlers.classic.rebalance import (
    INITIAL_JOIN_TIMER,
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
    complete_initial_join_or_delay,
    complete_join,
    expire_pending_sync,
    expire_session,
    prepare_rebalance,
    reset_session,
)
from groupledger.coordinator.model.handlers.consumer import timers as consumer_timers
from groupledger.coordinator.model.handlers.consumer.membership import expire_member, expire_revocation, watch_loaded
from groupledger.coordinator.model.handlers.offsets import expire_groups
from groupledger.coordinator.model.handlers.share.heartbeat import (
    SHARE_SESSION_TIMER,
    expire_share_session,
    watch_loaded_share,
)
from groupledger.coordinator.model.handlers.streams.heartbeat import (
    STREAMS_INITIAL_TIMER,
    STREAMS_REVOCATION_TIMER,
    STREAMS_SESSION_TIMER,
    begin_streams_assignment,
    expire_streams_revocation,
    expire_streams_session,
    watch_loaded_streams,
)
from groupledger.coordinator.model.log_lines import Reason
from groupledger.coordinator.model.messages import (
    JoinGroupRequest,
    Request,
    WriteTxnMarkerRequest,
    WriteTxnMarkerResponse,
    refusal,
)
from groupledger.coordinator.model.offset_store import OffsetStore
from groupledger.coordinator.model.operation import Batch, Operation, Result
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import CLASSIC_NOT_JOINED_FENCE, CLASSIC_NOT_SYNCED_FENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.deadlines import Deadlines, Timer
    from groupledger.coordinator.model.groups.modern.topics import KnownTopics
    from groupledger.coordinator.model.groups.streams.assignors import StreamsAssignor
    from groupledger.schemas.codec.records import Record

EXPIRATION_TIMER = "expire-group-metadata"
_OFFSET_RECORDS = ("offset_commit", "legacy_offset_commit")


class Shard:
    __slots__ = (
        "_config",
        "_deadlines",
        "_forgotten",
        "_streams_assignor",
        "_topics",
        "_unshown",
        "consumer_groups",
        "groups",
        "log_end_offset",
        "offsets",
        "partition",
        "share_groups",
        "streams_groups",
    )

    def __init__(
        self,
        partition: int,
        config: Config,
        deadlines: Deadlines,
        topics: KnownTopics,
        streams_assignor: StreamsAssignor,
    ) -> None:
        self.partition = partition
        self.groups: TimelineHashMap[str, Group] = TimelineHashMap()
        self.consumer_groups: TimelineHashMap[str, ConsumerGroup] = TimelineHashMap()
        self.share_groups: TimelineHashMap[str, ShareGroup] = TimelineHashMap()
        self.streams_groups: TimelineHashMap[str, StreamsGroup] = TimelineHashMap()
        self.offsets = OffsetStore()
        self.log_end_offset = 0
        self._config = config
        self._deadlines = deadlines
        self._topics = topics
        self._streams_assignor = streams_assignor
        self._forgotten: dict[str, ConsumerGroup | StreamsGroup] = {}
        self._unshown: list[StreamsGroup] = []

    # Requests that only read see groups as of the newest record: one that was forgotten without a record is there until
    # somebody writes, and what was configured without a record is not.

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        forgotten = self._forgotten.get(group_id)
        return self.consumer_groups.get(group_id) or (forgotten if isinstance(forgotten, ConsumerGroup) else None)

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        forgotten = self._forgotten.get(group_id)
        return self.streams_groups.get(group_id) or (forgotten if isinstance(forgotten, StreamsGroup) else None)

    def all_consumer_groups(self) -> Iterator[ConsumerGroup]:
        yield from self.consumer_groups.values()
        yield from (group for group in self._forgotten.values() if isinstance(group, ConsumerGroup))

    def all_streams_groups(self) -> Iterator[StreamsGroup]:
        yield from self.streams_groups.values()
        yield from (group for group in self._forgotten.values() if isinstance(group, StreamsGroup))

    # Operations

    def run(
        self,
        handler: Callable[[Any, Operation], None],
        subject: Any,
        *,
        now_ms: int,
        append_error: Error,
    ) -> Result:
        """Runs one operation, from its handler to its result.

        The subject is what the handler gets: a request, or the group of a timer. `append_error` says whether the append
        will fail, and with which error.
        """
        operation = self._operation(now_ms)
        try:
            handler(subject, operation)
        except IllegalStateError:
            return self._fail(operation, subject)
        batch = None
        if operation.records and append_error is Error.NONE:
            batch = self._append(operation)
        elif operation.records:
            self._remove_created_group(operation)
            for group in self._unshown:
                group.configured = group.shown
            self._unshown.clear()
            if operation.response is not None:
                operation.response = refusal(subject, response_error_of_failed_append(append_error))
        if operation.after_append is not None:
            operation.after_append(append_error)
        if operation.response is not None:
            operation.responses.append(operation.response)
        result = _result(operation, batch)
        if operation.then is None or append_error is not Error.NONE:
            return result
        return Result.of([result, self.run(operation.then, subject, now_ms=now_ms, append_error=append_error)])

    def fire(self, timer: Timer, *, now_ms: int, append_error: Error) -> Result:
        """Handles a timer that has run out. Its group may be gone; then nothing happens."""
        kind, _, group_id, member_id = timer
        group = self.groups.get(group_id)
        if kind == EXPIRATION_TIMER:
            return self.run(self._expire_groups, None, now_ms=now_ms, append_error=append_error)
        if kind in _MODERN_TIMERS:
            groups: TimelineHashMap[str, Any] = self.consumer_groups
            if kind in _STREAMS_TIMERS:
                groups = self.streams_groups
            elif kind == SHARE_SESSION_TIMER:
                groups = self.share_groups
            if group_id not in groups:
                return Result()
            handler = partial(_MODERN_TIMERS[kind], groups[group_id])
            return self.run(handler, member_id, now_ms=now_ms, append_error=append_error)
        if group is None:
            return Result()
        if kind == SESSION_TIMER:
            return self.run(partial(expire_session, group), member_id, now_ms=now_ms, append_error=append_error)
        return self.run(_REBALANCE_TIMERS[kind], group, now_ms=now_ms, append_error=append_error)

    def _operation(self, now_ms: int) -> Operation:
        return Operation(
            *(self._config, self._deadlines, self.groups, self.offsets, self.partition, now_ms),
            *(self.consumer_groups, self.share_groups, self._topics, self._forgotten),
            *(self.streams_groups, self._unshown, self._streams_assignor),
        )

    def _append(self, operation: Operation) -> Batch:
        batch = Batch(
            partition=self.partition,
            base_offset=self.log_end_offset,
            timestamp_ms=operation.now_ms,
            records=tuple(operation.records),
            producer_id=operation.producer_id,
            producer_epoch=operation.producer_epoch,
        )
        for record in batch.records:
            if record.record_type != "group_metadata" or record.value is None:
                self._apply(record, operation)
            self.log_end_offset += 1
        self._show()
        return batch

    def _show(self) -> None:
        """Lets requests that only read see what changed without a record, since something was written."""
        self._forgotten.clear()
        for group in self._unshown:
            group.shown = group.configured
        self._unshown.clear()

    def _remove_created_group(self, operation: Operation) -> None:
        if operation.created_group_id is not None:
            self.groups.pop(operation.created_group_id)

    def _fail(self, operation: Operation, subject: Any) -> Result:
        """Answers a request with UNKNOWN_SERVER_ERROR. Its member still counts as one that waits, as in Kafka."""
        self._remove_created_group(operation)
        if isinstance(subject, Request):
            operation.responses.append(refusal(subject, Error.UNKNOWN_SERVER_ERROR))
        if isinstance(subject, JoinGroupRequest) and subject.group_id in self.groups:
            for member in self.groups[subject.group_id].members.values():
                if member.awaiting_join == subject.request_id:
                    member.awaiting_join = ANSWERED
        return _result(operation, None)

    def _expire_groups(self, _: None, operation: Operation) -> None:
        expire_groups(operation)
        operation.set_timer(EXPIRATION_TIMER, "", self._config.offsets_retention_check_interval_ms)

    # The log

    def load(self, batches: Iterable[Batch], now_ms: int) -> Result:
        """Rebuilds groups and offsets from the partition's log. A compacted log has a batch for each record."""
        operation = self._operation(now_ms)
        for batch in batches:
            self._replay(batch, operation)
        for group in self.groups.values():
            size = len(group.members)
            operation.log("group_loaded", group_type="classic", group_id=group.group_id, member_count=size)
            for member in group.members.values():
                reset_session(group, member, operation)
            max_size = self._config.group_max_size
            if size > max_size:
                fields = {"group_id": group.group_id, "member_count": size, "group_max_size": max_size}
                prepare_rebalance(group, Reason("over_capacity", fields), operation)
        for consumer_group in self.consumer_groups.values():
            _log_loaded("consumer", consumer_group, operation)
            watch_loaded(consumer_group, operation)
        for share_group in self.share_groups.values():
            _log_loaded("share", share_group, operation)
            watch_loaded_share(share_group, operation)
        for streams_group in self.streams_groups.values():
            _log_loaded("streams", streams_group, operation)
            watch_loaded_streams(streams_group, operation)
        operation.set_timer(EXPIRATION_TIMER, "", self._config.offsets_retention_check_interval_ms)
        return _result(operation, None)

    def unload(self, now_ms: int) -> Result:
        """Makes every group Dead, and answers all requests that wait with NOT_COORDINATOR."""
        operation = self._operation(now_ms)
        self._deadlines.cancel_partition(self.partition)
        for group in self.groups.values():
            operation.log("group_unloaded", group_id=group.group_id, generation=group.generation_id)
            group.apply(Event.UNLOADED, now_ms)
            for member in group.members.values():
                group.complete_join(member, operation, error=Error.NOT_COORDINATOR)
                group.complete_sync(member, operation, Error.NOT_COORDINATOR)
        modern: list[ConsumerGroup | ShareGroup | StreamsGroup] = [
            *self.consumer_groups.values(),
            *self.share_groups.values(),
            *self.streams_groups.values(),
        ]
        for each in modern:
            operation.log("modern_group_unloaded", group_id=each.group_id, generation=each.epoch)
        return _result(operation, None)

    def write_txn_marker(self, request: WriteTxnMarkerRequest, now_ms: int) -> Result:
        """Appends the marker that ends a transaction, and applies it."""
        operation = self._operation(now_ms)
        batch = Batch(
            partition=self.partition,
            base_offset=self.log_end_offset,
            timestamp_ms=now_ms,
            records=(),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            committed=request.committed,
        )
        self._replay(batch, operation)
        self._show()
        operation.responses.append(WriteTxnMarkerResponse(request.request_id, Error.NONE))
        return _result(operation, batch)

    def _replay(self, batch: Batch, operation: Operation) -> None:
        self.log_end_offset = batch.base_offset
        operation.producer_id = batch.producer_id
        if batch.committed is not None:
            self.offsets.end_transaction(batch.producer_id, committed=batch.committed)
            self.log_end_offset += 1
        for record in batch.records:
            self._apply(record, operation)
            self.log_end_offset += 1

    def _apply(self, record: Record, operation: Operation) -> None:
        group_id = record.key["group_id"]
        passed_over = unreadable(self._config)
        if record.record_type in _OFFSET_RECORDS:
            is_there = (
                self.groups.get(group_id) is not None  # the most common one, and the cheapest to ask for
                or group_id in self.consumer_groups
                or group_id in self.streams_groups
            )
            if record.value is not None and not is_there:
                self.groups.put(
                    group_id,
                    Group(
                        group_id=group_id,
                        current_state_timestamp_ms=operation.now_ms,
                        unreadable=passed_over,
                    ),
                )
            self.offsets.apply(record, self.log_end_offset, operation.producer_id)
        elif record.record_type == "group_metadata":
            if record.value is None:
                self.groups.pop(group_id)
            else:
                self.groups.put(group_id, Group.from_record(group_id, record.value, passed_over))
        elif record.record_type in RECORDS:
            self._apply_to_consumer_group(record, group_id)
        elif record.record_type in share_records.RECORDS:
            self._apply_to_share_group(record, group_id)
        elif record.record_type in streams_records.RECORDS:
            self._apply_to_streams_group(record, group_id)

    def _apply_to_consumer_group(self, record: Record, group_id: str) -> None:
        group = self.consumer_groups.get(group_id)
        if record.record_type == EPOCH and record.value is None:
            self.consumer_groups.pop(group_id)
        elif group is not None:
            group.apply(record)
        elif record.value is not None:
            # What was no more than offsets until now.
            self.groups.pop(group_id)
            group = ConsumerGroup(group_id, self._config.first_epoch)
            self.consumer_groups.put(group_id, group)
            group.apply(record)

    def _apply_to_share_group(self, record: Record, group_id: str) -> None:
        if record.record_type == share_records.EPOCH and record.value is None:
            self.share_groups.pop(group_id)
            return
        if record.value is not None and group_id not in self.share_groups:
            self.share_groups.put(group_id, ShareGroup(group_id, self._config.first_epoch))
        group = self.share_groups.get(group_id)
        if group is not None:
            group.apply(record)

    def _apply_to_streams_group(self, record: Record, group_id: str) -> None:
        if record.value is not None and group_id not in self.streams_groups:
            self.groups.pop(group_id)  # what was no more than offsets until now
            self.streams_groups.put(group_id, StreamsGroup(group_id))
        group = self.streams_groups.get(group_id)
        if group is not None:
            group.apply(record)
        if record.record_type == streams_records.EPOCH and record.value is None:
            self.streams_groups.pop(group_id)


_REBALANCE_TIMERS: dict[str, Callable[[Group, Operation], None]] = {
    JOIN_TIMER: complete_join,
    INITIAL_JOIN_TIMER: complete_initial_join_or_delay,
    SYNC_TIMER: expire_pending_sync,
}

_MODERN_TIMERS: dict[str, Callable[[Any, str, Operation], None]] = {
    consumer_timers.SESSION_TIMER: expire_member,
    consumer_timers.REVOCATION_TIMER: expire_revocation,
    consumer_timers.JOIN_TIMER: partial(expire_member, reason=CLASSIC_NOT_JOINED_FENCE),
    consumer_timers.SYNC_TIMER: partial(expire_member, reason=CLASSIC_NOT_SYNCED_FENCE),
    SHARE_SESSION_TIMER: expire_share_session,
    STREAMS_SESSION_TIMER: expire_streams_session,
    STREAMS_REVOCATION_TIMER: expire_streams_revocation,
    STREAMS_INITIAL_TIMER: begin_streams_assignment,
}
_STREAMS_TIMERS = (STREAMS_SESSION_TIMER, STREAMS_REVOCATION_TIMER, STREAMS_INITIAL_TIMER)


def _log_loaded(group_type: str, group: ConsumerGroup | ShareGroup | StreamsGroup, operation: Operation) -> None:
    words = {"group_id": group.group_id, "member_count": len(group.members)}
    operation.log("group_loaded", group_type=group_type, **words)


def _result(operation: Operation, batch: Batch | None) -> Result:
    batches = () if batch is None else (batch,)
    return Result(batches, tuple(operation.responses), tuple(operation.events))

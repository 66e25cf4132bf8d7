"""Coordinates one `__consumer_offsets` partition: its groups, its offsets, the end of its log.

State changes in two ways only. Committed and pending offsets, and the end of a group by its tombstone, change when
appended records are applied. The soft state of a live classic group (members, generation, state) changes by explicit
transitions while a handler runs, as in Kafka. So the group's own record is applied when a log is loaded, and not again
when it is appended. KIP-848 groups, share groups and streams groups change by their records alone, so their records are
applied in both cases.

`run` is the entry point: it calls a handler with an `Operation`, then completes the append. If the append failed, no
record is applied, a group that the operation created is removed, and the handler's `after_append` reverts its own
changes. `load` applies a log from its beginning.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Union

from groupledger.coordinator.model.errors import IllegalStateError, response_error_of_failed_append
from groupledger.coordinator.model.groups.classic.group import ANSWERED, Group
from groupledger.coordinator.model.groups.classic.states import Event
from groupledger.coordinator.model.groups.consumer import records as consumer_records
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
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
from groupledger.coordinator.model.operation import Batch, Operation, PartitionState, Result
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import CLASSIC_NOT_JOINED_FENCE, CLASSIC_NOT_SYNCED_FENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.deadlines import Timer
    from groupledger.coordinator.model.groups.any_group import AnyGroup
    from groupledger.schemas.codec.records import Record

EXPIRATION_TIMER = "expire-group-metadata"
_OFFSET_RECORDS = ("offset_commit", "legacy_offset_commit")


class Shard:
    __slots__ = ("_config", "_deadlines", "_state", "groups", "log_end_offset", "offsets", "partition")

    def __init__(self, state: PartitionState) -> None:
        self.partition = state.partition
        self.groups = state.groups
        self.offsets = state.offsets
        self.log_end_offset = 0
        self._config = state.config
        self._deadlines = state.deadlines
        self._state = state

    def shown_group(self, group_id: str) -> AnyGroup | None:
        """Returns a group as read-only requests see it: a group that was removed without a tombstone still exists for
        them. Returns None if there is no such group."""
        return self.groups.get(group_id) or self._state.unwritten.forgotten.get(group_id)

    def shown_groups(self) -> list[AnyGroup]:
        return [*self.groups.values(), *self._state.unwritten.forgotten.values()]

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

        `subject` is the first argument of the handler: a request, or the group or member of a timer. `append_error` is
        the error with which the append will fail, or NONE.
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
            operation.remove_created_group()
            operation.unwritten.unconfigure()
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
        """Handles a timer that has run out. Does nothing if its group no longer exists or is of another type."""
        kind, _, group_id, member_id = timer
        if kind == EXPIRATION_TIMER:
            return self.run(self._expire_groups, None, now_ms=now_ms, append_error=append_error)
        group_type, handler = _TIMERS[kind]
        group = self.groups.get(group_id)
        if not isinstance(group, group_type):
            return Result()
        return self.run(partial(handler, group), member_id, now_ms=now_ms, append_error=append_error)

    def _operation(self, now_ms: int) -> Operation:
        return Operation(self._state, now_ms)

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
        operation.unwritten.show()
        return batch

    def _fail(self, operation: Operation, subject: Any) -> Result:
        """Answers a request with UNKNOWN_SERVER_ERROR. Its member still counts as one that waits, as in Kafka."""
        operation.remove_created_group()
        if isinstance(subject, Request):
            operation.responses.append(refusal(subject, Error.UNKNOWN_SERVER_ERROR))
        group = operation.group(subject.group_id, Group) if isinstance(subject, JoinGroupRequest) else None
        if group is not None:
            for member in group.members.values():
                if member.awaiting_join == subject.request_id:
                    member.awaiting_join = ANSWERED
        return _result(operation, None)

    def _expire_groups(self, _: None, operation: Operation) -> None:
        expire_groups(operation)
        operation.set_timer(EXPIRATION_TIMER, "", self._config.offsets_retention_check_interval_ms)

    # The log

    def load(self, batches: Iterable[Batch], now_ms: int) -> Result:
        """Rebuilds groups and offsets from the batches of the partition's log. The log may be compacted."""
        operation = self._operation(now_ms)
        for batch in batches:
            self._replay(batch, operation)
        for group in self.groups.values():
            words = {"group_type": group.group_type, "group_id": group.group_id, "member_count": len(group.members)}
            operation.log("group_loaded", **words)
            _WATCH_LOADED[type(group)](group, operation)
        operation.set_timer(EXPIRATION_TIMER, "", self._config.offsets_retention_check_interval_ms)
        return _result(operation, None)

    def unload(self, now_ms: int) -> Result:
        """Makes every classic group Dead, and answers its waiting requests with NOT_COORDINATOR."""
        operation = self._operation(now_ms)
        self._deadlines.cancel_partition(self.partition)
        for group in self.groups.values():
            if not isinstance(group, Group):
                operation.log("modern_group_unloaded", group_id=group.group_id, generation=group.epoch)
                continue
            operation.log("group_unloaded", group_id=group.group_id, generation=group.generation_id)
            group.apply(Event.UNLOADED, now_ms)
            for member in group.members.values():
                group.complete_join(member, operation, error=Error.NOT_COORDINATOR)
                group.complete_sync(member, operation, Error.NOT_COORDINATOR)
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
        operation.unwritten.show()
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
        if record.record_type in _OFFSET_RECORDS:
            if record.value is not None and group_id not in self.groups:
                self.groups.put(group_id, Group(group_id=group_id, current_state_timestamp_ms=operation.now_ms))
            self.offsets.apply(record, self.log_end_offset, operation.producer_id)
        elif record.record_type == "group_metadata":
            if record.value is not None:
                self.groups.put(group_id, Group.from_record(group_id, record.value, self._config))
            elif operation.group(group_id, Group) is not None:
                self.groups.pop(group_id)
        elif record.record_type in _MODERN_GROUPS:
            self._apply_to_modern_group(record, group_id, _MODERN_GROUPS[record.record_type])

    def _apply_to_modern_group(self, record: Record, group_id: str, group_type: type[_AnyModernGroup]) -> None:
        group = self.groups.get(group_id)
        if not isinstance(group, group_type):
            if record.value is None:
                return
            group = group_type(group_id, self._config.first_epoch)
            self.groups.put(group_id, group)  # instead of a classic group that was only offsets until now
        group.apply(record)
        if record.record_type == group.record_types.epoch and record.value is None:
            self.groups.pop(group_id)


def _watch_loaded_classic(group: Group, operation: Operation) -> None:
    for member in group.members.values():
        reset_session(group, member, operation)
    size, max_size = len(group.members), operation.config.group_max_size
    if size > max_size:
        fields = {"group_id": group.group_id, "member_count": size, "group_max_size": max_size}
        prepare_rebalance(group, Reason("over_capacity", fields), operation)


def _of_group(handler: Callable[[Group, Operation], None]) -> Callable[[Group, str, Operation], None]:
    """Returns a handler of a timer that is not one member's."""
    return lambda group, _, operation: handler(group, operation)


_AnyModernGroup = Union[ConsumerGroup, ShareGroup, StreamsGroup]  # noqa: UP007  # an alias is read at run time
_MODERN_GROUPS: dict[str, type[_AnyModernGroup]] = {
    **dict.fromkeys(consumer_records.RECORDS, ConsumerGroup),
    **dict.fromkeys(share_records.RECORDS, ShareGroup),
    **dict.fromkeys(streams_records.RECORDS, StreamsGroup),
}
_WATCH_LOADED: dict[type[AnyGroup], Callable[[Any, Operation], None]] = {
    Group: _watch_loaded_classic,
    ConsumerGroup: watch_loaded,
    ShareGroup: watch_loaded_share,
    StreamsGroup: watch_loaded_streams,
}
# The groups that each timer is for, and its handler.
_TIMERS: dict[str, tuple[type[AnyGroup], Callable[[Any, str, Operation], None]]] = {
    SESSION_TIMER: (Group, expire_session),
    JOIN_TIMER: (Group, _of_group(complete_join)),
    INITIAL_JOIN_TIMER: (Group, _of_group(complete_initial_join_or_delay)),
    SYNC_TIMER: (Group, _of_group(expire_pending_sync)),
    consumer_timers.SESSION_TIMER: (ConsumerGroup, expire_member),
    consumer_timers.REVOCATION_TIMER: (ConsumerGroup, expire_revocation),
    consumer_timers.JOIN_TIMER: (ConsumerGroup, partial(expire_member, reason=CLASSIC_NOT_JOINED_FENCE)),
    consumer_timers.SYNC_TIMER: (ConsumerGroup, partial(expire_member, reason=CLASSIC_NOT_SYNCED_FENCE)),
    SHARE_SESSION_TIMER: (ShareGroup, expire_share_session),
    STREAMS_SESSION_TIMER: (StreamsGroup, expire_streams_session),
    STREAMS_REVOCATION_TIMER: (StreamsGroup, expire_streams_revocation),
    STREAMS_INITIAL_TIMER: (StreamsGroup, begin_streams_assignment),
}


def _result(operation: Operation, batch: Batch | None) -> Result:
    batches = () if batch is None else (batch,)
    return Result(batches, tuple(operation.responses), tuple(operation.events))

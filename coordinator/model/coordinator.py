"""Models the group coordinator of one broker: the partitions that it leads, and the partition that a request belongs
to.

A group belongs to the `__consumer_offsets` partition that its id hashes to, and the broker that leads this partition
coordinates it. The model does no I/O: the caller passes requests and the time, writes the batches to a log, sends the
responses to their clients, and calls `advance` when `next_deadline_ms` has come.

    handle(request, now_ms)    handles one request; the response may be in this result or in any later one
    advance(now_ms)            fires every timer that is due, each at its own deadline
    load / unload              the broker becomes, or ceases to be, leader of a partition

`append_error` says that the append of this call will fail, and with which error. Authorization and the check that
topics exist come before the coordinator, in Kafka as here: the caller passes on only requests that passed them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.deadlines import Deadlines
from groupledger.coordinator.model.groups.any_group import of_type
from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.modern.topics import KnownTopics
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.streams.assignors import in_turn
from groupledger.coordinator.model.groups.streams.group import StreamsGroup
from groupledger.coordinator.model.handlers.administration import delete_groups, describe_group, list_groups
from groupledger.coordinator.model.handlers.classic.rebalance import expire_session, rebalance_by_leader
from groupledger.coordinator.model.handlers.consumer.epochs import begin_epoch
from groupledger.coordinator.model.handlers.consumer.membership import expire_member
from groupledger.coordinator.model.handlers.consumer.requests import describe_consumer_group, refusal_of_fetch
from groupledger.coordinator.model.handlers.offsets import delete_offsets_of_partitions, fetch_offsets
from groupledger.coordinator.model.handlers.share.heartbeat import expire_share_session
from groupledger.coordinator.model.handlers.share.requests import describe_share_group, mark_states_deleting
from groupledger.coordinator.model.handlers.streams.heartbeat import expire_streams_session
from groupledger.coordinator.model.handlers.streams.messages import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from groupledger.coordinator.model.handlers.streams.requests import describe_streams_group, refusal_of_streams_fetch
from groupledger.coordinator.model.handlers.table import CHECKS, CLASSIC_HANDLERS, HANDLERS
from groupledger.coordinator.model.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedShareGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
    refusal,
)
from groupledger.coordinator.model.operation import PartitionState, Result
from groupledger.coordinator.model.shard import Shard
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.groups.any_group import AnyGroup
    from groupledger.coordinator.model.groups.streams.assignors import StreamsAssignor
    from groupledger.coordinator.model.operation import Batch, Operation
    from groupledger.schemas.kafka.topic_partition import TopicPartition

_SYNC_NAMES_PROTOCOL_SINCE = 5
_TXN_KNOWS_LOADING_SINCE = 2


class Coordinator:
    """The coordinator of one broker. It leads no partition until `load` or `start_loading` is called for one. The times
    of its calls must never go back."""

    def __init__(
        self,
        config: Config | None = None,
        topics: KnownTopics | None = None,
        streams_assignor: StreamsAssignor = in_turn,
    ) -> None:
        self.config = config or Config()
        self._streams_assignor = streams_assignor
        self.topics = KnownTopics() if topics is None else topics  # the input of the broker's own assignors
        self.is_active = True  # False before startup and after shutdown: everything is refused
        self._deadlines = Deadlines()
        self._shards: dict[int, Shard | None] = {}  # None while the partition is loading
        self._now_ms = 0

    # Time

    def next_deadline_ms(self) -> int | None:
        return self._deadlines.next_deadline_ms()

    def advance(self, now_ms: int, *, append_error: Error = Error.NONE) -> Result:
        """Fires all timers that are due at or before `now_ms`, each at its own deadline. Timers go before a request of
        the same instant."""
        results = []
        while (due := self._deadlines.pop_due(now_ms)) is not None:
            deadline_ms, timer = due
            shard = self._shards.get(timer[1])
            if shard is not None:
                self._move_to(max(deadline_ms, self._now_ms))
                result = shard.fire(timer, now_ms=self._now_ms, append_error=append_error)
                results.append(result)
        self._move_to(now_ms)
        return Result.of(results)

    def _move_to(self, now_ms: int) -> None:
        if now_ms < self._now_ms:
            raise ValueError(f"time went back from {self._now_ms} ms to {now_ms} ms")
        self._now_ms = now_ms

    # Leadership

    def start_loading(self, partition: int) -> None:
        """Makes this broker the leader of a partition whose log is not read yet. Until `load`, requests about its
        groups are refused with COORDINATOR_LOAD_IN_PROGRESS."""
        self._shards[partition] = None

    def load(self, partition: int, batches: Iterable[Batch], *, now_ms: int) -> Result:
        """Makes this broker the leader of a partition whose log consists of these batches, in order.

        Raises IllegalStateError for a record that Kafka itself could not load, because a subscription in it makes the
        broker's reader throw. No 4.2 broker writes such a record.
        """
        self._move_to(now_ms)
        self._deadlines.cancel_partition(partition)
        state = PartitionState(
            partition=partition,
            config=self.config,
            deadlines=self._deadlines,
            topics=self.topics,
            streams_assignor=self._streams_assignor,
        )
        shard = Shard(state)
        self._shards[partition] = shard
        return shard.load(batches, now_ms)

    def unload(self, partition: int, *, now_ms: int) -> Result:
        """Stops leading a partition. Requests that wait there are answered with NOT_COORDINATOR."""
        self._move_to(now_ms)
        shard = self._shards.pop(partition, None)
        return Result() if shard is None else shard.unload(now_ms)

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.config.offsets_topic_num_partitions)

    def shard(self, partition: int) -> Shard | None:
        """Returns the state of a partition. Returns None if it is not led here, or is still loading. Callers only read
        it."""
        return self._shards.get(partition)

    def group(self, group_id: str) -> Group | None:
        """Returns the live classic group with this id, or None. Callers only read it."""
        return of_type(self._group(group_id), Group)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Returns the KIP-848 group with this id, or None. Callers only read it."""
        return of_type(self._group(group_id), ConsumerGroup)

    def share_group(self, group_id: str) -> ShareGroup | None:
        """Returns the share group with this id, or None. Callers only read it."""
        return of_type(self._group(group_id), ShareGroup)

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """Returns the streams group with this id, or None. Callers only read it."""
        return of_type(self._group(group_id), StreamsGroup)

    def _group(self, group_id: str) -> AnyGroup | None:
        shard = self.shard(self.partition_for(group_id))
        return None if shard is None else shard.groups.get(group_id)

    # For tests

    def expire_member(self, group_id: str, member_id: str, *, now_ms: int) -> Result:
        """Ends a member's session now, as if it had been silent for its whole timeout. Does nothing if there is no such
        member, or if a request of it waits for a response."""
        return self._force(group_id, now_ms, lambda group, operation: _EXPIRE[type(group)](group, member_id, operation))

    def begin_rebalance(self, group_id: str, *, now_ms: int) -> Result:
        """Begins a rebalance as if the leader had asked for one, or in a KIP-848 group a new epoch, whose target the
        next heartbeat computes. Does nothing if no rebalance can begin, nor in share and streams groups."""
        return self._force(group_id, now_ms, _begin_rebalance)

    def _force(self, group_id: str, now_ms: int, action: Callable[[Any, Operation], None]) -> Result:
        self._move_to(now_ms)
        shard = self.shard(self.partition_for(group_id))
        group = None if shard is None else shard.groups.get(group_id)
        if shard is None or group is None:
            return Result()
        return shard.run(action, group, now_ms=now_ms, append_error=Error.NONE)

    # Requests

    def handle(self, request: Request, *, now_ms: int, append_error: Error = Error.NONE) -> Result:
        """Handles one request. Timers that are due have to fire before it, so the caller must `advance` to `now_ms`
        first."""
        self._move_to(now_ms)
        if type(request) not in CLASSIC_HANDLERS:
            return _ROUTERS[type(request)](self, request, append_error)
        shard = self._route(request)
        if isinstance(shard, Shard):
            group = shard.groups.get(request.group_id)  # type: ignore[attr-defined]
            handler = HANDLERS[None if group is None else type(group)][type(request)]
            return shard.run(handler, request, now_ms=now_ms, append_error=append_error)
        return Result(responses=(_refused(request, shard),))

    def _route(self, request: Any) -> Shard | Error:
        """Returns the shard that a request about one group belongs to, or why it is refused before."""
        kind = type(request)
        is_named = kind is SyncGroupRequest and request.api_version >= _SYNC_NAMES_PROTOCOL_SINCE
        if is_named and None in (request.protocol_type, request.protocol_name):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        if not self.is_active:
            return Error.COORDINATOR_NOT_AVAILABLE
        if kind in CHECKS and (error := CHECKS[kind](request, self.config)) is not Error.NONE:
            return error
        if not request.group_id and kind is not OffsetCommitRequest:
            return Error.INVALID_GROUP_ID
        if kind is JoinGroupRequest:
            limits = self.config.group_min_session_timeout_ms, self.config.group_max_session_timeout_ms
            if not limits[0] <= request.session_timeout_ms <= limits[1]:
                return Error.INVALID_SESSION_TIMEOUT
        return self._shard(self.partition_for(request.group_id))

    def _shard(self, partition: int) -> Shard | Error:
        if not self.is_active:
            return Error.COORDINATOR_NOT_AVAILABLE
        shard = self._shards.get(partition, Error.NOT_COORDINATOR)
        return Error.COORDINATOR_LOAD_IN_PROGRESS if shard is None else shard

    def _write_txn_marker(self, request: WriteTxnMarkerRequest, append_error: Error) -> Result:
        shard = self._shard(request.partition)
        if not isinstance(shard, Error) and append_error is Error.NONE:
            return shard.write_txn_marker(request, self._now_ms)
        # The transaction coordinator does not know a group coordinator's errors.
        error = Error.NOT_LEADER_OR_FOLLOWER if isinstance(shard, Error) else append_error
        return Result(responses=(refusal(request, error),))

    def _fetch_offsets(self, request: OffsetFetchRequest, _: Error) -> Result:
        groups = []
        for asked in request.groups:
            shard = self._shard(self.partition_for(asked.group_id))
            if isinstance(shard, Error):
                groups.append(FetchedGroup(asked.group_id, shard))
            else:
                groups.append(_fetched(shard, asked, require_stable=request.require_stable))
        return Result(responses=(OffsetFetchResponse(request.request_id, tuple(groups)),))

    def _describe_groups(self, request: DescribeGroupsRequest, _: Error) -> Result:
        groups = []
        for group_id in request.group_ids:
            shard = self._shard(self.partition_for(group_id))
            if isinstance(shard, Error):
                groups.append(DescribedGroup(group_id=group_id, error=shard))
            else:
                groups.append(describe_group(shard.shown_group(group_id), group_id, request.api_version))
        return Result(responses=(DescribeGroupsResponse(request.request_id, tuple(groups)),))

    def _describe_consumer_groups(self, request: ConsumerGroupDescribeRequest, _: Error) -> Result:
        groups = []
        for group_id in request.group_ids:
            shard = self._shard(self.partition_for(group_id))
            if isinstance(shard, Error):
                groups.append(DescribedConsumerGroup(group_id=group_id, error=shard))
            else:
                group = of_type(shard.shown_group(group_id), ConsumerGroup)
                groups.append(describe_consumer_group(group, group_id, self.config, self.topics))
        return Result(responses=(ConsumerGroupDescribeResponse(request.request_id, groups=tuple(groups)),))

    def _describe_share_groups(self, request: ShareGroupDescribeRequest, _: Error) -> Result:
        groups = []
        for group_id in request.group_ids:
            shard = self._shard(self.partition_for(group_id))
            if isinstance(shard, Error):
                groups.append(DescribedShareGroup(group_id=group_id, error=shard))
            else:
                group = of_type(shard.shown_group(group_id), ShareGroup)
                groups.append(describe_share_group(group, group_id))
        return Result(responses=(ShareGroupDescribeResponse(request.request_id, groups=tuple(groups)),))

    def _describe_streams_groups(self, request: StreamsGroupDescribeRequest, _: Error) -> Result:
        groups = []
        for group_id in request.group_ids:
            shard = self._shard(self.partition_for(group_id))
            if isinstance(shard, Error):
                groups.append(DescribedStreamsGroup(group_id=group_id, error=shard))
            else:
                group = of_type(shard.shown_group(group_id), StreamsGroup)
                groups.append(describe_streams_group(group, group_id))
        return Result(responses=(StreamsGroupDescribeResponse(request.request_id, groups=tuple(groups)),))

    def _list_groups(self, request: ListGroupsRequest, _: Error) -> Result:
        """Lists the groups of all partitions that are led here; refused while one of them loads."""
        groups: list[ListedGroup] = []
        for partition in self._shards:
            shard = self._shard(partition)
            if isinstance(shard, Error):
                return Result(responses=(refusal(request, shard),))
            groups.extend(list_groups(shard.shown_groups(), request))
        return Result(responses=(ListGroupsResponse(request.request_id, Error.NONE, tuple(groups)),))

    def _delete_groups(self, request: DeleteGroupsRequest, append_error: Error) -> Result:
        """Deletes with one batch for each partition, and one before it for the states of its share groups. Each group
        has its own answer, whatever happens to the others."""
        by_partition: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(request.group_ids):
            by_partition.setdefault(self.partition_for(group_id), []).append(group_id)
        results = []
        for partition, group_ids in by_partition.items():
            part = replace(request, group_ids=tuple(group_ids))
            shard = self._shard(partition)
            if isinstance(shard, Error):
                results.append(Result(responses=(refusal(part, shard),)))
            else:
                # A broker has the groups in a set by then.
                order = hash_map_order(group_ids, expected_size=len(group_ids))
                results += [
                    shard.run(mark_states_deleting, part, now_ms=self._now_ms, append_error=append_error),
                    shard.run(
                        delete_groups,
                        replace(part, group_ids=tuple(order)),
                        now_ms=self._now_ms,
                        append_error=append_error,
                    ),
                ]
        result = Result.of(results)
        parts = [response for response in result.responses if isinstance(response, DeleteGroupsResponse)]
        deleted = tuple(one for part_response in parts for one in part_response.results)
        return result._replace(responses=(DeleteGroupsResponse(request.request_id, deleted),))

    def delete_partitions(
        self, partitions: tuple[TopicPartition, ...], *, now_ms: int, append_error: Error = Error.NONE
    ) -> Result:
        """Writes tombstones for the offsets of these partitions, because their topics were deleted."""
        self._move_to(now_ms)
        shards = [shard for shard in self._shards.values() if shard is not None]
        return Result.of(
            shard.run(delete_offsets_of_partitions, partitions, now_ms=now_ms, append_error=append_error)
            for shard in shards
        )


def _refused(request: Request, error: Error) -> Response:
    """Returns the answer to a request that no shard took; some APIs answer an error of their own."""
    if error is Error.COORDINATOR_LOAD_IN_PROGRESS:
        if isinstance(request, HeartbeatRequest):
            error = Error.NONE  # the member is given the benefit of the doubt
        elif isinstance(request, TxnOffsetCommitRequest) and request.api_version < _TXN_KNOWS_LOADING_SINCE:
            error = Error.COORDINATOR_NOT_AVAILABLE  # older producers may crash on the other one
    response = refusal(request, error)
    if isinstance(request, JoinGroupRequest) and isinstance(response, JoinGroupResponse):
        is_routed = error in (Error.NOT_COORDINATOR, Error.COORDINATOR_LOAD_IN_PROGRESS)
        return replace(response, member_id="" if is_routed else request.member_id)
    return response


def _fetched(shard: Shard, asked: OffsetFetchGroup, *, require_stable: bool) -> FetchedGroup:
    group = shard.shown_group(asked.group_id)
    error = Error.NONE
    if isinstance(group, ConsumerGroup):
        error = refusal_of_fetch(group, asked)
    elif isinstance(group, StreamsGroup):
        error = refusal_of_streams_fetch(group, asked)
    if error is not Error.NONE:
        return FetchedGroup(asked.group_id, error)
    is_known = group is not None and not isinstance(group, ShareGroup) and group.state is not State.DEAD
    return fetch_offsets(asked, shard.offsets, is_known=is_known, require_stable=require_stable)


def _begin_rebalance(group: AnyGroup, operation: Operation) -> None:
    if isinstance(group, Group):
        rebalance_by_leader(group, operation)
    elif isinstance(group, ConsumerGroup):
        begin_epoch(group, operation)


_EXPIRE: dict[type[AnyGroup], Callable[[Any, str, Operation], None]] = {
    Group: expire_session,
    ConsumerGroup: expire_member,
    ShareGroup: expire_share_session,
    StreamsGroup: expire_streams_session,
}
_ROUTERS: dict[type[Request], Callable[[Coordinator, Any, Error], Result]] = {
    WriteTxnMarkerRequest: Coordinator._write_txn_marker,  # noqa: SLF001  # the class's own table
    OffsetFetchRequest: Coordinator._fetch_offsets,  # noqa: SLF001
    DescribeGroupsRequest: Coordinator._describe_groups,  # noqa: SLF001
    ListGroupsRequest: Coordinator._list_groups,  # noqa: SLF001
    DeleteGroupsRequest: Coordinator._delete_groups,  # noqa: SLF001
    ConsumerGroupDescribeRequest: Coordinator._describe_consumer_groups,  # noqa: SLF001
    ShareGroupDescribeRequest: Coordinator._describe_share_groups,  # noqa: SLF001
    StreamsGroupDescribeRequest: Coordinator._describe_streams_groups,  # noqa: SLF001
}

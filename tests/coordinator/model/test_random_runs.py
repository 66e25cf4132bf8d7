"""Random runs of one group through everything that clients, time, failovers and a failing log can do to it.

After every step the invariants of the protocol and of our own bookkeeping hold, and the durable state is the fold of
the log. The runs are the same every time (derandomized), so that the visited states can be counted and required."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.classic.states import TRANSITIONS, Event, State
from groupledger.coordinator.model.handlers.classic.rebalance import (
    INITIAL_JOIN_TIMER,
    JOIN_TIMER,
    SESSION_TIMER,
    SYNC_TIMER,
)
from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetDeleteRequest,
    WriteTxnMarkerRequest,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

RANGE = ("range", b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff")
ROUNDROBIN = ("roundrobin", RANGE[1])
PROTOCOLS = [(RANGE,), (RANGE, ROUNDROBIN), (ROUNDROBIN, RANGE), (("range", b"\0"),)]
LIVE_TRANSITIONS = {(state, event) for state, row in TRANSITIONS.items() if state is not None for event in row}

FIRST_MEMBERS: list[list[str | None]] = [
    [],
    [None],
    [None, None, None],
    ["instance-1", None],
    ["instance-1", "instance-2"],
]

members = st.integers(0, 5)
instances = st.sampled_from([None, None, "instance-1", "instance-2"])
shifts = st.sampled_from([0, 0, 0, 0, -1, 1])
append_errors = st.sampled_from([Error.NONE] * 7 + [Error.NOT_ENOUGH_REPLICAS])


class GroupMachine(RuleBasedStateMachine):
    new_driver: Callable[..., Any]
    assert_is_fold: Callable[..., None]

    @initialize(max_size=st.sampled_from([3, 100]), instance_ids=st.sampled_from(FIRST_MEMBERS))
    def start(self, max_size: int, instance_ids: list[str | None]) -> None:
        self.driver = type(self).new_driver(group_max_size=max_size, offsets_topic_num_partitions=2)
        self.member_ids = ["never-given"]
        self.seen: Group | None = None
        self.seen_generation = 0
        if instance_ids:
            self.member_ids += [member.member_id for member in self.driver.stable_group(*instance_ids).members]

    @property
    def group(self) -> Group | None:
        group: Group | None = self.driver.coordinator.group(self.driver.group_id)
        return group

    def member_id(self, index: int) -> str:
        """One of the newest ids that were given out, whatever has become of it."""
        return self.member_ids[-1 - index % len(self.member_ids)]

    def generation(self, shift: int) -> int:
        return (0 if self.group is None else self.group.generation_id) + shift

    # Membership

    @rule(
        index=st.one_of(st.none(), members),
        instance_id=instances,
        protocols=st.sampled_from(PROTOCOLS),
        api_version=st.sampled_from([3, 8, 9]),
        rebalance_ms=st.sampled_from([3_000, 10_000]),
        error=append_errors,
    )
    def join(
        self,
        index: int | None,
        instance_id: str | None,
        protocols: Any,
        api_version: int,
        rebalance_ms: int,
        error: Error,
    ) -> None:
        member_id = "" if index is None else self.member_id(index)
        self.driver.fail_next_append(error)
        options = {"protocols": protocols, "api_version": api_version, "rebalance_ms": rebalance_ms}
        call = self.driver.join(member_id, instance_id=instance_id, **options)
        if index is None:
            self.member_ids.append(f"{instance_id or 'client'}-{call.request.new_member_uuid}")

    @rule(index=members, shift=shifts, instance_id=st.sampled_from([None, None, "instance-1"]), error=append_errors)
    def sync(self, index: int, shift: int, instance_id: str | None, error: Error) -> None:
        self.driver.fail_next_append(error)
        names = {"protocol_type": None, "protocol_name": None, "api_version": 4}
        self.driver.sync(self.member_id(index), self.generation(shift), instance_id=instance_id, **names)

    @precondition(lambda self: self.group is not None and self.group.state is State.PREPARING_REBALANCE)
    @rule()
    def everybody_rejoins(self) -> None:
        for member in self.group.members.values() if self.group else ():
            self.driver.join(member.member_id, instance_id=member.group_instance_id, protocols=member.protocols)

    @precondition(lambda self: self.group is not None and self.group.state is State.COMPLETING_REBALANCE)
    @rule(error=append_errors)
    def leader_syncs(self, error: Error) -> None:
        assert self.group is not None
        assert self.group.leader_id is not None
        self.driver.fail_next_append(error)
        assignments = {member_id: member_id.encode() for member_id in self.group.members}
        names = {"protocol_type": None, "protocol_name": None, "api_version": 4}
        self.driver.sync(self.group.leader_id, self.group.generation_id, assignments, **names)

    @rule(index=members, shift=shifts, instance_id=instances)
    def heartbeat(self, index: int, shift: int, instance_id: str | None) -> None:
        self.driver.heartbeat(self.member_id(index), self.generation(shift), instance_id=instance_id)

    @rule(leaving=st.lists(st.one_of(members, st.sampled_from(["instance-1"])), min_size=1, max_size=3))
    def leave(self, leaving: list[int | str]) -> None:
        identities = [
            LeavingMember("", one) if isinstance(one, str) else LeavingMember(self.member_id(one)) for one in leaving
        ]
        request = LeaveGroupRequest(self.driver.next_request_id(), self.driver.group_id, tuple(identities))
        assert len(self.driver.answer(request).members) == len(leaving)

    # Offsets

    @rule(index=st.one_of(st.none(), members), shift=shifts, offset=st.integers(-1, 9), error=append_errors)
    def commit(self, index: int | None, shift: int, offset: int, error: Error) -> None:
        self.driver.fail_next_append(error)
        group = self.group
        known = {} if group is None else {member.member_id for member in group.members.values()}
        if index is None:
            accepted = self.driver.commit(offset) is Error.NONE
            assert not accepted or group is None or group.state is State.EMPTY
            return
        member_id, generation = self.member_id(index), self.generation(shift)
        if self.driver.commit(offset, member_id=member_id, generation_id=generation) is Error.NONE:
            # A negative generation says that the client takes part in no generation.
            is_outside = generation < 0 and (group is None or group.state is State.EMPTY)
            is_member = group is not None and member_id in known and generation == group.generation_id
            assert is_outside or is_member

    @rule(producer_id=st.integers(1, 3), offset=st.integers(0, 9), error=append_errors)
    def commit_in_transaction(self, producer_id: int, offset: int, error: Error) -> None:
        self.driver.fail_next_append(error)
        assert self.driver.txn_commit(producer_id, offset) in (Error.NONE, Error.COORDINATOR_NOT_AVAILABLE)

    @rule(producer_id=st.integers(1, 3), committed=st.booleans())
    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        partition = self.driver.coordinator.partition_for(self.driver.group_id)
        request = WriteTxnMarkerRequest(
            self.driver.next_request_id(),
            partition=partition,
            producer_id=producer_id,
            producer_epoch=0,
            committed=committed,
        )
        assert self.driver.answer(request).error is Error.NONE

    @rule(topic=st.sampled_from(["orders", "other"]), error=append_errors)
    def delete_offset(self, topic: str, error: Error) -> None:
        self.driver.fail_next_append(error)
        request = OffsetDeleteRequest(self.driver.next_request_id(), self.driver.group_id, (TopicPartition(topic, 0),))
        assert self.driver.answer(request).error in (
            Error.NONE,
            Error.GROUP_ID_NOT_FOUND,
            Error.COORDINATOR_NOT_AVAILABLE,
        )

    @rule(error=append_errors)
    def delete_group(self, error: Error) -> None:
        state = None if self.group is None else self.group.state
        self.driver.fail_next_append(error)
        request = DeleteGroupsRequest(self.driver.next_request_id(), (self.driver.group_id,))
        deleted = self.driver.answer(request).results[0].error is Error.NONE
        assert deleted == (state is State.EMPTY and error is Error.NONE)

    # Time and leadership

    @rule(milliseconds=st.sampled_from([1, 700, 700, 3_000, 10_000, 600_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    @rule()
    def next_timer_fires(self) -> None:
        self.driver.advance(max(0, self.driver.coordinator.next_deadline_ms() - self.driver.now_ms))

    @rule(happens=st.sampled_from([False, False, False, True]))
    def failover(self, *, happens: bool) -> None:
        if happens:
            self.fail_over()

    @precondition(lambda self: self.group is not None and self.group.state is State.COMPLETING_REBALANCE)
    @rule()
    def failover_in_the_sync_phase(self) -> None:
        self.fail_over()

    def fail_over(self) -> None:
        """The old leader hears twice that it is one no longer; the new one reads the log."""
        coordinator, now_ms = self.driver.coordinator, self.driver.now_ms
        shard = coordinator.shard(coordinator.partition_for(self.driver.group_id))
        self.driver.unload()
        assert shard.unload(now_ms).responses == ()
        self.driver.failover()

    # Invariants

    @invariant()
    def group_is_consistent(self) -> None:
        group = self.group
        if group is None:
            return
        rows = group.members.values()
        assert group.num_awaiting_join == sum(member.awaiting_join is not None for member in rows)
        offered = Counter(name for member in rows for name, _ in member.protocols)
        assert {name: count for name, count in group.supported_protocols.items() if count} == offered
        instances_of = {member.group_instance_id: member.member_id for member in rows if member.group_instance_id}
        assert group.static_members == instances_of
        assert group.leader_id in [member.member_id for member in rows] if rows else group.leader_id is None
        assert not rows or group.state is not State.EMPTY
        assert group.state is State.PREPARING_REBALANCE or group.num_awaiting_join == 0
        assert group.state is State.COMPLETING_REBALANCE or all(member.awaiting_sync is None for member in rows)

    @invariant()
    def nothing_waits_forever(self) -> None:
        group = self.group
        if group is None:
            return
        deadlines = self.driver.coordinator._deadlines
        partition = self.driver.coordinator.partition_for(group.group_id)

        def is_set(kind: str, member_id: str = "") -> bool:
            return (kind, partition, group.group_id, member_id) in deadlines

        if group.state is State.PREPARING_REBALANCE:
            assert is_set(JOIN_TIMER) or is_set(INITIAL_JOIN_TIMER)
        assert is_set(SYNC_TIMER) or not group.pending_sync_members
        for member in group.members.values():
            assert member.has_satisfied_heartbeat or is_set(SESSION_TIMER, member.member_id)
        assert all(is_set(SESSION_TIMER, member_id) for member_id in group.pending_join_members)

    @invariant()
    def generation_grows(self) -> None:
        """As long as the group lives; after a failover an unsynced generation is forgotten."""
        group = self.group
        if group is not None and group is self.seen:
            assert group.generation_id >= self.seen_generation
        self.seen, self.seen_generation = group, 0 if group is None else group.generation_id

    @invariant()
    def durable_state_is_the_fold_of_the_log(self) -> None:
        type(self).assert_is_fold(self.driver.coordinator, self.driver.batches, self.driver.now_ms)


@pytest.mark.slow
def test_random_runs(
    new_driver: Callable[..., Any], assert_is_fold: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All states, and at least 95 of 100 transitions of the table, are visited; the invariants hold throughout."""
    visited: Counter[tuple[State, Event]] = Counter()
    original = Group.apply

    def counting(self: Group, event: Event, now_ms: int) -> None:
        old = self.state
        original(self, event, now_ms)
        visited[old, event] += 1

    monkeypatch.setattr(Group, "apply", counting)
    monkeypatch.setattr(GroupMachine, "new_driver", staticmethod(new_driver), raising=False)
    monkeypatch.setattr(GroupMachine, "assert_is_fold", staticmethod(assert_is_fold), raising=False)
    # Hypothesis also draws constants of the modules that are loaded, so that which runs are made depends on the tests
    # before this one. If these runs miss a rare transition, others follow.
    for count, is_repeatable in ((150, True), (600, False)):
        if len(visited) < 0.95 * len(LIVE_TRANSITIONS):
            run_state_machine_as_test(
                GroupMachine,
                settings=settings(
                    max_examples=count,
                    stateful_step_count=50,
                    deadline=None,
                    derandomize=is_repeatable,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
    assert set(visited) <= LIVE_TRANSITIONS
    assert {state for state, _ in visited} == set(State)
    assert len(visited) >= 0.95 * len(LIVE_TRANSITIONS)

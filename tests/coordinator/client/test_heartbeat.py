"""The heartbeat thread and its three timers: the next heartbeat, the session, and the application's poll."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.coordinator.client.consumer import MemberState
from groupledger.coordinator.client.events import (
    CoordinatorUnknown,
    Joined,
    Left,
    Lost,
    PollTimeout,
    RejoinRequested,
    Revoked,
)
from groupledger.coordinator.client.messages import FindCoordinatorRequest
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

SESSION_EXPIRED = "session timed out without receiving a heartbeat response"


def test_heartbeats_at_their_interval_while_the_application_processes(cluster: Any) -> None:
    """Goal: every heartbeat.interval.ms from the JoinGroup's success on, by the background thread alone."""
    member = cluster.start("a")
    cluster.run()
    joined_ms = cluster.now_ms
    member.is_polling = False
    cluster.run(10_000)
    assert member.times(HeartbeatRequest) == [joined_ms + 3_000, joined_ms + 6_000, joined_ms + 9_000]


def test_heartbeats_go_on_without_answers_until_the_session_expires(cluster: Any, silence: str) -> None:
    """Goal: a silent coordinator costs the session, then the coordinator, then it is looked up and the member stays."""
    member = cluster.start("a", request_timeout_ms=60_000)
    cluster.run()
    joined_ms = cluster.now_ms
    cluster.script(HeartbeatRequest, *[silence] * 14)
    member.is_polling = False
    cluster.run(45_000)
    assert len(member.times(HeartbeatRequest)) == 14
    assert [(one.happened_at_ms, one.reason) for one in member.seen(CoordinatorUnknown)] == [
        (joined_ms + 45_000, SESSION_EXPIRED)
    ]
    assert member.times(FindCoordinatorRequest)[-1] == joined_ms + 45_000
    # Fourteen lost heartbeats make the longest backoff. The broker heard none of them, so the next one comes too late.
    cluster.run(1_000)
    assert member.consumer.state is MemberState.UNJOINED
    member.is_polling = True
    cluster.run(1_000)
    assert len(member.seen(Lost)) == 1
    assert len(member.seen(Joined)) == 2


def test_poll_expiry_leaves_the_group(cluster: Any) -> None:
    """Goal: past max.poll.interval.ms the thread leaves with the client's words, which the broker logs; partitions are
    lost when the application comes back, and it joins as a new member."""
    member = cluster.start("a", max_poll_interval_ms=20_000)
    cluster.run()
    joined_ms, member_id = cluster.now_ms, member.consumer.member_id
    member.is_polling = False
    member.forget()
    cluster.run(60_000)

    (timeout,) = member.seen(PollTimeout)
    assert (timeout.happened_at_ms, timeout.member_id) == (joined_ms + 20_000, member_id)
    assert len(member.requests(LeaveGroupRequest)) == 1
    assert member.seen(Left)[0].reason == "consumer poll timeout has expired."
    assert cluster.kinds("member_left")[0]["client_reason"] == "consumer poll timeout has expired."
    assert max(member.times(HeartbeatRequest)) < joined_ms + 20_000
    assert member.consumer.state is MemberState.UNJOINED
    assert member.partitions == [0, 1, 2, 3, 4, 5]  # the application does not know yet

    member.is_polling = True
    cluster.run(5_000)
    assert len(member.seen(Lost)) == 1
    first, second = member.requests(JoinGroupRequest)
    assert (first.member_id, first.reason) == ("", "consumer pro-actively leaving the group")
    assert second.reason == f"need to re-join with the given member-id: {second.member_id}"
    assert member.seen(Joined)[-1].generation_id == 3


def test_poll_in_time_keeps_the_membership(cluster: Any) -> None:
    """Goal: the poll timer starts over with each poll."""
    member = cluster.start("a", max_poll_interval_ms=20_000)
    cluster.run()
    member.is_polling = False
    for _ in range(5):
        cluster.run(19_000)
        member.poll()
    assert member.seen(PollTimeout) == []
    assert member.consumer.state is MemberState.STABLE


def test_static_member_does_not_leave_on_poll_expiry(cluster: Any) -> None:
    """Goal: a static member just stops its heartbeats; back in time it takes its old place without a rebalance."""
    settings = {"group_instance_id": "one", "max_poll_interval_ms": 20_000}
    member = cluster.start("a", **settings)
    cluster.run()
    member.is_polling = False
    cluster.run(30_000)
    assert len(member.seen(PollTimeout)) == 1
    assert member.requests(LeaveGroupRequest) == []
    member.is_polling = True
    cluster.run(1_000)
    assert [one.generation_id for one in member.seen(Joined)] == [1, 1]
    assert len(member.seen(Lost)) == 1
    assert len(cluster.kinds("static_member_replaced")) == 1


def test_no_heartbeats_while_the_join_group_is_out(cluster: Any) -> None:
    """Goal: an application that polls once, starts a rejoin and then processes for long neither beats nor hears that
    the join succeeded; the broker's session timer removes it."""
    settings = {"assignors": ("cooperative-sticky",), "enable_auto_commit": False}
    slow = cluster.start("a", **settings)
    cluster.run(1_000)
    cluster.start("b", **settings)
    cluster.run(1_999)
    slow.is_polling = False
    cluster.run(1)
    slow.forget()
    slow.poll()  # finds the rebalance, and sends JoinGroup
    cluster.run(50_000)
    assert "JoinGroupResponse" in [type(one).__name__ for one in slow.responses]
    assert slow.consumer.state is MemberState.PREPARING_REBALANCE
    assert (len(slow.requests(JoinGroupRequest)), slow.requests(HeartbeatRequest)) == (1, [])
    assert cluster.kinds("member_failed")[0]["member_id"] == slow.consumer.member_id
    slow.is_polling = True
    cluster.run()
    assert len(slow.requests(SyncGroupRequest)) == 1
    assert slow.requests(JoinGroupRequest)[1].reason == "rebalance failed due to UnknownMemberIdException"


@pytest.mark.parametrize("application_first", [False, True])
def test_process_that_stood_still(cluster: Any, application_first: bool) -> None:
    """Goal: a pause beyond the session timeout costs the membership, whichever thread wakes first. Only the heartbeat
    thread finds that its own session timer has run out too; the application's poll hears it from the broker."""
    member = cluster.start("a", max_poll_interval_ms=600_000, auto_offset_reset="earliest")
    cluster.run(1_000)
    cluster.start("b", max_poll_interval_ms=600_000, auto_offset_reset="earliest")
    cluster.run(5_000)
    generation_id, member_id = member.consumer.generation_id, member.consumer.member_id
    member.freeze()
    cluster.run(60_000)
    member.forget()
    member.thaw(application_first=application_first)
    cluster.run(4_000)
    assert len(member.seen(CoordinatorUnknown)) == 1
    assert len(member.seen(Lost)) == 1
    assert member.seen(Joined)[-1].generation_id > generation_id
    assert member.consumer.member_id != member_id


def test_rebalance_is_heard_of_with_a_heartbeat(cluster: Any) -> None:
    """Goal: in a rebalance of others the member learns of it by its next heartbeat, keeps its session, and rejoins with
    the next poll."""
    member = cluster.start("a")
    cluster.run(1_000)
    cluster.start("b")
    member.is_polling = False
    cluster.run(7_000)
    assert [one.reason for one in member.seen(RejoinRequested)][-1] == "group is already rebalancing"
    assert len(member.requests(HeartbeatRequest)) == 2
    assert member.consumer.state is MemberState.STABLE
    member.is_polling = True
    cluster.run()
    assert len(member.seen(Revoked)) == 1
    assert member.consumer.state is MemberState.STABLE

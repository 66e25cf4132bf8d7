"""Commits: on request, by the interval, before a rejoin, at close, and those that come too late."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from groupledger.coordinator.client.events import (
    CommitFailed,
    CommitSucceeded,
    CoordinatorUnknown,
    Fenced,
    Joined,
    Left,
    Lost,
    Revoked,
)
from groupledger.coordinator.client.messages import Destination, FindCoordinatorRequest
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    PartitionResult,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

EARLIEST = {"auto_offset_reset": "earliest"}


def test_commits_what_was_polled_every_interval(cluster: Any) -> None:
    """Goal: auto.commit.interval.ms after the join and after each commit, the positions of that poll."""
    member = cluster.start("a", **EARLIEST)
    cluster.run()
    joined_ms = cluster.now_ms
    for _ in range(11):
        cluster.produce("payments", 1)
        cluster.run(1_000)
    assert member.times(OffsetCommitRequest) == [joined_ms + 5_000, joined_ms + 10_000]
    first, second = member.seen(CommitSucceeded)
    assert [one.offset for one in first.offsets] == [5] * 6
    assert [one.offset for one in second.offsets] == [10] * 6
    assert first.offsets[0].leader_epoch == 0  # of the last record
    assert set(cluster.committed().values()) == {10}


def test_auto_commit_needs_a_poll(cluster: Any) -> None:
    """Goal: automatic commits need the application's poll: while it processes records, nothing is committed."""
    member = cluster.start("a", **EARLIEST)
    cluster.run()
    member.is_polling = False
    cluster.run(60_000)
    assert member.requests(OffsetCommitRequest) == []
    member.poll()
    cluster.run()
    assert len(member.requests(OffsetCommitRequest)) == 1


def test_commit_on_request(cluster: Any) -> None:
    """Goal: all positions, or the offsets that were asked for; without auto-commit no other."""
    cluster.topic("payments", 6)
    member = cluster.start("a", enable_auto_commit=False, **EARLIEST)
    cluster.run()
    cluster.produce("payments", 3)
    cluster.run()
    member.consumer.commit(cluster.now_ms, {TopicPartition("payments", 4): 1})
    cluster.run()
    assert cluster.committed() == {4: 1}
    member.consumer.commit(cluster.now_ms)
    cluster.run(60_000)
    assert set(cluster.committed().values()) == {3}
    assert len(member.requests(OffsetCommitRequest)) == 2


def test_retriable_failure_of_an_automatic_commit_is_repeated(cluster: Any, lost: str) -> None:
    """Goal: an automatic commit that failed is repeated after retry.backoff.ms instead of the interval, with the
    positions of that time."""
    member = cluster.start("a", **EARLIEST)
    cluster.script(OffsetCommitRequest, Error.COORDINATOR_LOAD_IN_PROGRESS, lost)
    cluster.run(5_300)
    times = member.times(OffsetCommitRequest)
    assert [time - times[0] for time in times] == [0, 100, 200]
    assert [(one.error, one.is_retriable) for one in member.seen(CommitFailed)] == [
        (Error.COORDINATOR_LOAD_IN_PROGRESS, True),
        (None, True),
    ]
    assert len(member.seen(CommitSucceeded)) == 1


@pytest.mark.parametrize("assignors", [("range",), ("cooperative-sticky",)])
def test_commits_before_a_rejoin(cluster: Any, assignors: tuple[str, ...]) -> None:
    """Goal: a member commits its polled records with the old generation before the JoinGroup, so that the next owner
    goes on from there."""
    member = cluster.start("a", assignors=assignors, **EARLIEST)
    cluster.run(100)
    cluster.produce("payments", 5)
    cluster.run(100)
    generation_id = member.consumer.generation_id
    member.forget()
    other = cluster.start("b", assignors=assignors, **EARLIEST)
    cluster.run(4_000)
    kinds = [type(one) for one in member.sent]
    assert kinds.index(OffsetCommitRequest) < kinds.index(JoinGroupRequest)
    (succeeded, *_) = member.seen(CommitSucceeded)
    assert succeeded.generation_id == generation_id
    assert succeeded.happened_at_ms <= member.seen(Revoked)[0].happened_at_ms
    cluster.run(10_000)
    assert len(other.partitions) == 3
    assert {other.consumer.position("payments", number) for number in other.partitions} == {5}
    assert other.polled == []


def test_failed_commit_before_a_rejoin_does_not_stop_it(cluster: Any) -> None:
    """Goal: an error that no repetition helps is reported, and the member rejoins."""
    member = cluster.start("a", **EARLIEST)
    cluster.run(100)
    cluster.script(OffsetCommitRequest, Error.OFFSET_METADATA_TOO_LARGE)
    cluster.start("b", **EARLIEST)
    cluster.run(5_000)
    assert [one.error for one in member.seen(CommitFailed)] == [Error.OFFSET_METADATA_TOO_LARGE]
    assert len(member.seen(Joined)) == 2


def test_commit_before_a_rejoin_is_waited_for_as_long_as_the_rebalance_may_take(cluster: Any) -> None:
    """Goal: repeated with backoff until max.poll.interval.ms, then the member rejoins without it."""
    settings = {**EARLIEST, "max_poll_interval_ms": 20_000}
    member = cluster.start("a", **settings)
    cluster.run(100)
    cluster.script(OffsetCommitRequest, *[Error.UNKNOWN_TOPIC_OR_PARTITION] * 60)
    cluster.start("b", **{**settings, "max_poll_interval_ms": 300_000})
    cluster.run(2_900)
    assert len(member.times(JoinGroupRequest)) == 2
    cluster.run(10_000)
    times = member.times(OffsetCommitRequest)
    assert [later - earlier for earlier, later in pairwise(times)][:4] == [100, 200, 400, 800]
    cluster.run(15_000)
    assert len(member.times(JoinGroupRequest)) > 2
    assert member.times(JoinGroupRequest)[2] - times[0] == 20_000


@pytest.mark.parametrize("assignors", [("range",), ("cooperative-sticky",)])
def test_commit_during_a_rebalance_never_leaves_the_client(cluster: Any, assignors: tuple[str, ...]) -> None:
    """Goal: between join and sync the client refuses by itself."""
    member = cluster.start("a", assignors=assignors, **EARLIEST)
    cluster.run(1_000)
    cluster.start("b", assignors=assignors, **EARLIEST)
    cluster.run(1_999)
    member.is_polling = False
    cluster.run(1)
    member.poll()  # sends the commit before the rejoin
    cluster.run()
    member.poll()  # sends JoinGroup
    member.forget()
    member.consumer.commit(cluster.now_ms, {TopicPartition("payments", 0): 0})
    cluster.run()
    (failed,) = member.seen(CommitFailed)
    assert (failed.error, failed.was_sent, failed.is_retriable) == (None, False, False)
    assert member.requests(OffsetCommitRequest) == []


def test_commit_after_poll_expiry_never_leaves_the_client(cluster: Any) -> None:
    """Goal: a member that left by its own poll timer knows that it left: it refuses the commit itself, and the broker
    gets no request."""
    member = cluster.start("a", max_poll_interval_ms=10_000, **EARLIEST)
    cluster.run()
    member.is_polling = False
    cluster.run(11_000)
    member.consumer.commit(cluster.now_ms)
    cluster.run()
    (failed,) = member.seen(CommitFailed)
    assert (failed.error, failed.was_sent, failed.generation_id) == (None, False, -1)
    assert member.requests(OffsetCommitRequest) == []


def test_woken_consumer_commits_with_its_old_generation(cluster: Any) -> None:
    """Goal: the zombie. It was removed while it stood still; its first commit names the old member and generation, the
    broker refuses it for each partition, and nothing of it is stored."""
    member = cluster.start("a", **EARLIEST)
    cluster.run()
    cluster.produce("payments", 3)
    cluster.run()
    old = member.consumer.member_id, member.consumer.generation_id
    member.freeze()
    cluster.run(60_000)
    member.forget()
    member.consumer.commit(cluster.now_ms)
    member.is_polling = False
    member.thaw(application_first=True)
    cluster.run()
    (failed,) = member.seen(CommitFailed)
    assert (failed.member_id, failed.generation_id) == old
    assert (failed.error, failed.was_sent, failed.is_retriable) == (Error.UNKNOWN_MEMBER_ID, True, False)
    assert cluster.committed() == {}
    assert member.consumer.member_id == ""


def test_stale_commit_of_a_member_that_has_rejoined(cluster: Any, silence: str) -> None:
    """Goal: an ILLEGAL_GENERATION that answers a commit of the generation before resets the new one too, unless the
    member is already preparing the next rebalance."""
    settings = {"assignors": ("cooperative-sticky",), "enable_auto_commit": False, **EARLIEST}
    member = cluster.start("a", **settings)
    cluster.run(1_000)
    cluster.script(OffsetCommitRequest, silence)
    member.consumer.commit(cluster.now_ms)
    cluster.run()
    (request,) = member.requests(OffsetCommitRequest)
    cluster.start("b", **settings)
    cluster.run(10_000)
    assert member.consumer.generation_id > request.generation_id
    results = tuple(PartitionResult(one.topic, one.partition, Error.ILLEGAL_GENERATION) for one in request.offsets)
    cluster.respond(member, OffsetCommitResponse(request.request_id, results))
    cluster.run()
    assert member.seen(CommitFailed)[0].generation_id == request.generation_id
    assert len(member.seen(Lost)) == 1
    assert member.requests(JoinGroupRequest)[-1].reason == (
        "encountered ILLEGAL_GENERATION from OFFSET_COMMIT response"
    )


def test_commit_without_coordinator_waits_for_the_look_up(cluster: Any) -> None:
    """Goal: a commit without a coordinator is sent once the coordinator is found, and fails, to be repeated, if it is
    not found."""
    member = cluster.start("a", enable_auto_commit=False, **EARLIEST)
    cluster.run(1_000)
    member.is_polling = False
    cluster.script(HeartbeatRequest, Error.NOT_COORDINATOR)
    cluster.script(FindCoordinatorRequest, Error.COORDINATOR_NOT_AVAILABLE)
    cluster.run(1_950)
    member.consumer.disconnected(Destination.COORDINATOR, cluster.now_ms)
    member.consumer.commit(cluster.now_ms)
    cluster.run()
    (failed,) = member.seen(CommitFailed)
    assert (failed.error, failed.was_sent, failed.is_retriable) == (None, False, True)
    member.consumer.commit(cluster.now_ms)
    cluster.run()
    assert len(member.seen(CommitSucceeded)) == 1


def test_first_error_of_several_partitions_decides(cluster: Any) -> None:
    """Goal: one forbidden topic is reported only if nothing else is wrong."""
    member = cluster.start("a", enable_auto_commit=False, **EARLIEST)
    cluster.run()
    errors = [Error.NONE, Error.TOPIC_AUTHORIZATION_FAILED, Error.UNKNOWN_TOPIC_OR_PARTITION]
    results = tuple(PartitionResult("payments", number, error) for number, error in enumerate(errors))
    cluster.script(OffsetCommitRequest, OffsetCommitResponse(0, results), OffsetCommitResponse(0, results[:2]))
    for _ in range(2):
        member.consumer.commit(cluster.now_ms)
        cluster.run()
    assert [one.error for one in member.seen(CommitFailed)] == [
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.TOPIC_AUTHORIZATION_FAILED,
    ]


def test_commit_without_a_subscription_is_an_administrators(cluster: Any) -> None:
    """Goal: a consumer that joined no group commits without member and generation, which an empty group accepts."""
    member = cluster.start("a")
    member.consumer.subscribe([], cluster.now_ms)
    member.consumer.commit(cluster.now_ms, {TopicPartition("payments", 2): 17})
    cluster.run()
    assert cluster.committed() == {2: 17}
    assert (member.seen(CommitSucceeded)[0].generation_id, member.consumer.generation_id) == (-1, -1)


def test_close_commits_and_leaves(cluster: Any) -> None:
    """Goal: the last positions, then LeaveGroup with the client's words; the group is empty at once."""
    member = cluster.start("a", **EARLIEST)
    cluster.run()
    cluster.produce("payments", 2)
    cluster.run()
    member.forget()
    member.close()
    cluster.run()
    assert [type(one) for one in member.sent] == [OffsetCommitRequest, LeaveGroupRequest]
    assert set(cluster.committed().values()) == {2}
    assert member.seen(Left)[0].reason == "the consumer is being closed"
    assert len(member.seen(Revoked)) == 1
    assert cluster.kinds("member_left")[0]["client_reason"] == "the consumer is being closed"
    assert len(cluster.kinds("group_now_empty")) == 1
    assert member.consumer.is_closed
    assert member.consumer.next_deadline_ms() is None


def test_close_of_a_static_member_leaves_no_trace(cluster: Any) -> None:
    """Goal: a static member that closes commits but does not leave: its place is kept until the session expires."""
    member = cluster.start("a", group_instance_id="one", **EARLIEST)
    cluster.run()
    member.forget()
    member.close()
    cluster.run(44_000)
    assert [type(one) for one in member.sent] == [OffsetCommitRequest]
    assert member.consumer.is_closed
    assert cluster.kinds("member_failed") == []
    cluster.run(2_000)
    assert len(cluster.kinds("member_failed")) == 1


def test_close_repeats_the_commit_but_not_for_ever(cluster: Any, lost: str) -> None:
    """Goal: a consumer whose last commit does not succeed for 30 seconds leaves all the same."""
    member = cluster.start("a", **EARLIEST)
    cluster.run()
    cluster.script(OffsetCommitRequest, *[Error.COORDINATOR_LOAD_IN_PROGRESS, lost] * 30)
    member.close()
    closed_ms = cluster.now_ms
    cluster.run(40_000)
    assert member.consumer.is_closed
    assert member.times(LeaveGroupRequest) == [closed_ms + 30_000]
    assert len(member.requests(OffsetCommitRequest)) > 20
    assert len(member.seen(CoordinatorUnknown)) > 10


def test_fenced_static_member(cluster: Any) -> None:
    """Goal: two consumers with one group.instance.id: the second takes the place, the first is fenced by its next
    heartbeat or commit, and poll throws."""
    first = cluster.start("a", group_instance_id="one", enable_auto_commit=False, **EARLIEST)
    cluster.run(1_000)
    second = cluster.start("b", group_instance_id="one", enable_auto_commit=False, **EARLIEST)
    cluster.run()
    assert second.partitions == [0, 1, 2, 3, 4, 5]
    first.is_polling = False
    first.consumer.commit(cluster.now_ms)
    cluster.run()
    assert [one.error for one in first.seen(CommitFailed)] == [Error.FENCED_INSTANCE_ID]
    assert first.seen(Fenced)[0].group_instance_id == "one"
    assert len(cluster.kinds("member_fenced")) == 1
    assert second.seen(Fenced) == []

"""A member joins, a leader assigns and looks for new partitions, and both leave as Java's consumer does."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.coordinator.client.config import ConsumerConfig
from groupledger.coordinator.client.consumer import Consumer, MemberState
from groupledger.coordinator.client.events import (
    CoordinatorDiscovered,
    FatalError,
    Joined,
    Left,
    Lost,
    RejoinRequested,
    Revoked,
)
from groupledger.coordinator.client.messages import Destination, FindCoordinatorRequest, MetadataRequest
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.messages import (
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupledger.schemas.codec.consumer_protocol import decode_assignment, decode_subscription
from groupledger.schemas.codec.user_data import decode_cooperative_sticky_user_data, decode_sticky_user_data
from groupledger.schemas.kafka.errors import Error


def test_first_join(cluster: Any) -> None:
    """Goal: discovery, a first JoinGroup without an id, a second with the id that came back, then SyncGroup."""
    member = cluster.start("a", client_host="/10.0.0.1")
    cluster.run()
    kinds = [type(one) for one in member.sent if not isinstance(one, MetadataRequest)]
    assert kinds[:4] == [FindCoordinatorRequest, JoinGroupRequest, JoinGroupRequest, SyncGroupRequest]
    first, second = member.requests(JoinGroupRequest)
    assert (first.member_id, first.reason, first.group_instance_id) == ("", "", None)
    assert (first.session_timeout_ms, first.rebalance_timeout_ms, first.client_host) == (45_000, 300_000, "/10.0.0.1")
    assert [name for name, _ in first.protocols] == ["range", "cooperative-sticky"]
    assert second.member_id == member.consumer.member_id == "a-a-uuid-1"
    assert second.reason == "need to re-join with the given member-id: a-a-uuid-1"
    assert cluster.kinds("preparing_rebalance")[0]["reason"].fields["client_reason"] == second.reason
    assert member.seen(CoordinatorDiscovered)[0].node_id == 1
    (joined,) = member.seen(Joined)
    assert (joined.generation_id, joined.is_leader, joined.protocol_name) == (1, True, "range")
    assert joined.assignment == joined.added == tuple(("payments", number) for number in range(6))


def test_static_member_needs_no_second_join(cluster: Any) -> None:
    """Goal: a group.instance.id is an identity, so the first JoinGroup is good."""
    member = cluster.start("a", group_instance_id="one")
    cluster.run()
    assert len(member.requests(JoinGroupRequest)) == 1
    assert member.consumer.member_id.startswith("one-")


def test_subscription_bytes(cluster: Any) -> None:
    """Goal: version 3: sorted topics, owned partitions with their generation, the rack."""
    cluster.topic("orders", 1)
    settings = {"assignors": ("cooperative-sticky",), "client_rack": "east"}
    member = cluster.start("a", "payments", "orders", **settings)
    cluster.run(1_000)
    cluster.start("b", **settings)
    cluster.run(4_000)
    subscriptions = [decode_subscription(request.protocols[0][1]) for request in member.requests(JoinGroupRequest)]
    assert {one.version for one in subscriptions} == {3}
    assert subscriptions[0].fields["topics"] == ["orders", "payments"]
    assert [one.fields["rack_id"] for one in subscriptions] == ["east"] * len(subscriptions)
    assert [one.fields["generation_id"] for one in subscriptions[:3]] == [-1, -1, 1]
    assert subscriptions[2].fields["owned_partitions"] == [
        {"topic": "orders", "partitions": [0]},
        {"topic": "payments", "partitions": [0, 1, 2, 3, 4, 5]},
    ]
    generations = [
        decode_cooperative_sticky_user_data(one.fields["user_data"]).fields["generation"] for one in subscriptions
    ]
    assert generations == [-1, -1, *(one.generation_id for one in member.seen(Joined))][: len(generations)]


def test_sticky_user_data(cluster: Any) -> None:
    """Goal: an eager sticky member owns nothing when it rejoins, so the user data says what it had; the other
    assignors of its list know nothing of that."""
    settings = {"assignors": ("sticky", "range")}
    member = cluster.start("a", **settings)
    cluster.run(1_000)
    other = cluster.start("b", **settings)
    cluster.run(4_000)
    rejoined = member.requests(JoinGroupRequest)[2]
    sticky, by_range = (decode_subscription(metadata).fields for _, metadata in rejoined.protocols)
    assert decode_sticky_user_data(sticky["user_data"]).fields == {
        "previous_assignment": [{"topic": "payments", "partitions": [0, 1, 2, 3, 4, 5]}],
        "generation": 1,
    }
    assert sticky["owned_partitions"] == []
    assert by_range["user_data"] is None
    assert decode_subscription(other.requests(JoinGroupRequest)[0].protocols[0][1]).fields["user_data"] is None
    assert member.partitions == [0, 1, 2]  # it had the partitions that it keeps


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_leader_assigns(cluster: Any, assignor: str) -> None:
    """Goal: the chosen assignor's result reaches every member, each partition once."""
    members = [cluster.start(name, assignors=(assignor,)) for name in "abcd"]
    cluster.run(30_000)
    assert sorted(number for one in members for number in one.partitions) == [0, 1, 2, 3, 4, 5]
    assert sorted(len(one.partitions) for one in members) == [1, 1, 2, 2]
    leaders = [one for one in members if one.seen(Joined)[-1].is_leader]
    (synced, *_) = leaders[0].requests(SyncGroupRequest)[-1:]
    assert len(synced.assignments) == 4
    assert {decode_assignment(data).version for _, data in synced.assignments} == {3}
    followers = [one.requests(SyncGroupRequest)[-1] for one in members if one is not leaders[0]]
    assert [one.assignments for one in followers] == [()] * 3


def test_racks_reach_the_assignor(new_cluster: Any) -> None:
    """Goal: each consumer reads what lies in its rack."""
    cluster = new_cluster(group_initial_rebalance_delay_ms=1_000)
    cluster.topic("payments", 4)
    cluster.broker.racks = lambda _topic, number: frozenset({"west" if number < 2 else "east"})
    east = cluster.start("a", assignors=("range",), client_rack="east")
    west = cluster.start("b", assignors=("range",), client_rack="west")
    cluster.run(10_000)
    assert (east.partitions, west.partitions) == ([2, 3], [0, 1])


def test_leader_waits_for_the_metadata_of_all_topics(cluster: Any, silence: str) -> None:
    """Goal: a leader assigns no topic that it does not know: the SyncGroup goes out after the metadata came."""
    cluster.topic("orders", 2)
    leader = cluster.start("a", "payments", assignors=("range",), request_timeout_ms=5_000)
    cluster.run(1_000)
    other = cluster.start("b", "orders", assignors=("range",))
    cluster.run(1_000)
    cluster.script(MetadataRequest, silence)
    cluster.run(3_000)
    assert leader.consumer.state is MemberState.COMPLETING_REBALANCE
    assert len(leader.requests(SyncGroupRequest)) == 1
    cluster.run(6_000)
    assert leader.requests(MetadataRequest)[-1].topics == ("orders", "payments")
    assert other.consumer.assignment == (("orders", 0), ("orders", 1))


def test_leader_notices_new_partitions(cluster: Any) -> None:
    """Goal: the leader alone rejoins when the metadata that is refreshed every metadata.max.age.ms shows new
    partitions, and gives that as its reason."""
    leader = cluster.start("a", metadata_max_age_ms=10_000, assignors=("cooperative-sticky",))
    cluster.run(1_000)
    follower = cluster.start("b", metadata_max_age_ms=1_000, assignors=("cooperative-sticky",))
    cluster.run(8_000)
    for one in (leader, follower):
        one.forget()
    cluster.topic("payments", 8)
    cluster.run(20_000)
    assert leader.seen(RejoinRequested)[0].reason == "cached metadata has changed"
    assert follower.seen(RejoinRequested)[0].reason == "group is already rebalancing"
    assert "leader_rejoined" in [one["reason"].kind for one in cluster.kinds("preparing_rebalance")]
    assert sorted([*leader.partitions, *follower.partitions]) == list(range(8))
    assert leader.seen(Revoked) == []


def test_deleted_topic(cluster: Any) -> None:
    """Goal: a topic that is gone changes the leader's metadata too, and its partitions are given up."""
    cluster.topic("orders", 2)
    member = cluster.start("a", "payments", "orders", metadata_max_age_ms=10_000, assignors=("cooperative-sticky",))
    cluster.run(1_000)
    del cluster.broker.topics["orders"]
    cluster.run(15_000)
    assert member.seen(Revoked)[0].partitions == (("orders", 0), ("orders", 1))


def test_missing_topic_is_asked_for_again(cluster: Any) -> None:
    """Goal: a missing topic is asked for again, with backoff, until it exists; then the leader assigns it."""
    member = cluster.start("a", "payments", "later")
    cluster.run(1_000)
    times = member.times(MetadataRequest)
    assert [time - times[0] for time in times] == [0, 100, 300, 700]
    cluster.topic("later", 1)
    cluster.run(5_000)
    assert ("later", 0) in member.consumer.assignment


def test_forbidden_topic(cluster: Any) -> None:
    """Goal: poll throws once for each answer that says so."""
    cluster.script(MetadataRequest, Error.TOPIC_AUTHORIZATION_FAILED)
    member = cluster.start("a")
    cluster.run(1_000)
    assert [one.error for one in member.seen(FatalError)] == [Error.TOPIC_AUTHORIZATION_FAILED]


def test_group_that_is_full(new_cluster: Any) -> None:
    """Goal: the broker's own refusals reach the application."""
    cluster = new_cluster(group_max_size=1)
    cluster.topic("payments", 2)
    first = cluster.start("a")
    cluster.run(1_000)
    second = cluster.start("b")
    cluster.run()
    assert second.seen(FatalError)[0].error is Error.GROUP_MAX_SIZE_REACHED
    assert first.partitions == [0, 1]


def test_protocols_that_have_nothing_in_common(cluster: Any) -> None:
    """Goal: a member whose assignors nobody shares is refused."""
    cluster.start("a", assignors=("range",))
    cluster.run(1_000)
    other = cluster.start("b", assignors=("sticky",))
    cluster.run()
    assert other.seen(FatalError)[0].error is Error.INCONSISTENT_GROUP_PROTOCOL


def test_static_leader_that_returns_assigns_nothing(cluster: Any) -> None:
    """Goal: asked to skip the assignment, it syncs empty-handed and everyone keeps what they had."""
    leader = cluster.start("a", group_instance_id="one", assignors=("range",))
    cluster.run(1_000)
    follower = cluster.start("b", group_instance_id="two", assignors=("range",))
    cluster.run(5_000)
    generation_id, partitions = leader.consumer.generation_id, leader.partitions
    leader.close()
    cluster.run(1_000)
    again = cluster.start("a2", group_instance_id="one", assignors=("range",))
    cluster.run(5_000)
    assert again.requests(SyncGroupRequest)[0].assignments == ()
    assert again.seen(Joined)[0].is_leader
    assert (again.consumer.generation_id, again.partitions) == (generation_id, partitions)
    assert follower.seen(Joined)[-1].generation_id == generation_id


def test_unsubscribe_leaves(cluster: Any) -> None:
    """Goal: a consumer that unsubscribes leaves at once, with the client's reason, and a later subscription joins
    anew."""
    member = cluster.start("a")
    cluster.run(1_000)
    member.consumer.subscribe([], cluster.now_ms)
    cluster.run(1_000)
    assert member.seen(Left)[0].reason == "the consumer unsubscribed from all topics"
    assert len(member.seen(Revoked)) == 1
    assert (member.consumer.assignment, member.consumer.state) == ((), MemberState.UNJOINED)
    member.consumer.subscribe(["payments"], cluster.now_ms)
    cluster.run(1_000)
    assert member.partitions == [0, 1, 2, 3, 4, 5]


def test_unsubscribe_during_a_rebalance(cluster: Any) -> None:
    """Goal: partitions count as lost, and the answer to the old JoinGroup starts nothing."""
    settings = {"assignors": ("cooperative-sticky",), "enable_auto_commit": False}
    member = cluster.start("a", **settings)
    cluster.run(1_000)
    cluster.start("b", **settings)
    cluster.run(1_999)
    member.is_polling = False
    cluster.run(1)
    member.poll()  # JoinGroup
    member.consumer.subscribe([], cluster.now_ms)
    member.forget()
    member.is_polling = True
    cluster.run(1_000)
    assert member.requests(SyncGroupRequest) == []
    assert cluster.applications["b"].partitions == [0, 1, 2, 3, 4, 5]
    member.consumer.subscribe(["payments"], cluster.now_ms)
    cluster.run(15_000)
    assert len(member.partitions) == 3


def test_assignment_that_does_not_match_the_subscription(cluster: Any) -> None:
    """Goal: if the subscription changed while the member joined, the member does not take its assignment, and
    rejoins."""
    cluster.topic("orders", 2)
    member = cluster.start("a", "payments")
    member.is_polling = False
    for _ in range(4):  # each finds one answer: the coordinator, a member id, the generation; the rest is background
        member.poll()
        cluster.run()
    assert member.consumer.state is MemberState.STABLE
    member.consumer.subscribe(["orders"], cluster.now_ms)
    member.is_polling = True
    cluster.run(1_000)
    assert member.seen(RejoinRequested)[-1].reason == "received assignment does not match the current subscription"
    assert member.consumer.assignment == (("orders", 0), ("orders", 1))


@pytest.mark.parametrize("assignment", [b"", b"\x00\x01\x00"])
def test_unreadable_assignment(cluster: Any, assignment: bytes) -> None:
    """Goal: poll throws, again and again, as Java's does: the assignment is kept until it is taken."""
    cluster.script(
        SyncGroupRequest,
        SyncGroupResponse(0, error=Error.NONE, protocol_type="consumer", protocol_name="range", assignment=assignment),
    )
    member = cluster.start("a")
    cluster.run(4_000)
    assert len(member.seen(FatalError)) > 1
    assert member.consumer.assignment == ()


def test_inconsistent_answers(cluster: Any) -> None:
    """Goal: a JoinGroup of another protocol type and a SyncGroup of another protocol are refused by the client."""
    cluster.script(
        JoinGroupRequest,
        JoinGroupResponse(
            0,
            error=Error.NONE,
            member_id="m",
            generation_id=1,
            protocol_type="connect",
            protocol_name="range",
            leader="m",
        ),
    )
    cluster.script(
        SyncGroupRequest,
        SyncGroupResponse(0, error=Error.NONE, protocol_type="consumer", protocol_name="sticky", assignment=b""),
    )
    member = cluster.start("a")
    for _ in range(2):
        cluster.run(1_000)
    assert [one.error for one in member.seen(FatalError)] == [Error.INCONSISTENT_GROUP_PROTOCOL] * 2


def test_join_group_may_be_parked_for_the_rebalance_timeout(cluster: Any, silence: str) -> None:
    """Goal: the request times out 5 seconds after max.poll.interval.ms, where others take request.timeout.ms."""
    cluster.script(JoinGroupRequest, silence)
    member = cluster.start("a", max_poll_interval_ms=60_000)
    cluster.run()
    started_ms = cluster.now_ms
    cluster.run(64_999)
    assert len(member.requests(JoinGroupRequest)) == 1
    cluster.run(10_000)
    assert member.times(JoinGroupRequest)[1] == started_ms + 65_000 + 100
    assert member.requests(JoinGroupRequest)[1].reason == "rebalance failed due to DisconnectException"


def test_coordinator_failover(cluster: Any) -> None:
    """Goal: a new coordinator is found and the membership goes on, with neither a rejoin nor a lost partition."""
    member = cluster.start("a")
    cluster.run(1_000)
    member.consumer.disconnected(Destination.COORDINATOR, cluster.now_ms)
    cluster.run(10_000)
    assert len(member.seen(CoordinatorDiscovered)) == 2
    assert len(member.seen(Joined)) == 1
    assert member.seen(Lost) == []
    assert len(member.requests(LeaveGroupRequest)) == 0


def test_membership_lost_before_the_assignment_was_taken(cluster: Any) -> None:
    """Goal: synced in the background, then expired before the application polled: the rebalance counts as failed, and
    the reason that the broker logs is Java's own text."""
    member = cluster.start("a", max_poll_interval_ms=10_000)
    member.is_polling = False
    for _ in range(4):  # each finds one answer: the coordinator, a member id, the generation; the rest is background
        member.poll()
        cluster.run()
    assert member.consumer.state is MemberState.STABLE
    assert member.seen(Joined) == []
    cluster.run(11_000)
    member.is_polling = True
    cluster.run(1_000)
    assert member.seen(RejoinRequested)[-2].reason == (
        "rebalance failed since the generation/state was modified by heartbeat thread to"
        " Generation{generationId=-1, memberId='', protocol='null'}/UNJOINED"
        " before the rebalance callback triggered"
    )
    assert member.partitions == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heartbeat_interval_ms": 45_000}, "below"),
        ({"auto_offset_reset": "newest"}, "newest"),
        ({"assignors": ()}, "at least one"),
        ({"assignors": ("range", "range")}, "none twice"),
        ({"assignors": ("uniform",)}, "uniform"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    """Goal: settings with which Java's consumer would not start are refused."""
    with pytest.raises(ValueError, match=message):
        ConsumerConfig(group_id="group", client_id="a", **settings)


def test_a_pattern_is_for_the_broker() -> None:
    """Goal: a consumer of the classic protocol refuses an expression that no broker would resolve for it."""
    consumer = Consumer(ConsumerConfig(group_id="group", client_id="a"), lambda: 1, lambda: "")
    with pytest.raises(IllegalStateError):
        consumer.subscribe((), 0, "orders.*")


def test_closed_consumer() -> None:
    """Goal: one that never joined is closed at once, and does not poll any more."""
    consumer = Consumer(ConsumerConfig(group_id="group", client_id="a"), lambda: 1, lambda: "")
    consumer.close(0)
    assert consumer.is_closed
    with pytest.raises(IllegalStateError):
        consumer.poll(1)


def leader_without_metadata(cluster: Any, silence: str) -> Any:
    """A leader whose group has a topic that it knows nothing of, and whose metadata does not come."""
    leader = cluster.start("a", "payments", max_poll_interval_ms=20_000, enable_auto_commit=False)
    cluster.run(1_000)
    cluster.topic("orders", 2)
    cluster.start("b", "orders", max_poll_interval_ms=20_000)
    cluster.run(1_000)
    cluster.script(MetadataRequest, silence)
    cluster.run(2_000)
    assert leader.consumer.state is MemberState.COMPLETING_REBALANCE
    return leader


def test_leader_that_lost_its_membership_assigns_nothing(cluster: Any, silence: str) -> None:
    """Goal: its own poll timer made it leave before the metadata came: no SyncGroup follows, but another join."""
    leader = leader_without_metadata(cluster, silence)
    leader.is_polling = False
    leader.forget()
    cluster.run(25_000)
    assert leader.consumer.state is MemberState.UNJOINED
    leader.is_polling = True
    cluster.run(40_000)
    assert leader.requests(JoinGroupRequest)[0].reason == "rebalance failed due to IllegalGenerationException"
    assert [one.generation_id for one in leader.requests(SyncGroupRequest)] != [-1]
    assert len(leader.consumer.assignment) == 6


def test_leader_that_lost_its_coordinator_does_not_sync(cluster: Any, silence: str, lost: str) -> None:
    """Goal: a leader without a coordinator has nobody to send the assignment to, and joins again."""
    leader = leader_without_metadata(cluster, silence)
    cluster.script(FindCoordinatorRequest, *[lost] * 60)
    leader.consumer.disconnected(Destination.COORDINATOR, cluster.now_ms)
    leader.forget()
    cluster.run(60_000)
    assert "rebalance failed due to CoordinatorNotAvailableException" in [
        one.reason for one in leader.seen(RejoinRequested)
    ]


def test_sync_answer_after_the_membership_was_lost(cluster: Any, silence: str) -> None:
    """Goal: the poll timer ran out while the SyncGroup was out: its answer counts for nothing."""
    cluster.script(SyncGroupRequest, silence)
    member = cluster.start("a", max_poll_interval_ms=10_000)
    cluster.run()
    (request,) = member.requests(SyncGroupRequest)
    member.is_polling = False
    cluster.run(11_000)
    cluster.respond(
        member,
        SyncGroupResponse(
            request.request_id, error=Error.NONE, protocol_type="consumer", protocol_name="range", assignment=b""
        ),
    )
    member.is_polling = True
    cluster.run(1_000)
    assert "rebalance failed due to IllegalGenerationException" in [one.reason for one in member.seen(RejoinRequested)]
    assert member.partitions == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("protocol_name", "metadata", "reason"),
    [
        ("range", b"\x00", "rebalance failed due to SchemaException"),
        ("unknown", None, "rebalance failed due to IllegalStateException"),
    ],
)
def test_leader_that_can_not_assign(cluster: Any, protocol_name: str, metadata: bytes | None, reason: str) -> None:
    """Goal: a leader that can't read a subscription, or lacks the chosen assignor, ends its poll with Java's
    exception."""
    member = cluster.start("a")
    cluster.run()
    subscription = member.requests(JoinGroupRequest)[0].protocols[0][1] if metadata is None else metadata
    members = (JoinedMember("m", None, subscription),)
    cluster.script(
        JoinGroupRequest,
        JoinGroupResponse(
            0,
            error=Error.NONE,
            member_id="m",
            generation_id=1,
            protocol_type="consumer",
            protocol_name=protocol_name,
            leader="m",
            members=members,
        ),
    )
    cluster.start("b")
    cluster.run()
    failed = cluster.applications["b"]
    failed.poll()
    cluster.run()
    assert failed.seen(FatalError)[0].reason == reason


def test_close_without_a_coordinator(cluster: Any, lost: str) -> None:
    """Goal: a commit that nobody can take does not keep the consumer from closing."""
    member = cluster.start("a", auto_offset_reset="earliest")
    cluster.run(1_000)
    cluster.script(FindCoordinatorRequest, Error.GROUP_AUTHORIZATION_FAILED)
    member.consumer.disconnected(Destination.COORDINATOR, cluster.now_ms)
    member.close()
    cluster.run(1_000)
    assert member.consumer.is_closed
    assert member.requests(LeaveGroupRequest) == []

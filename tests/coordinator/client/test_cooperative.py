"""Cooperative rebalancing, and eager rebalancing beside it, among members of a real group."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.coordinator.client.assignment import RebalanceProtocol, rebalance_protocol
from groupledger.coordinator.client.events import Joined, Lost, RejoinRequested, Revoked
from groupledger.coordinator.model.messages import JoinGroupRequest, OffsetCommitRequest
from groupledger.schemas.codec.consumer_protocol import decode_subscription

COOPERATIVE = {"assignors": ("cooperative-sticky",), "auto_offset_reset": "earliest"}


def payments(*numbers: int) -> tuple[tuple[str, int], ...]:
    return tuple(("payments", number) for number in numbers)


def test_third_consumer_gets_one_partition_of_each_in_the_second_round(cluster: Any) -> None:
    """Goal: the textbook case. P1-P3 and P4-P6; a third joins. The first round revokes one partition of each without
    stopping the others, the second gives those two to the newcomer."""
    first = cluster.start("a", **COOPERATIVE)
    cluster.run(10_000)
    second = cluster.start("b", **COOPERATIVE)
    cluster.run(10_000)
    assert (first.partitions, second.partitions) == ([0, 1, 2], [3, 4, 5])
    generation = first.consumer.generation_id
    for one in (first, second):
        one.forget()

    third = cluster.start("c", **COOPERATIVE)
    while third.consumer.generation_id <= generation + 1:
        cluster.produce("payments", 1)
        cluster.run(500)

    assert [one.assignment for one in first.seen(Joined)] == [payments(0, 1)] * 2
    assert [one.assignment for one in second.seen(Joined)] == [payments(3, 4)] * 2
    assert [one.assignment for one in third.seen(Joined)] == [(), payments(2, 5)]
    assert [one.generation_id for one in third.seen(Joined)] == [generation + 1, generation + 2]
    assert [one.partitions for one in (*first.seen(Revoked), *second.seen(Revoked))] == [payments(2), payments(5)]
    assert [*first.seen(Lost), *second.seen(Lost), *third.seen(Revoked)] == []
    # What stays is read in every half second of the two rebalances.
    produced = cluster.broker.topics["payments"][0][1]
    for application, kept in ((first, (0, 1)), (second, (3, 4))):
        for number in kept:
            polled = [one for one in application.polled if one.partition == number]
            assert [one.to_offset - one.from_offset for one in polled] == [1] * produced
    reasons = [request.reason for request in first.requests(JoinGroupRequest)[-2:]]
    assert reasons == ["group is already rebalancing", "need to revoke partitions and re-join"]


def test_eager_members_give_everything_up_before_they_rejoin(cluster: Any) -> None:
    """Goal: with range every partition is revoked in every rebalance, even those that come back, and the members then
    say that they own nothing."""
    first = cluster.start("a", assignors=("range",))
    cluster.run(10_000)
    second = cluster.start("b", assignors=("range",))
    cluster.run(10_000)
    assert (first.partitions, second.partitions) == ([0, 1, 2], [3, 4, 5])
    assert [one.partitions for one in first.seen(Revoked)] == [payments(0, 1, 2, 3, 4, 5)]
    assert [one.added for one in first.seen(Joined)] == [payments(0, 1, 2, 3, 4, 5), payments(0, 1, 2)]
    (offered,) = first.requests(JoinGroupRequest)[-1].protocols
    assert decode_subscription(offered[1]).fields["owned_partitions"] == []


def test_eager_member_neither_fetches_nor_polls_while_it_commits_before_the_rejoin(cluster: Any, silence: str) -> None:
    """Goal: the position that is committed before a revocation is not overtaken by records that come meanwhile."""
    first = cluster.start("a", assignors=("range",), auto_offset_reset="earliest")
    cluster.run(1_000)
    cluster.produce("payments", 7)
    cluster.run(1_000)
    cluster.script(OffsetCommitRequest, silence)
    cluster.start("b", assignors=("range",), auto_offset_reset="earliest")
    cluster.run(3_000)
    cluster.produce("payments", 7)
    before = list(first.polled)
    cluster.run(3_000)
    assert first.polled == before
    assert first.partitions == [0, 1, 2, 3, 4, 5]
    cluster.run(30_000)  # the commit times out, and is repeated
    assert first.partitions == [0, 1, 2]
    assert set(cluster.committed().values()) == {7}
    cluster.run(5_000)
    assert set(cluster.committed().values()) == {14}


@pytest.mark.parametrize(
    ("assignors", "protocol"),
    [
        (("range",), RebalanceProtocol.EAGER),
        (("cooperative-sticky",), RebalanceProtocol.COOPERATIVE),
        (("range", "cooperative-sticky"), RebalanceProtocol.EAGER),
        (("cooperative-sticky", "range"), RebalanceProtocol.EAGER),
        (("sticky", "roundrobin"), RebalanceProtocol.EAGER),
    ],
)
def test_rebalance_protocol(assignors: tuple[str, ...], protocol: RebalanceProtocol) -> None:
    """Goal: the best that all assignors of a list support."""
    assert rebalance_protocol(assignors) is protocol


def test_upgrade_in_two_rolling_bounces(cluster: Any) -> None:
    """Goal: range, then both names, then cooperative-sticky alone. With both names the group rebalances eagerly, under
    the name cooperative-sticky once all members know it; only after the second bounce it is cooperative."""
    lists = [("range",), ("cooperative-sticky", "range"), ("cooperative-sticky",)]
    running = [cluster.start(f"{name}0", assignors=lists[0]) for name in "ab"]
    cluster.run(10_000)
    chosen = []
    for bounce, assignors in enumerate(lists[1:], start=1):
        for index, name in enumerate("ab"):
            running[index].close()
            cluster.run(5_000)
            running[index] = cluster.start(f"{name}{bounce}", assignors=assignors)
            cluster.run(10_000)
            chosen.append(running[index].seen(Joined)[-1].protocol_name)
    assert chosen == ["range", "cooperative-sticky", "cooperative-sticky", "cooperative-sticky"]
    assert sorted([*running[0].partitions, *running[1].partitions]) == [0, 1, 2, 3, 4, 5]
    # Under the same name: b1 gave up all that it had when a2 came, a2 only what moved when b2 came.
    all_of_it, kept = cluster.applications["b1"].seen(Joined)[-2:]
    assert cluster.applications["b1"].seen(Revoked)[-2].partitions == all_of_it.assignment
    assert kept.added == kept.assignment
    assert running[0].seen(Joined)[-1].added == ()


def test_new_subscription_keeps_what_is_still_subscribed(new_cluster: Any) -> None:
    """Goal: a cooperative member that drops one topic and takes another revokes the dropped one before it rejoins."""
    cluster = new_cluster()
    for topic in ("payments", "orders", "refunds"):
        cluster.topic(topic, 2)
    one = cluster.start("a", "payments", "orders", **COOPERATIVE)
    cluster.run(10_000)
    one.forget()
    one.consumer.subscribe(["payments", "refunds"], cluster.now_ms)
    cluster.run(10_000)
    assert one.seen(Revoked)[0].partitions == (("orders", 0), ("orders", 1))
    assert one.seen(Joined)[-1].added == (("refunds", 0), ("refunds", 1))
    assert one.seen(RejoinRequested)[0].reason == "subscription has changed"
    assert one.consumer.assignment == (("payments", 0), ("payments", 1), ("refunds", 0), ("refunds", 1))

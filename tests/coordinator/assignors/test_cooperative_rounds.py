"""Cooperative rebalancing over rounds: nobody gets a partition that another member has not given up yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.assignors import ASSIGNORS, Assignment, Subscription, TopicPartitions
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypothesis.strategies import SearchStrategy


assign = ASSIGNORS["cooperative-sticky"]


def partitions(*numbers: int) -> list[TopicPartition]:
    return [TopicPartition("payments", number) for number in numbers]


def next_round(
    topics: Mapping[str, TopicPartitions],
    subscribed: Mapping[str, Sequence[str]],
    owned: Mapping[str, Sequence[TopicPartition]],
    generation: int,
) -> Assignment:
    """One rebalance in which every member that owns something had it since the last generation."""
    members = {
        member_id: Subscription(
            topics=tuple(names),
            owned_partitions=tuple(owned.get(member_id, ())),
            generation_id=generation if member_id in owned else -1,
        )
        for member_id, names in subscribed.items()
    }
    return assign(topics, members)


def test_third_consumer_gets_one_partition_of_each_in_the_second_round() -> None:
    """Goal: the textbook case. Six partitions, P1-P3 and P4-P6, a third consumer joins: one of each is revoked
    without stopping the others, and the follow-up gives those two to the newcomer."""
    topics = {"payments": TopicPartitions(6)}
    group = {"consumer-1": ["payments"], "consumer-2": ["payments"], "consumer-3": ["payments"]}
    owned = {"consumer-1": partitions(0, 1, 2), "consumer-2": partitions(3, 4, 5)}

    first = next_round(topics, group, owned, generation=1)
    assert first == {"consumer-1": partitions(0, 1), "consumer-2": partitions(3, 4), "consumer-3": []}

    second = next_round(topics, group, first, generation=2)
    assert second == {"consumer-1": partitions(0, 1), "consumer-2": partitions(3, 4), "consumer-3": partitions(2, 5)}


def test_member_that_left_is_replaced_in_one_round() -> None:
    """Goal: partitions that nobody owns any more need no revocation, so their new owners get them at once."""
    topics = {"payments": TopicPartitions(6)}
    owned = {"consumer-1": partitions(0, 1), "consumer-2": partitions(3, 4)}
    group = {"consumer-1": ["payments"], "consumer-2": ["payments"]}
    assert next_round(topics, group, owned, generation=3) == {
        "consumer-1": partitions(0, 1, 2),
        "consumer-2": partitions(3, 4, 5),
    }


def memberships() -> SearchStrategy[list[dict[str, list[str]]]]:
    """The subscriptions of each round: up to six members, each subscribed to some of three topics."""
    names = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True)
    return st.lists(st.dictionaries(st.sampled_from("uvwxyz"), names, min_size=1), min_size=1, max_size=5)


@settings(max_examples=100, deadline=None)
@given(rounds=memberships(), counts=st.tuples(*[st.integers(1, 9)] * 3))
def test_no_partition_is_given_while_another_member_owns_it(
    rounds: Sequence[Mapping[str, Sequence[str]]], counts: Sequence[int]
) -> None:
    """Goal: in every round of any history the new owner waits for the old one, and follow-up rounds come to rest with
    every partition of a subscribed topic assigned exactly once."""
    topics = {name: TopicPartitions(count) for name, count in zip("abc", counts, strict=True)}
    owned: Assignment = {}
    generation = 0
    for subscribed in rounds:
        for _ in range(4):
            generation += 1
            before = {member_id: owned[member_id] for member_id in subscribed if member_id in owned}
            owned = next_round(topics, subscribed, before, generation - 1)
            owner_before = {partition: member_id for member_id, held in before.items() for partition in held}
            for member_id, held in owned.items():
                assert {owner_before.get(partition, member_id) for partition in held} <= {member_id}
        assert sorted(flat(owned)) == sorted(wanted(topics, subscribed))


def flat(assignment: Assignment) -> Iterable[TopicPartition]:
    return (partition for held in assignment.values() for partition in held)


def wanted(topics: Mapping[str, TopicPartitions], subscribed: Mapping[str, Sequence[str]]) -> Iterable[TopicPartition]:
    names = {name for own in subscribed.values() for name in own}
    return (TopicPartition(name, number) for name in names for number in range(topics[name].partition_count))

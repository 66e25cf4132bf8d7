"""What every assignment must be, whatever the group: complete, without doubles, only to subscribers, balanced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.assignors import ASSIGNORS, Assignment, Subscription, TopicPartitions
from groupledger.coordinator.assignors.user_data import sticky_user_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import DrawFn

    from groupledger.schemas.kafka.topic_partition import TopicPartition

pytestmark = pytest.mark.slow

TOPIC_NAMES = ("a", "b", "c", "d")

each_assignor = pytest.mark.parametrize("assignor", ASSIGNORS)
bounded = settings(max_examples=50, deadline=None)


@st.composite
def topics(draw: DrawFn) -> dict[str, TopicPartitions]:
    """Up to four topics, some without partitions, with replicas in some of three racks."""
    racks = st.frozensets(st.sampled_from("xyz"))
    return {
        name: TopicPartitions(len(replica_racks), tuple(replica_racks))
        for name, replica_racks in draw(
            st.dictionaries(st.sampled_from(TOPIC_NAMES), st.lists(racks, max_size=9), min_size=1)
        ).items()
    }


@st.composite
def members(draw: DrawFn, *, equal: bool = False) -> dict[str, Subscription]:
    """Up to eight members that have owned nothing yet."""
    names = st.lists(st.sampled_from(TOPIC_NAMES), min_size=1, unique=True).map(tuple)
    shared = draw(names)
    return {
        f"member-{number}": Subscription(
            topics=shared if equal else draw(names),
            rack_id=draw(st.sampled_from((None, "x", "y", "z"))),
            group_instance_id=draw(st.sampled_from((None, f"instance-{9 - number}"))),
        )
        for number in range(draw(st.integers(1, 8)))
    }


@each_assignor
@bounded
@given(topics=topics(), members=members())
def test_every_partition_of_a_subscribed_topic_is_assigned_once(
    assignor: str, topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]
) -> None:
    """Goal: a fresh group covers its topics exactly, and nobody reads a topic it did not subscribe to."""
    assignment = ASSIGNORS[assignor](topics, members)
    subscribed = {name for member in members.values() for name in member.topics}
    assert sorted(tp for held in assignment.values() for tp in held) == sorted(
        (name, number) for name in subscribed & topics.keys() for number in range(topics[name].partition_count)
    )
    for member_id, member in members.items():
        assert {name for name, _ in assignment[member_id]} <= set(member.topics)


@each_assignor
@bounded
@given(topics=topics(), members=members(equal=True))
def test_equal_subscriptions_are_balanced(
    assignor: str, topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]
) -> None:
    """Goal: loads differ by one at most; for range, which looks at no two topics together, in every topic."""
    assignment = ASSIGNORS[assignor](topics, members)
    scopes = [{name} for name in topics] if assignor == "range" else [set(topics)]
    for scope in scopes:
        loads = [sum(name in scope for name, _ in held) for held in assignment.values()]
        assert max(loads) - min(loads) <= 1


@each_assignor
@bounded
@given(topics=topics(), members=members())
def test_next_round_of_an_unchanged_group_changes_nothing(
    assignor: str, topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]
) -> None:
    """Goal: the sticky assignors keep every owner (racks aside), and the others do not look at what members own."""
    members = {member_id: without_rack(member) for member_id, member in members.items()}
    assign = ASSIGNORS[assignor]
    first = assign(topics, members)
    second = assign(topics, owning(members, first, generation=1))
    assert {key: sorted(held) for key, held in second.items()} == {key: sorted(held) for key, held in first.items()}


@bounded
@given(topics=topics(), members=members(equal=True), leaving=st.integers(0, 7))
def test_sticky_members_that_stay_lose_nothing_when_one_leaves(
    topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription], leaving: int
) -> None:
    """Goal: with fewer members every share only grows, so each member that stays keeps all its partitions."""
    members = {member_id: without_rack(member) for member_id, member in members.items()}
    first = ASSIGNORS["sticky"](topics, members)
    staying = owning(members, first, generation=1)
    if len(staying) > 1:
        staying.pop(f"member-{leaving}", None)
    second = ASSIGNORS["sticky"](topics, staying)
    for member_id in staying:
        assert set(first[member_id]) <= set(second[member_id])


def without_rack(member: Subscription) -> Subscription:
    return Subscription(topics=member.topics, group_instance_id=member.group_instance_id)


def owning(members: Mapping[str, Subscription], assignment: Assignment, generation: int) -> dict[str, Subscription]:
    """The members as they rejoin, each with what it was assigned in both places where assignors look."""
    return {
        member_id: Subscription(
            topics=member.topics,
            owned_partitions=owned(assignment, member_id),
            generation_id=generation,
            group_instance_id=member.group_instance_id,
            user_data=sticky_user_data(owned(assignment, member_id), generation),
        )
        for member_id, member in members.items()
    }


def owned(assignment: Assignment, member_id: str) -> tuple[TopicPartition, ...]:
    return tuple(assignment[member_id])

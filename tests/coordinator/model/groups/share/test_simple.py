"""Goal: the assignor of share groups gives every partition to somebody, evenly, and moves little."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.coordinator.model.groups.share.simple import ShareSubscriber, assign_simple

if TYPE_CHECKING:
    from groupledger.coordinator.model.partitions import Partitions

TOPICS = [f"AAAAAAAAAAAAAAAAAAAA{letter}Q" for letter in "BCDE"]
ASSIGNABLE = {topic: range(count) for topic, count in zip(TOPICS, (6, 3, 1, 20), strict=True)}
NAMES = st.lists(st.text("abcdefgh", min_size=4, max_size=8), min_size=1, max_size=40, unique=True)
SUBSCRIBED = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4, unique=True)


def held(found: dict[str, Partitions]) -> Counter[tuple[str, int]]:
    return Counter((topic, number) for each in found.values() for topic, numbers in each.items() for number in numbers)


def sizes(found: dict[str, Partitions]) -> list[int]:
    return [sum(map(len, each.values())) for each in found.values()]


def subscribers(names: list[str], topics: list[str], before: dict[str, Partitions]) -> dict[str, ShareSubscriber]:
    return {name: ShareSubscriber(tuple(topics), before.get(name, {})) for name in names}


@given(NAMES, SUBSCRIBED, st.data())
def test_equal_subscriptions(names: list[str], topics: list[str], data: st.DataObject) -> None:
    """Goal: a partition has no more members than its share, members differ by one at most, and all partitions are
    assigned; a member that stays when others leave keeps its partitions up to its share."""
    before = assign_simple(subscribers(names, topics, {}), ASSIGNABLE, is_equal=True)
    partitions = {(topic, number) for topic in topics for number in ASSIGNABLE[topic]}
    share = -(-len(names) // len(partitions))
    assert held(before).keys() == partitions
    assert max(held(before).values()) <= share
    assert max(sizes(before)) - min(sizes(before)) <= 1
    staying = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    after = assign_simple(subscribers(staying, topics, before), ASSIGNABLE, is_equal=True)
    assert held(after).keys() == partitions
    assert max(sizes(after)) - min(sizes(after)) <= 1


@given(st.dictionaries(st.text("abcdefgh", min_size=4, max_size=8), SUBSCRIBED, min_size=1, max_size=12))
def test_other_subscriptions(subscriptions: dict[str, list[str]]) -> None:
    """Goal: each topic goes to those who want it, evenly among them, and nothing moves where nothing changed."""
    members = {name: ShareSubscriber(tuple(topics), {}) for name, topics in subscriptions.items()}
    found = assign_simple(members, ASSIGNABLE, is_equal=False)
    for topic in {topic for topics in subscriptions.values() for topic in topics}:
        counts = [len(found[name].get(topic, ())) for name, topics in subscriptions.items() if topic in topics]
        assert max(counts) - min(counts) <= 1
        assert {number for each in found.values() for number in each.get(topic, ())} == {*ASSIGNABLE[topic]}
    assert all({*found[name]} <= {*topics} for name, topics in subscriptions.items())
    again = {name: ShareSubscriber(tuple(topics), found[name]) for name, topics in subscriptions.items()}
    assert held(assign_simple(again, ASSIGNABLE, is_equal=False)) == held(found)


@pytest.mark.parametrize("is_equal", [True, False])
def test_only_what_is_assignable(*, is_equal: bool) -> None:
    """Goal: partitions that are not initialized are given to nobody."""
    first, second = TOPICS[:2]
    members = subscribers(["aaaa", "bbbb"], [first, second], {})
    found = assign_simple(members, {first: (0, 2)}, is_equal=is_equal)
    assert held(found) == Counter({(first, 0): 1, (first, 2): 1})


def test_a_topic_that_loses_its_last_partition_stays() -> None:
    """Goal: a topic whose last partition a member must give up stays in its target without partitions, as in a broker's
    record."""
    topic = TOPICS[2]
    before: dict[str, Partitions] = {"aaaa": {topic: (0,)}}
    members = subscribers(["aaaa"], [TOPICS[0]], before) | subscribers(["bbbb"], [topic], {})
    found = assign_simple(members, ASSIGNABLE, is_equal=False)
    assert found["aaaa"] == {topic: (), TOPICS[0]: tuple(range(6))}
    assert found["bbbb"] == {topic: (0,)}


def test_nobody_subscribes() -> None:
    """Goal: without topics or members there are no targets."""
    assert assign_simple({}, ASSIGNABLE, is_equal=True) == {}
    assert assign_simple(subscribers(["aaaa"], [], {}), ASSIGNABLE, is_equal=True) == {}

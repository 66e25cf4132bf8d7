"""Goal: the broker's assignors give every partition to one subscriber, evenly, and move little."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from groupledger.coordinator.model.groups.consumer.assignors import Subscriber, assign_range, assign_uniform
from groupledger.coordinator.model.groups.modern.topics import NO_TOPICS, Topic, metadata_hash

if TYPE_CHECKING:
    from groupledger.coordinator.model.partitions import Partitions

TOPICS = [f"AAAAAAAAAAAAAAAAAAAA{letter}Q" for letter in "BCDE"]
COUNTS = dict(zip(TOPICS, (6, 3, 1, 20), strict=True))
NAMES = st.lists(st.text("abcdefgh", min_size=4, max_size=8), min_size=1, max_size=8, unique=True)
SUBSCRIBED = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4, unique=True)


def subscriber(topics: list[str], target: Partitions | None = None, instance_id: str | None = None) -> Subscriber:
    return Subscriber(instance_id, tuple(topics), target or {})


def given_to(found: dict[str, Partitions]) -> Counter[tuple[str, int]]:
    return Counter((topic, number) for each in found.values() for topic, numbers in each.items() for number in numbers)


def sizes(found: dict[str, Partitions]) -> dict[str, int]:
    return {name: sum(map(len, each.values())) for name, each in found.items()}


@given(NAMES, SUBSCRIBED, st.data())
def test_uniform_of_equal_subscriptions(names: list[str], topics: list[str], data: st.DataObject) -> None:
    """Goal: each partition has one owner, nobody has two more than another, and a member that stays keeps the
    partitions that fit its share."""
    before = assign_uniform({name: subscriber(topics) for name in names}, COUNTS, is_equal=True)
    assert given_to(before) == Counter((topic, number) for topic in topics for number in range(COUNTS[topic]))
    assert max(sizes(before).values()) - min(sizes(before).values()) <= 1
    staying = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    after = assign_uniform({name: subscriber(topics, before[name]) for name in staying}, COUNTS, is_equal=True)
    assert given_to(after) == given_to(before)
    for name in staying:
        assert all(set(numbers) <= set(after[name].get(topic, ())) for topic, numbers in before[name].items())


@given(st.dictionaries(st.text("abcdefgh", min_size=4, max_size=8), SUBSCRIBED, min_size=1, max_size=8))
def test_uniform_of_other_subscriptions(subscriptions: dict[str, list[str]]) -> None:
    """Goal: each partition goes to a member that subscribes to its topic, and an even assignment stays as it is."""
    members = {name: subscriber(topics) for name, topics in subscriptions.items()}
    found = assign_uniform(members, COUNTS, is_equal=False)
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    assert given_to(found) == Counter((topic, number) for topic in wanted for number in range(COUNTS[topic]))
    assert all(set(found[name]) <= set(topics) for name, topics in subscriptions.items())
    again = {name: subscriber(topics, found[name]) for name, topics in subscriptions.items()}
    assert given_to(assign_uniform(again, COUNTS, is_equal=False)) == given_to(found)


def test_uniform_moves_to_whom_has_less() -> None:
    """Goal: a member with another subscription that comes later gets its share of the topic that both want."""
    both, one = TOPICS[:2], TOPICS[:1]
    full = {topic: tuple(range(COUNTS[topic])) for topic in both}
    found = assign_uniform({"a": subscriber(both, full), "b": subscriber(one)}, COUNTS, is_equal=False)
    assert sizes(found) == {"a": 5, "b": 4}


@given(NAMES, SUBSCRIBED)
def test_range(names: list[str], topics: list[str]) -> None:
    """Goal: each member has the next partitions of each topic, in the order of the ids, instances first."""
    members = {name: subscriber(topics) for name in names}
    members["zzz"] = subscriber(topics, instance_id="i")
    found = assign_range(members, COUNTS, is_equal=True)
    for topic in topics:
        in_order = [number for name in ("zzz", *sorted(names)) for number in found[name].get(topic, ())]
        assert in_order == list(range(COUNTS[topic]))
        shares = [len(found[name].get(topic, ())) for name in ("zzz", *sorted(names))]
        assert shares == sorted(shares, reverse=True)


def test_nothing_to_assign() -> None:
    """Goal: members whose topics do not exist get nothing."""
    nobody = {"a": subscriber([])}
    for assign in (assign_uniform, assign_range):
        assert assign(nobody, COUNTS, is_equal=True).get("a", {}) == {}


def test_metadata_hash() -> None:
    """Goal: the hash rests on ids, names, numbers and racks of those topics that there are, and on no order. Its values
    are of the code that equals a broker's in `lab.kafka.consumer_differential`."""
    one = Topic("t", "AAAAAAAAAAAAAAAAAAAAAQ", 1)
    other = Topic("u", "AAAAAAAAAAAAAAAAAAAAAg", 2, (("b", "a"), ("c",)))
    topics = {"t": one, "u": other}
    assert metadata_hash(["none"], topics) == NO_TOPICS
    assert metadata_hash(["t", "none", "t"], topics) == 7_015_004_935_473_188_851
    assert metadata_hash(["u", "t"], topics) == metadata_hash(["t", "u"], topics) == 8_344_215_089_284_704_523

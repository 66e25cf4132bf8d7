"""Java's string hash and the iteration order of its hash maps, by vectors from Java 17 and the Kafka 4.2.0 JARs."""

import pytest

from groupledger.coordinator.java_hash_map import (
    JavaHashMap,
    TimelineHashMap,
    string_hash_code,
    topic_partition_number,
    utf16_length,
)
from groupledger.coordinator.offsets_partition import partition_for


@pytest.mark.parametrize(
    ("group_id", "hash_code", "partition"),
    [
        ("", 0, 0),
        ("g1", 3242, 42),
        ("my-group", -1906497762, 12),
        ("console-consumer-12345", 158455506, 6),
        ("connect-cluster", 1440343063, 13),
        ("größe", 98762257, 7),
        ("\U0001f600", 1772899, 49),
        ("__中文", 3567834, 34),
        ("polygenelubricants", -2147483648, 0),
        ("a-very-long-consumer-group-name-for-hash-overflow", -1391767654, 4),
    ],
)
def test_partition_for(group_id: str, hash_code: int, partition: int) -> None:
    """FindCoordinator hashes UTF-16 units in 32 bits, and takes the smallest int for 0."""
    assert string_hash_code(group_id) == hash_code
    assert partition_for(group_id, 50) == partition


def test_lone_surrogate_is_hashed() -> None:
    """A string that Java can hold and UTF-8 can't has a hash all the same."""
    assert string_hash_code("\ud83d") == 0xD83D


def test_utf16_length() -> None:
    """Length is Java's: a character outside the basic plane counts twice."""
    assert [utf16_length(text) for text in ("", "abc", "größe", "a\U0001f600")] == [0, 3, 5, 3]


def put_all(table: JavaHashMap[str, None] | TimelineHashMap[str, None], keys: str) -> list[str]:
    for key in keys.split():
        table.put(key, None)
    return list(table)


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        (" ".join(f"m{n}" for n in range(14)), "m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 m11 m10 m13 m12"),
        ("AaAa BBBB AaBB BBAa x", "x AaAa BBBB AaBB BBAa"),
        (
            "range roundrobin sticky cooperative-sticky sessioned compatible default stream",
            "compatible default stream sticky range roundrobin cooperative-sticky sessioned",
        ),
    ],
)
def test_java_hash_map_order(keys: str, order: str) -> None:
    """Iteration is by bucket, and by insertion within a bucket, through every resize."""
    assert put_all(JavaHashMap(), keys) == order.split()


def test_java_hash_map_remembers_its_size() -> None:
    """The table never shrinks; a key that comes back goes to the end of its bucket."""
    table: JavaHashMap[str, None] = JavaHashMap()
    put_all(table, "AaAa BBBB x")
    table.pop("AaAa")
    assert put_all(table, "AaAa") == ["x", "BBBB", "AaAa"]
    put_all(table, " ".join(f"k{n}" for n in range(40)))
    for n in range(40):
        table.pop(f"k{n}")
    grown: JavaHashMap[str, None] = JavaHashMap(expected_size=40)
    assert put_all(table, "a q") == put_all(grown, "x BBBB AaAa a q")
    table.clear()
    assert list(table) == []


def test_java_hash_map_grows_for_a_crowded_bucket() -> None:
    """A ninth key in one bucket doubles a table below 64, long before three quarters are full."""
    crowd = [chr(ord("a") + 16 * n) for n in range(9)]
    table: JavaHashMap[str, None] = JavaHashMap()
    put_all(table, " ".join(crowd))
    assert list(table) == sorted(crowd, key=lambda key: ord(key) & 31)
    assert list(table) != crowd


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        (" ".join(f"m{n}" for n in range(14)), "m0 m5 m12 m2 m7 m4 m11 m9 m1 m6 m13 m3 m10 m8"),
        ("AaAa BBBB AaBB BBAa x", "x BBAa AaBB BBBB AaAa"),
        ("orders payments shipments refunds customers", "refunds customers shipments orders payments"),
    ],
)
def test_timeline_hash_map_order(keys: str, order: str) -> None:
    """Kafka's own map iterates by slot, the newest first within a slot."""
    assert put_all(TimelineHashMap(), keys) == order.split()


def test_timeline_hash_map_of_numbers() -> None:
    """Integers hash to themselves, a Long folds its halves together."""
    integers: TimelineHashMap[int, None] = TimelineHashMap()
    longs: TimelineHashMap[int, None] = TimelineHashMap()
    for n in range(14):
        integers.put(n, None)
        longs.put(4_000_000_000 * n, None)
    assert list(integers) == [13, 0, 5, 10, 2, 7, 12, 4, 9, 1, 6, 11, 3, 8]
    assert [n // 4_000_000_000 for n in longs] == [0, 10, 6, 11, 7, 12, 13, 1, 2, 3, 8, 4, 9, 5]


def test_timeline_hash_map_grows_before_a_put_of_a_present_key() -> None:
    """The check comes before Kafka knows whether the key is new."""
    once: TimelineHashMap[str, None] = TimelineHashMap()
    twice: TimelineHashMap[str, None] = TimelineHashMap()
    put_all(once, "a b")
    put_all(twice, "a b b")
    assert (once._capacity, twice._capacity) == (2, 4)


def test_copied_timeline_map_goes_on_by_itself() -> None:
    """A copy has the order and the room of the map that it was made of, and neither sees what the other is given."""
    table: TimelineHashMap[str, None] = TimelineHashMap()
    before = put_all(table, "a b c d e f g h")
    copied = table.copied()
    assert [*copied] == before
    assert put_all(copied, "i j k") == put_all(table, "i j k")
    copied.pop("a")
    assert "a" in table


def test_topic_partition_number() -> None:
    """A TopicIdPartition is a record: its hash is 31 times that of its id, here 1, plus the partition."""
    numbers = [topic_partition_number("AAAAAAAAAAAAAAAAAAAAAQ", 3, place=place) for place in (0, 5)]
    assert [(number ^ number >> 32) & 0xFFFFFFFF for number in numbers] == [34, 34]
    assert numbers[0] != numbers[1]

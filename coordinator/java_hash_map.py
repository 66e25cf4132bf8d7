"""Java's hash maps with their iteration order, and the string hash that it depends on.

Where Kafka's coordinator iterates over hash maps, the order is often seen from outside: the members in a record and in
the leader's JoinGroup response, the successor of a leader, ties of the protocol vote, the tombstones of a batch. These
maps keep their entries in a dict (insertion order) and sort by bucket on iteration, which gives the order of the Java
map after the same puts and removals:

- `JavaHashMap`, java.util.HashMap: bucket `(h ^ h >>> 16) & (capacity - 1)`, insertion order within a bucket. The
  capacity doubles when the size exceeds 0.75 of it, and when a ninth key falls into one bucket of a table smaller
  than 64; it never shrinks. From 64 buckets on Java turns such a bucket into a red-black tree: the order inside
  that one bucket is then not modelled.
- `TimelineHashMap`, Kafka's own (server-common, BaseHashTable): Fibonacci hashing into the high bits, the newest first
  within a slot; the capacity starts at 2 and doubles before a put, even of a present key, if 0.75 * (size + 1) exceeds
  it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from groupledger.schemas.kafka.uuids import uuid_of

Key = TypeVar("Key", str, int)
Value = TypeVar("Value")

_HASH_MAP_CAPACITY = 16
_TREEIFY_THRESHOLD = 8
_MIN_TREEIFY_CAPACITY = 64
_FIBONACCI = 0x9E3779B97F4A7C15  # the unsigned form of -7046029254386353131
_UINT32 = 0xFFFFFFFF
_UINT64 = 0xFFFFFFFFFFFFFFFF


def utf16_length(text: str) -> int:
    """Returns Java's String.length(): characters outside the Basic Multilingual Plane count twice."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)


def signed64(number: int) -> int:
    """Returns `number` as a Java long holds it, that is, wrapped into 64 signed bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _signed32(number: int) -> int:
    return ((number & _UINT32) ^ 1 << 31) - (1 << 31)


@lru_cache(maxsize=1 << 17)  # group and member ids come again with every request
def string_hash_code(text: str) -> int:
    """Returns Java's String.hashCode(), over UTF-16 code units, as a signed 32-bit number."""
    code = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _UINT32
    return _signed32(code)


def _hash_code(key: str | int) -> int:
    """Returns hashCode() of a String, or of an Integer or Long that is not negative."""
    return string_hash_code(key) if isinstance(key, str) else _signed32(key ^ key >> 32)


def _spread(key: str | int) -> int:
    code = _hash_code(key) & _UINT32
    return code ^ code >> 16


class _HashTable(Generic[Key, Value]):
    """The common part of both maps: a dict for look-ups, and the order of its keys, which is cached until they
    change."""

    __slots__ = ("_capacity", "_entries", "_order", "get")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[Key, Value] = {}
        self._order: list[Key] | None = []
        # The dict's own method: lookups are a good part of every request, and half their cost would be a wrapper's.
        self.get: Callable[[Key], Value | None] = self._entries.get

    def __getstate__(self) -> tuple[int, dict[Key, Value], list[Key] | None]:
        """Leaves out `get`, because a copy of it would still be the method of the dict that was copied."""
        return self._capacity, self._entries, self._order

    def __setstate__(self, state: tuple[int, dict[Key, Value], list[Key] | None]) -> None:
        self._capacity, self._entries, self._order = state
        self.get = self._entries.get

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        if self._order is None:
            self._order = self._ordered()
        return iter(self._order)

    def __getitem__(self, key: Key) -> Value:
        return self._entries[key]

    def pop(self, key: Key) -> Value | None:
        self._order = None
        return self._entries.pop(key, None)

    def clear(self) -> None:
        self._order = []
        self._entries.clear()

    def values(self) -> list[Value]:
        return [self._entries[key] for key in self]

    def items(self) -> list[tuple[Key, Value]]:
        return [(key, self._entries[key]) for key in self]

    def _ordered(self) -> list[Key]:
        raise NotImplementedError


class JavaHashMap(_HashTable[Key, Value]):
    __slots__ = ()

    def __init__(self, *, expected_size: int = 0) -> None:
        """`expected_size` is that of `new HashSet<>(collection)`; a plain `new HashMap<>()` has none."""
        capacity = _HASH_MAP_CAPACITY
        while capacity < int(expected_size / 0.75) + 1:
            capacity *= 2
        super().__init__(capacity)

    def put(self, key: Key, value: Value) -> None:
        is_new = key not in self._entries
        self._entries[key] = value
        if not is_new:
            return
        self._order = None
        if self._capacity < _MIN_TREEIFY_CAPACITY and self._is_crowded(self._bucket(key)):
            self._capacity *= 2
        if len(self._entries) > 0.75 * self._capacity:
            self._capacity *= 2

    def _is_crowded(self, bucket: int) -> bool:
        if len(self._entries) <= _TREEIFY_THRESHOLD:
            return False
        return sum(self._bucket(key) == bucket for key in self._entries) > _TREEIFY_THRESHOLD

    def _ordered(self) -> list[Key]:
        return sorted(self._entries, key=self._bucket)

    def _bucket(self, key: Key) -> int:
        return _spread(key) & (self._capacity - 1)


def hash_map_order(keys: Iterable[str], *, expected_size: int = 0) -> list[str]:
    """Returns the distinct keys as a HashMap or HashSet iterates them after `put` of each in the given order.
    `expected_size` is the size of the collection from which Java made the set; 0 stands for the default capacity."""
    table: JavaHashMap[str, None] = JavaHashMap(expected_size=expected_size)
    for key in keys:
        table.put(key, None)
    return list(table)


class HashOrder:
    """The order in which a small HashMap iterates its keys. `room` is the capacity with which it was made, and `copied`
    are the keys that were put first.

    Keys are names, or numbers that `uuid_number` returns. `compute` models Java's compute, merge and computeIfAbsent of
    a missing key: unlike `put`, it lets the table grow before the key is added, and puts the key in front of its
    bucket.
    """

    __slots__ = ("_capacity", "_keys")

    def __init__(self, copied: Iterable[str | int] = (), *, room: int = 1) -> None:
        self._keys: list[str | int] = []
        self._capacity = 1
        while self._capacity < room:
            self._capacity *= 2
        for key in copied:
            self.put(key)

    @classmethod
    def of_copy(cls, keys: Collection[str]) -> "HashOrder":
        """Returns the order of a HashMap that Java made as a copy of a map with these keys: its capacity is chosen for
        their number, or is the default if there are none."""
        order = cls(room=int(len(keys) / 0.75 + 1) if keys else _HASH_MAP_CAPACITY)
        for key in keys:
            order.put(key)
        return order

    def put(self, key: str | int) -> None:
        if key not in self._keys:
            self._keys.append(key)
            self._grow()

    def compute(self, key: str | int) -> None:
        if key not in self._keys:
            self._grow()
            self._keys.insert(0, key)

    def remove(self, key: str | int) -> None:
        self._keys.remove(key)

    def _grow(self) -> None:
        if len(self._keys) > int(0.75 * self._capacity):
            self._capacity *= 2

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str | int]:
        return iter(sorted(self._keys, key=lambda key: _spread(key) & (self._capacity - 1)))


class TimelineHashMap(_HashTable[Key, Value]):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(2)

    def copied(self) -> "TimelineHashMap[Key, Value]":
        """Returns a copy of the map, which then changes independently."""
        copied: TimelineHashMap[Key, Value] = TimelineHashMap()
        copied.__setstate__((self._capacity, dict(self._entries), self._order))
        return copied

    def put(self, key: Key, value: Value) -> None:
        entries = self._entries
        if 3 * (len(entries) + 1) > 4 * self._capacity:
            self._capacity *= 2
            self._order = None
        elif key not in entries:
            self._order = None
        entries[key] = value

    def _ordered(self) -> list[Key]:
        newest_first = list(self._entries)[::-1]
        return sorted(newest_first, key=self._slot)

    def _slot(self, key: Key) -> int:
        return (_hash_code(key) * _FIBONACCI & _UINT64) >> (65 - self._capacity.bit_length())


def uuid_number(kafka_id: str) -> int:
    """Returns a number that, as a Java long, has the hash code of Kafka's Uuid `kafka_id`: the exclusive or of the
    Uuid's two halves."""
    number = uuid_of(kafka_id).int
    return number >> 64 ^ number & _UINT64


def topic_partition_number(kafka_id: str, partition: int, *, place: int) -> int:
    """Returns a number that, as a Java long, has the hash code of Kafka's TopicIdPartition, a record of a Uuid and an
    int. `place`, below 2 to the 31st, makes the numbers of two partitions differ although their hash codes are
    equal."""
    code = (31 * _hash_code(uuid_number(kafka_id)) + partition) & _UINT32
    return place << 32 | code ^ place


def uuid_order(kafka_ids: Iterable[str], *, expected_size: int = 0) -> list[str]:
    """Returns the distinct `kafka_ids`, which are UUIDs as Kafka prints them, in the order in which a HashMap with Uuid
    keys iterates them after `put` of each."""
    table: JavaHashMap[int, str] = JavaHashMap(expected_size=expected_size)
    for kafka_id in kafka_ids:
        table.put(uuid_number(kafka_id), kafka_id)
    return table.values()


def int_order(numbers: Collection[int]) -> list[int]:
    """Returns the numbers in the order in which Java iterates a HashSet that was made from their list."""
    table: JavaHashMap[int, None] = JavaHashMap(expected_size=len(numbers))
    for number in numbers:
        table.put(number, None)
    return list(table)

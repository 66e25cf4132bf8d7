"""Holds the topics that a coordinator knows, and computes the hash by which a group notices that they changed.

The hash is Kafka's metadata hash, which has replaced record type 4 since 4.1: XXH3 over each subscribed topic's id,
name, partitions and racks, and XXH3 again over these hashes in the order of the names. Integers are little-endian, and
strings are UTF-16LE units with their length after them, as the library that Kafka uses writes them.

A broker recomputes the hash only for a group with a changed topic, and resolves regular expressions again when there is
a new topic. `KnownTopics` has a version by which both are noticed, like that of the broker's image of the cluster.
"""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xxhash import xxh3_64_intdigest

from groupledger.coordinator.java_hash_map import signed64, utf16_length
from groupledger.schemas.kafka.uuids import uuid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAGIC: Final = b"\x00"
NO_TOPICS: Final = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the cluster's metadata. `racks` has the racks of each partition's replicas, or is empty if brokers
    have no racks."""

    name: str
    topic_id: str
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()


class KnownTopics(UserDict[str, Topic]):
    """The topics by name. `version` is raised by each change. `version_of_creation` is the version at which the newest
    topic was created."""

    def __init__(self) -> None:
        self.version = 0
        self.version_of_creation = 0
        self._versions: dict[str, int] = {}  # of the last change of each topic that is or was there
        super().__init__()

    def __setitem__(self, name: str, topic: Topic) -> None:
        before = self.data.get(name)
        self.data[name] = topic
        if topic != before:
            self._change(name)
        if before is None or before.topic_id != topic.topic_id:
            self.version_of_creation = self.version

    def __delitem__(self, name: str) -> None:
        del self.data[name]
        self._change(name)

    def _change(self, name: str) -> None:
        self.version += 1
        self._versions[name] = self.version

    def has_changed(self, names: Callable[[], Iterable[str]], since_version: int) -> bool:
        """Returns whether one of the named topics was created, changed or deleted after a version. `names` is called
        only if any topic at all was."""
        return self.version > since_version and any(self._versions.get(name, 0) > since_version for name in names())


def metadata_hash(names: Iterable[str], topics: Mapping[str, Topic]) -> int:
    """Returns the hash of a group's topics. It is 0 if none of them exists."""
    known = sorted((name for name in dict.fromkeys(names) if name in topics), key=lambda name: name.encode("utf-16-be"))
    if not known:
        return NO_TOPICS
    return signed64(xxh3_64_intdigest(b"".join(_hash(topics[name]).to_bytes(8, "little") for name in known)))


def _hash(topic: Topic) -> int:
    topic_id = uuid_of(topic.topic_id).int
    parts = [MAGIC, (topic_id >> 64).to_bytes(8, "little"), (topic_id & (1 << 64) - 1).to_bytes(8, "little")]
    parts += [_string(topic.name), _int(topic.partition_count)]
    for number in range(topic.partition_count):
        parts.append(_int(number))
        for rack in sorted(topic.racks[number]) if topic.racks else ():
            parts += [_int(utf16_length(rack)), _string(rack)]
    return xxh3_64_intdigest(b"".join(parts))


def _int(number: int) -> bytes:
    return number.to_bytes(4, "little")


def _string(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + _int(utf16_length(text))

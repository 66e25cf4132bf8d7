"""Parses consumers' subscriptions and assignments, as far as the broker reads them.

An int16 version leads (ConsumerProtocol). From a classic group's subscriptions the broker reads only topics and user
data, whatever version the client wrote. When a group changes its protocol, it reads all fields of the version; it reads
a later version as the latest that it knows. If a number is cut off, Kafka throws an exception that the broker catches.
For a null, or a length beyond the end, the generated Java reader throws an unchecked exception: up to 4.2 this stops
the operation that reads the bytes, and since 4.4 the broker catches it, too. So this reader raises two kinds of error.
The codec has a reader of its own, which also refuses other damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.java_hash_map import int_order
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.schemas.codec.consumer_protocol import encode_assignment
from groupledger.schemas.codec.protocol_message import ProtocolMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.model.config import Config

LATEST_VERSION: Final = 3
OWNED_SINCE, GENERATION_SINCE, RACK_SINCE = 1, 2, 3


class UnreadableSubscriptionError(Exception):
    """A number in the bytes is cut off, or the version is below the first. The broker logs a warning, and uses no part
    of the bytes."""


class MalformedSubscriptionError(IllegalStateError):
    """The bytes contain a null where none may be, or a length beyond their end."""


def unreadable(config: Config) -> tuple[type[Exception], ...]:
    """Returns the types of error that a broker of this release catches when it reads a subscription."""
    if config.is_4_4:
        return UnreadableSubscriptionError, MalformedSubscriptionError
    return (UnreadableSubscriptionError,)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A parsed subscription. `owned` are partitions by topic, as the client listed them."""

    topics: tuple[str, ...]
    owned: tuple[tuple[str, tuple[int, ...]], ...]
    rack_id: str | None


@dataclass(frozen=True, slots=True)
class Assignment:
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    has_user_data: bool


def topics_of_subscription(metadata: bytes) -> set[str]:
    _, offset = _read_int(metadata, 0, size=2)  # the version says nothing about the v0 prefix
    topics, offset = _read_topics(metadata, offset)
    _read_user_data(metadata, offset)
    return set(topics)


def read_subscription(metadata: bytes) -> Subscription:
    version, offset = _read_version(metadata)
    topics, offset = _read_topics(metadata, offset)
    _, offset = _read_user_data(metadata, offset)
    owned: list[tuple[str, tuple[int, ...]]] = []
    rack_id = None
    if version >= OWNED_SINCE:
        owned, offset = _read_partitions(metadata, offset)
    if version >= GENERATION_SINCE:
        _, offset = _read_int(metadata, offset, size=4)
    if version >= RACK_SINCE:
        length, offset = _read_int(metadata, offset, size=2)
        rack_id = None if length < 0 else _text(_read_bytes(metadata, offset, length)[0])
    return Subscription(tuple(topics), tuple(owned), rack_id)


def read_assignment(data: bytes) -> Assignment:
    _, offset = _read_version(data)
    partitions, offset = _read_partitions(data, offset)
    user_data, _ = _read_user_data(data, offset)
    return Assignment(tuple(partitions), bool(user_data))


def written_assignment(partitions: Iterable[tuple[str, tuple[int, ...]]], subscription: bytes) -> bytes:
    """Returns the encoded assignment of a member with these partitions, in the version of its subscription."""
    version, _ = _read_version(subscription)
    by_topic = [{"topic": topic, "partitions": int_order(numbers)} for topic, numbers in partitions]
    return encode_assignment(ProtocolMessage(version, {"assigned_partitions": by_topic, "user_data": None}))


def _read_version(data: bytes) -> tuple[int, int]:
    version, offset = _read_int(data, 0, size=2)
    if version < 0:
        raise UnreadableSubscriptionError
    return min(version, LATEST_VERSION), offset


def _read_topics(buffer: bytes, offset: int) -> tuple[list[str], int]:
    count, offset = _read_count(buffer, offset)
    topics = []
    for _ in range(count):
        topic, offset = _read_text(buffer, offset)
        topics.append(topic)
    return topics, offset


def _read_partitions(buffer: bytes, offset: int) -> tuple[list[tuple[str, tuple[int, ...]]], int]:
    count, offset = _read_count(buffer, offset)
    found = []
    for _ in range(count):
        topic, offset = _read_text(buffer, offset)
        length, offset = _read_count(buffer, offset)
        numbers = []
        for _ in range(length):
            number, offset = _read_int(buffer, offset, size=4)
            numbers.append(number)
        found.append((topic, tuple(numbers)))
    return found, offset


def _read_user_data(buffer: bytes, offset: int) -> tuple[bytes, int]:
    length, offset = _read_int(buffer, offset, size=4)
    return (b"", offset) if length < 0 else _read_bytes(buffer, offset, length)


def _read_count(buffer: bytes, offset: int) -> tuple[int, int]:
    count, offset = _read_int(buffer, offset, size=4)
    if not 0 <= count <= len(buffer) - offset:
        raise MalformedSubscriptionError(f"subscription with {count} elements")
    return count, offset


def _read_text(buffer: bytes, offset: int) -> tuple[str, int]:
    length, offset = _read_int(buffer, offset, size=2)
    raw, offset = _read_bytes(buffer, offset, length)
    return _text(raw), offset


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _read_int(buffer: bytes, offset: int, *, size: int) -> tuple[int, int]:
    end = offset + size
    if end > len(buffer):
        raise UnreadableSubscriptionError
    return int.from_bytes(buffer[offset:end], "big", signed=True), end


def _read_bytes(buffer: bytes, offset: int, length: int) -> tuple[bytes, int]:
    end = offset + length
    if length < 0 or end > len(buffer):
        raise MalformedSubscriptionError(f"subscription with a field of {length} bytes")
    return buffer[offset:end], end

"""The user data that the sticky assignors put into a subscription: a member's last assignment and its generation.

sticky:             previous_assignment []{topic string, partitions []int32}, generation int32 (absent in version 0)
cooperative-sticky: generation int32
All big-endian, strings with an int16 length, arrays with an int32 length; bytes after the last field are ignored.
If a length is below zero or beyond the bytes that remain, the member counts as owning nothing.
Source: Kafka StickyAssignor, CooperativeStickyAssignor.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from groupledger.coordinator.assignors.java_order import computed_hash_map_order
from groupledger.coordinator.assignors.ownership import NO_GENERATION, MemberData
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.assignors.subscriptions import Subscription

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")


def sticky_user_data(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    """Returns the user data that a member sends after it was assigned `partitions` in `generation`. Before its first
    assignment a member sends null."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [INT32.pack(len(by_topic))]
    for topic in computed_hash_map_order(topic for topic, _ in partitions):
        name = topic.encode()
        numbers = by_topic[topic]
        parts += (INT16.pack(len(name)), name, INT32.pack(len(numbers)))
        parts += map(INT32.pack, numbers)
    return b"".join((*parts, INT32.pack(generation)))


def cooperative_sticky_user_data(generation: int) -> bytes:
    """Returns the user data that a member sends: the generation of its last assignment, or -1 before the first one."""
    return INT32.pack(generation)


def sticky_member_data(subscription: Subscription) -> MemberData:
    """Returns the partitions that an eager member claims, and their generation. Both are in the user data, because an
    eager member has revoked all partitions before it joins."""
    data = subscription.user_data
    if not data:
        return MemberData((), None)
    try:
        partitions, offset = _read_previous_assignment(data)
    except struct.error:
        return MemberData((), NO_GENERATION)
    if len(data) - offset < INT32.size:
        return MemberData(partitions, None)
    return MemberData(partitions, INT32.unpack_from(data, offset)[0])


def cooperative_member_data(subscription: Subscription) -> MemberData:
    """Returns the claims of a cooperative member. Before subscription version 2 the generation is in the user data."""
    owned, data = subscription.owned_partitions, subscription.user_data
    if subscription.generation_id >= 0:
        return MemberData(owned, subscription.generation_id)
    if data is None:
        return MemberData(owned, None)
    if len(data) < INT32.size:
        return MemberData(owned, NO_GENERATION)
    return MemberData(owned, INT32.unpack_from(data)[0])


def _read_previous_assignment(data: bytes) -> tuple[list[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    topic_count, offset = _read_length(data, 0, INT32)
    for _ in range(topic_count):
        name_length, offset = _read_length(data, offset, INT16)
        topic = data[offset : offset + name_length].decode(errors="replace")
        count, offset = _read_length(data, offset + name_length, INT32)
        numbers = struct.unpack_from(f">{count}i", data, offset)
        offset += count * INT32.size
        partitions += (TopicPartition(topic, number) for number in numbers)
    return partitions, offset


def _read_length(data: bytes, offset: int, kind: struct.Struct) -> tuple[int, int]:
    """Returns a length or count, and the offset after it. Each element takes at least one byte."""
    (length,) = kind.unpack_from(data, offset)
    offset += kind.size
    if not 0 <= length <= len(data) - offset:
        raise struct.error(f"length {length} at byte {offset - kind.size} of {len(data)}")
    return length, offset

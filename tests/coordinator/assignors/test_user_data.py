"""Sticky members send their former partitions as bytes; broken bytes cost a member only its claims."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.assignors import Subscription
from groupledger.coordinator.assignors.ownership import NO_GENERATION, MemberData
from groupledger.coordinator.assignors.user_data import (
    cooperative_member_data,
    cooperative_sticky_user_data,
    sticky_member_data,
    sticky_user_data,
)
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PARTITIONS = [TopicPartition("orders", 3), TopicPartition("audit", 0), TopicPartition("orders", 1)]
STICKY = bytes.fromhex(
    "00000002"  # topics, in map order
    "0005 6175646974 00000001 00000000"  # audit: 0
    "0006 6f7264657273 00000002 00000003 00000001"  # orders: 3, 1
    "00000007"  # generation
)


def member(user_data: bytes | None, *, generation_id: int = -1) -> Subscription:
    return Subscription(
        topics=("orders",),
        owned_partitions=(TopicPartition("orders", 5),),
        generation_id=generation_id,
        user_data=user_data,
    )


def test_sticky_user_data_is_laid_out_as_kafka_does() -> None:
    """Goal: the literal bytes, and the way back; topics come grouped."""
    assert sticky_user_data(PARTITIONS, 7) == STICKY
    assert sticky_member_data(member(STICKY)) == MemberData(
        [TopicPartition("audit", 0), TopicPartition("orders", 3), TopicPartition("orders", 1)], 7
    )


def test_sticky_reads_version_0_and_ignores_what_follows() -> None:
    """Goal: user data without a generation after the partitions is no error; nor are further bytes after the
    generation."""
    assert sticky_member_data(member(STICKY[:-4])).generation is None
    assert sticky_member_data(member(STICKY + b"more")).generation == 7


@pytest.mark.parametrize("user_data", [None, b""])
def test_sticky_member_without_user_data_claims_nothing(user_data: bytes | None) -> None:
    """Goal: a member that was never assigned anything has no generation either."""
    assert sticky_member_data(member(user_data)) == MemberData((), None)


@settings(max_examples=300, deadline=None)
@given(user_data=st.binary(min_size=1) | st.integers(1, len(STICKY) - 9).map(lambda length: STICKY[:length]))
def test_no_bytes_break_the_readers(user_data: bytes) -> None:
    """Goal: hostile or truncated bytes cost a member its claims at most, and never claim what is not in them."""
    data = sticky_member_data(member(user_data))
    assert len(data.partitions) * 4 <= len(user_data)
    assert data.partitions or data.generation in {NO_GENERATION, None} or user_data.startswith(bytes(4))
    assert cooperative_member_data(member(user_data)).partitions == (TopicPartition("orders", 5),)


@pytest.mark.parametrize(
    ("user_data", "generation_id", "generation"),
    [
        (cooperative_sticky_user_data(4), 9, 9),
        (cooperative_sticky_user_data(4), -1, 4),
        (cooperative_sticky_user_data(-1), -1, -1),
        (b"\0\0\0", -1, NO_GENERATION),
        (None, -1, None),
    ],
)
def test_cooperative_generation_is_the_fields_or_else_the_user_datas(
    user_data: bytes | None, generation_id: int, generation: int | None
) -> None:
    """Goal: subscription version 2 and later carry the generation in a field, which then rules."""
    assert cooperative_member_data(member(user_data, generation_id=generation_id)) == MemberData(
        (TopicPartition("orders", 5),), generation
    )


@pytest.mark.java
def test_user_data_is_what_kafkas_assignors_send(
    ask_kafka: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> None:
    """Goal: the same bytes as Kafka's classes send after an assignment, with the topics in map order."""
    rng = random.Random(7)
    for _ in range(100):
        partitions = [TopicPartition(f"topic-{rng.randrange(30)}", rng.randrange(9)) for _ in range(rng.randrange(40))]
        generation = rng.randrange(99)
        for assignor, expected in (
            ("sticky", sticky_user_data(partitions, generation)),
            ("cooperative-sticky", cooperative_sticky_user_data(generation)),
        ):
            answer = ask_kafka({"assignor": assignor, "partitions": partitions, "generation": generation})
            assert base64.b64decode(answer["user_data"]) == expected


@pytest.mark.java
def test_user_data_before_any_assignment_is_what_kafkas_assignors_send(
    ask_kafka: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> None:
    """Goal: a member that was never assigned anything sends null, or generation -1."""
    fresh: dict[str, Any] = {"partitions": [], "generation": -1}
    assert ask_kafka({"assignor": "sticky", **fresh}) == {"user_data": None}
    answer = ask_kafka({"assignor": "cooperative-sticky", **fresh})
    assert base64.b64decode(answer["user_data"]) == cooperative_sticky_user_data(-1)

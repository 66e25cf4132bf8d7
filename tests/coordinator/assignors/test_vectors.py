"""Hand-checked cases in vectors.json: small enough to follow with pencil and paper, odd enough to be worth it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.assignors import ASSIGNORS, Assignment, AssignmentError, Subscription, TopicPartitions
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors.json").read_text())["vectors"]

each_vector = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"].replace(" ", "-"))


@each_vector
def test_assignment_is_that_of_the_vector(vector: Mapping[str, Any]) -> None:
    """Goal: each rule and each known oddity of Kafka's assignors, without Java."""
    topics = {topic: topic_partitions(racks) for topic, racks in vector["topics"].items()}
    members = {member["member_id"]: subscription(member) for member in vector["members"]}
    assign = ASSIGNORS[vector["assignor"]]
    if vector["assignment"] is None:
        with pytest.raises(AssignmentError):
            assign(topics, members)
    else:
        assert as_json(assign(topics, members)) == vector["assignment"]


@pytest.mark.java
@each_vector
def test_vector_is_kafkas_answer(
    vector: Mapping[str, Any], ask_kafka: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Goal: the file stays what kafka-clients says."""
    assert ask_kafka(vector).get("assignment") == vector["assignment"]


def topic_partitions(racks: list[list[str]]) -> TopicPartitions:
    return TopicPartitions(len(racks), tuple(map(frozenset, racks)))


def subscription(member: Mapping[str, Any]) -> Subscription:
    return Subscription(
        topics=tuple(member["topics"]),
        owned_partitions=tuple(TopicPartition(*pair) for pair in member["owned_partitions"]),
        generation_id=member["generation_id"],
        rack_id=member["rack_id"],
        group_instance_id=member["group_instance_id"],
        user_data=None if member["user_data"] is None else base64.b64decode(member["user_data"]),
    )


def as_json(assignment: Assignment) -> dict[str, list[list[str | int]]]:
    return {member_id: [[topic, partition] for topic, partition in held] for member_id, held in assignment.items()}

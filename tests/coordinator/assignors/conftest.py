"""Asks Kafka's own assignors, in one JVM for all tests, over JSON lines."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from groupledger.coordinator.assignors import Assignment, Subscription, TopicPartitions

REPOSITORY = Path(__file__).parents[3]
ORACLE = Path(__file__).parent / "java" / "AssignorOracle.java"


@pytest.fixture(scope="session")
def ask_kafka() -> Iterator[Callable[[Mapping[str, Any]], dict[str, Any]]]:
    """Sends one question of the form that AssignorOracle.java describes, and returns its answer."""
    jars = REPOSITORY / ".jars" / "kafka"
    assert any(jars.glob("kafka-clients-*.jar")), f"no kafka-clients JAR in {jars}: run `make setup`"
    # C1 alone compiles fastest, and a short run never earns back what C2 costs.
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(ORACLE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="ascii") as oracle:
        questions, answers = oracle.stdin, oracle.stdout
        assert questions is not None
        assert answers is not None

        def ask(question: Mapping[str, Any]) -> dict[str, Any]:
            questions.write(json.dumps(question) + "\n")
            questions.flush()
            answer = answers.readline()
            assert answer, f"the oracle died on {json.dumps(question)}"
            parsed: dict[str, Any] = json.loads(answer)
            return parsed

        yield ask


@pytest.fixture(scope="session")
def kafka_assign(
    ask_kafka: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> Callable[[str, Mapping[str, TopicPartitions], Mapping[str, Subscription]], Assignment | None]:
    """Returns what the assignor of that name in kafka-clients assigns, or None where it throws."""

    def assign(
        assignor: str, topics: Mapping[str, TopicPartitions], members: Mapping[str, Subscription]
    ) -> Assignment | None:
        question = {
            "assignor": assignor,
            "topics": {
                topic: [sorted(partitions.racks(partition)) for partition in range(partitions.partition_count)]
                for topic, partitions in topics.items()
            },
            "members": [
                {
                    "member_id": member_id,
                    "topics": member.topics,
                    "owned_partitions": member.owned_partitions,
                    "generation_id": member.generation_id,
                    "rack_id": member.rack_id,
                    "group_instance_id": member.group_instance_id,
                    "user_data": None if member.user_data is None else base64.b64encode(member.user_data).decode(),
                }
                for member_id, member in members.items()
            ],
        }
        answer = ask_kafka(question)
        if "error" in answer:
            return None
        return {
            member_id: [TopicPartition(topic, partition) for topic, partition in partitions]
            for member_id, partitions in answer["assignment"].items()
        }

    return assign

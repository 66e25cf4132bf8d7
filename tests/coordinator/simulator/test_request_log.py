"""Goal: the request log's lines are those of a broker, field by field and in their order."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetToCommit,
    PartitionResult,
)
from groupledger.coordinator.simulator.network import Exchange
from groupledger.coordinator.simulator.request_log import render_line
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
JARS = HERE.parents[2] / ".jars" / "kafka"
SCENARIOS = (
    *("group-reborn", "zombie-commits", "coordinator-failover", "transactional-commits", "scale-in"),
    *("consumer-topics", "consumer-pause", "share-topics", "share-pause", "streams-standbys", "streams-topology"),
)
PER_API_AND_ERROR = 20


def exchange(request: Any, response: Any) -> Exchange:
    return Exchange(
        request=request,
        response=response,
        broker_id=2,
        connection_id=17,
        client_id="consumer-g1-1",
        client_host="/10.0.0.1",
        received_at_ms=1_767_571_200_120,
        sent_at_ms=1_767_571_200_123,
        planted=None,
    )


def body_of(line: str) -> str:
    return line.partition("Completed request:")[2].removesuffix(" (kafka.request.logger)")


def test_a_line() -> None:
    """Goal: prefix, envelope and a parked request's wait."""
    line = render_line(
        exchange(
            HeartbeatRequest(42, "g1", generation_id=4, member_id="m"),
            HeartbeatResponse(42, Error.REBALANCE_IN_PROGRESS),
        )
    )
    assert line == (
        '[2026-01-05 00:00:00,123] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":12,'
        '"requestApiVersion":4,"correlationId":42,"clientId":"consumer-g1-1","requestApiKeyName":"HEARTBEAT"},'
        '"request":{"groupId":"g1","generationId":4,"memberId":"m","groupInstanceId":null},'
        '"response":{"throttleTimeMs":0,"errorCode":27},"connection":"10.0.1.2:9092-10.0.0.1:32785-2-17",'
        '"totalTimeMs":3.375,"requestQueueTimeMs":0.0625,"localTimeMs":0.125,"remoteTimeMs":3.0,"throttleTimeMs":0,'
        '"responseQueueTimeMs":0.0625,"sendTimeMs":0.125,"securityProtocol":"PLAINTEXT",'
        '"principal":"User:ANONYMOUS","listener":"PLAINTEXT","clientInformation":{"softwareName":"apache-kafka-java",'
        '"softwareVersion":"4.2.0"}} (kafka.request.logger)'
    )


def test_hostile_names_stay_inside_their_line() -> None:
    """Goal: quotes, line breaks and other scripts in a group's name are JSON, on one line."""
    request = HeartbeatRequest(1, 'g"\n\u2028größe', generation_id=4, member_id="m")
    line = render_line(exchange(request, HeartbeatResponse(1, Error.NONE)))
    assert "\n" not in line
    assert json.loads(body_of(line))["request"]["groupId"] == request.group_id


def rare_exchanges() -> list[Exchange]:
    """What no scenario sends: commits by topic id, and deleted offsets."""
    offsets = (
        OffsetToCommit(
            topic="t", partition=0, offset=5, leader_epoch=1, metadata="", topic_id="4L6g3nShT-eMCtK--X86sw"
        ),
        OffsetToCommit(topic="t", partition=1, offset=6),
    )
    results = tuple(PartitionResult("t", partition, Error.ILLEGAL_GENERATION) for partition in (0, 1))
    return [
        exchange(
            OffsetCommitRequest(
                1, "g", offsets=offsets[:1], generation_id=3, member_id="m", group_instance_id="i", api_version=10
            ),
            OffsetCommitResponse(1, results[:1]),
        ),
        exchange(
            OffsetDeleteRequest(2, "g", (TopicPartition("t", 0), TopicPartition("u", 1), TopicPartition("t", 1))),
            OffsetDeleteResponse(2, Error.NONE, results),
        ),
    ]


@pytest.mark.java
def test_bodies_equal_kafkas(play: Callable[[str], Any]) -> None:
    """Goal: Kafka's converters read every kind of request and answer, and write the same text again."""
    chosen: dict[tuple[Any, ...], list[Exchange]] = {}
    for each in [*rare_exchanges(), *(each for name in SCENARIOS for each in play(name).outputs.exchanges)]:
        kind = (type(each.request), getattr(each.response, "error", Error.NONE))
        chosen.setdefault(kind, []).append(each)
    assert len({request for request, _ in chosen}) == 12
    bodies = [body_of(render_line(each)) for some in chosen.values() for each in some[:PER_API_AND_ERROR]]
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    oracle = subprocess.run(
        [*command, str(HERE / "java" / "RequestLogOracle.java")],
        input="\n".join(bodies),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    answers = oracle.stdout.splitlines()
    assert len(answers) == len(bodies)
    for body, answer in zip(bodies, answers, strict=True):
        ours = json.loads(body)
        assert answer == json.dumps([ours["request"], ours["response"]], separators=(",", ":"), ensure_ascii=False)

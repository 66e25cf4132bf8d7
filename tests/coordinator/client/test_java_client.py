"""The model of a client sends the same requests as Kafka's own Java client, in the same minute in four lives.

`java_client.json` has the lines of a 4.2.0 broker's request log about the four consumers of java/JavaClients.java, by
the assignors that they were configured with ("+records": while something is produced), client and order; the test plays
the same minute in virtual time. Left out are heartbeats without an error, metadata, fetches, the client's way to a
broker whose `__consumer_offsets` did not exist yet, and the number of automatic commits in a row. Member ids are
masked. Rows, with errors as numbers:

    find | offset_fetch, partitions | list_offsets | offset_for_leader_epoch
    join_group, member id, reason, protocols, topics, owned partitions, generation of these, error, generation
    sync_group, generation, assignments, error
    heartbeat, generation, error
    offset_commit, generation, topics, error
    leave_group, reason
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from groupledger.coordinator.client.messages import (
    FindCoordinatorRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from groupledger.schemas.codec.consumer_protocol import decode_subscription

RECORDED = json.loads(Path(__file__).with_name("java_client.json").read_text(encoding="utf-8"))
MEMBER_UUID = re.compile(r"\w+-uuid-\d+")
SETTINGS = {
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 500,
    "max_poll_interval_ms": 4_000,
    "auto_commit_interval_ms": 1_000,
    "auto_offset_reset": "earliest",
}


def play(cluster: Any, assignors: tuple[str, ...], *, records: bool) -> None:
    """JavaClients.main, with the same pauses."""

    def pause(milliseconds: int) -> None:
        while records and milliseconds > 0:
            cluster.produce("payments", 1)
            cluster.run(min(300, milliseconds))
            milliseconds -= 300
        cluster.run(max(milliseconds, 0))

    def start(name: str, **settings: str) -> Any:
        return cluster.start(name, assignors=assignors, **SETTINGS, **settings)

    a = start("a")
    pause(6_000)
    b = start("b")
    pause(5_000)
    c = start("c")
    pause(5_000)
    process(c, pause, 6_000, then=4_000)
    a.consumer.subscribe(["payments", "orders"], cluster.now_ms)
    pause(4_000)
    b.close()
    pause(4_000)
    c.consumer.subscribe([], cluster.now_ms)
    pause(3_000)
    a.close()
    pause(2_000)
    s = start("s", group_instance_id="one")
    pause(3_000)
    process(s, pause, 5_000, then=3_000)
    s.close()
    pause(1_500)


def process(application: Any, pause: Any, milliseconds: int, *, then: int) -> None:
    application.is_polling = False
    pause(milliseconds)
    application.is_polling = True
    pause(then)


def rows(application: Any) -> list[list[Any]]:
    responses = {response.request_id: response for response in application.responses}
    found: list[list[Any]] = []
    for request in application.sent:
        row = row_of(request, responses.get(request.request_id))
        is_repeated = row[:1] == ["offset_commit"] and found[-1:] == [row]
        if row and not is_repeated:
            found.append(row)
    return found


def row_of(request: Any, response: Any) -> list[Any]:
    """Returns the row of a request, or nothing for a request that is not compared."""
    match request:
        case JoinGroupRequest():
            names = [name for name, _ in request.protocols]
            member_id, reason = (MEMBER_UUID.sub("#", text) for text in (request.member_id, request.reason or ""))
            subscription = described(request.protocols[0][1])
            return ["join_group", member_id, reason, names, *subscription, response.error, response.generation_id]
        case SyncGroupRequest():
            return ["sync_group", request.generation_id, len(request.assignments), response.error]
        case HeartbeatRequest():
            return ["heartbeat", request.generation_id, response.error] if response.error else []
        case OffsetCommitRequest():
            topics = {offset.topic for offset in request.offsets}
            return ["offset_commit", request.generation_id, len(topics), max(p.error for p in response.partitions)]
        case _:
            return row_whatever_the_answer(request)


def row_whatever_the_answer(request: Any) -> list[Any]:
    match request:
        case FindCoordinatorRequest():
            return ["find"]
        case LeaveGroupRequest():
            return ["leave_group", request.members[0].reason]
        case OffsetFetchRequest():
            return ["offset_fetch", len(request.groups[0].partitions or ())]
        case ListOffsetsRequest():
            return ["list_offsets"]
        case OffsetForLeaderEpochRequest():
            return ["offset_for_leader_epoch"]
        case _:
            return []


def described(subscription: bytes) -> list[Any]:
    fields = decode_subscription(subscription).fields
    owned = sum(len(topic["partitions"]) for topic in fields["owned_partitions"])
    return [fields["topics"], owned, fields["generation_id"]]


@pytest.mark.parametrize("recording", RECORDED)
def test_same_requests_as_the_java_client(new_cluster: Any, recording: str) -> None:
    """Goal: joins, syncs, commits, leaves, their reasons and generations, in the order of a real consumer's life."""
    cluster = new_cluster()
    cluster.topic("payments", 6)
    cluster.topic("orders", 2)
    assignors = tuple(recording.removesuffix("+records").split(","))
    play(cluster, assignors, records=recording.endswith("+records"))
    assert {name: rows(one) for name, one in cluster.applications.items()} == RECORDED[recording]

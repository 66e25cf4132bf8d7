"""Goal: the recorded logs have everything that a group of KIP-848 went through at the socket, as the pipeline's rules
read it."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.consumer.group import OffsetCommitRequest

from groupledger.coordinator.model.config import Config
from groupledger.jobs.coordinator.apis import SERVED
from groupledger.jobs.coordinator.recording import recording
from groupledger.jobs.coordinator.requests import GROUP_REQUESTS
from groupledger.jobs.coordinator.service import ClientConnection, Service
from groupledger.jobs.coordinator.world import World
from groupledger.jobs.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.request_line import COMPLETED, LOGGER
from groupledger.transforms.incidents.rules import GroupFacts, Rules, incidents
from groupledger.transforms.logs.rules.server_log import entries, parse_entry
from groupledger.transforms.logs.rules.triggers import triggers
from groupledger.transforms.privacy import Privacy
from lab.truth.from_logs import event_facts, request_facts

GROUP = "billing"
BEGAN_AT_MS = 1_767_571_200_000
ORACLE = Path(__file__).parents[2] / "coordinator" / "simulator" / "java" / "RequestLogOracle.java"
JARS = Path(__file__).parents[3] / ".jars" / "kafka"


class Session:
    """Requests to a recorded service, one a second, from clients that have a connection each."""

    def __init__(self, directory: Path) -> None:
        config = Config(group_initial_rebalance_delay_ms=0)
        world = World(config, 1, 1, BEGAN_AT_MS, {"orders": 4}, 60, is_recorded=True)
        self.directory, self.service, self.now_ms = directory, Service(world, say=lambda _: None), BEGAN_AT_MS
        self._connections: dict[str, ClientConnection] = {}

    def ask(self, client_id: str, message: Any) -> None:
        self.now_ms += 1_000
        if client_id not in self._connections:
            number = len(self._connections)
            self._connections[client_id] = ClientConnection(number, 0, lambda _: None, lambda _: None)
        message.with_header(self.now_ms % 1_000_000, client_id)
        self.service.received(self._connections[client_id], message.encode(header=True), self.now_ms)

    def beat(self, member: str, epoch: int, **fields: Any) -> None:
        words: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
        said = {**words, "topic_partitions": []} if epoch == 0 else {}
        kind = ConsumerGroupHeartbeatRequest
        self.ask(member, kind(version=1, group_id=GROUP, member_id=member, member_epoch=epoch, **{**said, **fields}))

    def commit(self, member: str, epoch: int) -> None:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        named = {"group_id": GROUP, "member_id": member, "generation_id_or_member_epoch": epoch}
        self.ask(member, OffsetCommitRequest(version=9, **named, topics=[topic(name="orders", partitions=[partition])]))

    def record(self) -> None:
        with ExitStack() as stack:
            write = stack.enter_context(recording(self.directory, self.service.world, stack))
            write(self.service.take(), self.now_ms)

    def lines(self, folder: str) -> list[str]:
        (file,) = (self.directory / folder).iterdir()
        return file.read_text().splitlines()


def played(directory: Path) -> Session:
    """Two members join; the second goes silent and comes back with a commit of its old epoch; the first closes."""
    session = Session(directory)
    session.beat("app-1", 0)
    session.beat("app-2", 0)
    session.beat("app-1", 1, topic_partitions=[])
    session.beat("app-2", 2)
    session.commit("app-1", 2)
    session.service.expire(GROUP, "app-2")
    session.commit("app-2", 2)
    session.beat("app-2", 2)
    session.beat("app-1", 2)
    session.commit("app-1", 2)
    session.beat("app-1", -1)
    session.record()
    return session


def test_a_session_is_reported(tmp_path: Path) -> None:
    """Goal: the two logs of a session show as triggers and incidents which members joined, expired and left, and which
    requests were refused."""
    session = played(tmp_path)
    requests = request_facts(("request.log", line) for line in session.lines("request-log"))[GROUP]
    beats = [each for each in requests if each.api == "CONSUMER_GROUP_HEARTBEAT"]
    assert [(each.member_id, each.generation, each.error_code) for each in beats[-3:]] == [
        ("app-2", 2, Error.UNKNOWN_MEMBER_ID),
        ("app-1", 2, Error.NONE),
        ("app-1", -1, Error.NONE),
    ]
    lines = session.lines("server-log")
    rows = [parse_entry(entry, "UTC", Privacy()) for entry in entries(enumerate(lines, 1))]
    events = [{"source_file": "server.log", **row} for row in rows if isinstance(row, dict)]
    assert len(events) == len(lines)
    assert [each["kind"] for each in events if each["kind"] != "target_assignment_computed"] == [
        *("consumer_member_joined", "group_epoch_bumped") * 2,
        *("consumer_member_fenced", "group_epoch_bumped"),
        *("consumer_member_left", "group_epoch_bumped"),
    ]
    bumps = [each for each in events if each["kind"] == "group_epoch_bumped"]
    rebalances = [{"to_generation": each["generation"], "happened_at": each["logged_at"]} for each in bumps]
    found = list(triggers(rebalances, events))
    assert [each["trigger"] for each in found] == [None, None, "session_expired", "left"]
    assert [each["trigger_member_ids"] for each in found[2:]] == [["app-2"], ["app-1"]]
    facts = GroupFacts(GROUP, session.now_ms, requests=requests, events=event_facts(lines)[GROUP])
    of_members = {(row["kind"], row["member_id"]) for row in incidents(facts, Rules())}
    assert of_members == {("session_expired", "app-2"), ("unknown_member", "app-2")}


@pytest.mark.java
def test_lines_are_a_brokers(tmp_path: Path) -> None:
    """Goal: Kafka's converters read the lines of all versions of each API about groups, and write the same again."""
    session = Session(tmp_path)
    for api, served in SERVED.items():
        if api in GROUP_REQUESTS:
            for version in range(served.min_version, served.max_version + 1):
                fields = {"group_id": GROUP} if "group_id" in served.request.fields else {}
                session.ask(f"client-{api}-{version}", served.request(version=version, **fields))
    session.beat("app-1", 0)
    session.ask("admin", ConsumerGroupDescribeRequest(version=1, group_ids=[GROUP]))
    session.service.advance(session.now_ms + 600_000)
    session.record()
    bodies = [line.partition(COMPLETED)[2].removesuffix(f" ({LOGGER})") for line in session.lines("request-log")]
    reported = {
        (each["requestHeader"]["requestApiKey"], each["requestHeader"]["requestApiVersion"])
        for each in map(json.loads, bodies)
    }
    assert reported >= {(api, SERVED[api].max_version) for api in GROUP_REQUESTS}
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(ORACLE)]
    oracle = subprocess.run(command, input="\n".join(bodies), capture_output=True, encoding="utf-8", check=True)
    for body, answer in zip(map(json.loads, bodies), oracle.stdout.splitlines(), strict=True):
        assert json.loads(answer) == [body["request"], body["response"]]

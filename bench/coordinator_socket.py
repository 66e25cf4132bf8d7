"""`python -m bench.coordinator_socket` measures the coordinator on a socket, beside a real broker in the same run.

A group of 200 members has joined, each with a connection of its own. Then every member sends nine heartbeats and a
commit, over and over, and each request as soon as the one before is answered. The load comes from this process on a
core of its own; the requests are encoded before the clock starts.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from kafka.protocol.admin.topics import CreateTopicsRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest

from lab.kafka.connection import Connection
from lab.kafka.local_broker import LocalBroker
from lab.kafka.producers import retried

MEMBERS = 200
HEARTBEATS_PER_COMMIT = 9
GROUP, TOPIC = "bench", "orders"
JOINED_BEFORE_IDS = 3  # the version of JoinGroup in which a member gets its id and waits in one request
METADATA = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"
SOCKETS = ["--listen", "127.0.0.1:0", "--nodes", "1", "--topics", f"{TOPIC}:{MEMBERS}", "--rate", "0"]
RECEIVE_BYTES = 1 << 16


def joined(bootstrap_servers: str) -> list[list[bytes]]:
    """Joins all members, and returns the frames that each sends from then on."""
    connections = [Connection(bootstrap_servers) for _ in range(MEMBERS)]
    protocol = JoinGroupRequest.JoinGroupRequestProtocol
    for connection in connections:
        connection.send(
            JoinGroupRequest(
                version=JOINED_BEFORE_IDS,
                group_id=GROUP,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                member_id="",
                protocol_type="consumer",
                protocols=[protocol(name="range", metadata=METADATA)],
            )
        )
    answers = [connection.receive() for connection in connections]
    assert {answer.error_code for answer in answers} == {0}, answers[0]
    assignment = SyncGroupRequest.SyncGroupRequestAssignment
    for connection, answer in zip(connections, answers, strict=True):
        assignments = [assignment(member_id=each.member_id, assignment=b"") for each in answer.members]
        sync = SyncGroupRequest(
            version=3,
            group_id=GROUP,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            assignments=assignments,
        )
        connection.send(sync)
    for connection in connections:
        assert connection.receive().error_code == 0
        connection.close()
    return [frames_of(index, answer) for index, answer in enumerate(answers)]


def frames_of(index: int, joined_as: Any) -> list[bytes]:
    generation, member = joined_as.generation_id, joined_as.member_id
    heartbeat = HeartbeatRequest(version=4, group_id=GROUP, generation_id=generation, member_id=member)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")
    commit = OffsetCommitRequest(
        version=9,
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[topic(name=TOPIC, partitions=[partition])],
    )
    for request in (heartbeat, commit):
        request.with_header(1, "bench")
    return [
        *[heartbeat.encode(header=True, framed=True)] * HEARTBEATS_PER_COMMIT,
        commit.encode(header=True, framed=True),
    ]


@dataclass(slots=True)
class Member:
    """A member's connection, the frames that it sends over and over, and which comes next."""

    socket: socket.socket
    frames: list[bytes]
    next: int = 0

    def send(self) -> None:
        self.socket.sendall(self.frames[self.next])
        self.next = (self.next + 1) % len(self.frames)


def load(bootstrap_servers: str, frames: list[list[bytes]], seconds: float) -> float:
    """Returns the answers per second."""
    host, _, port = bootstrap_servers.rpartition(":")
    members = {}
    poll = select.epoll()
    for of_member in frames:
        one = socket.create_connection((host, int(port)))
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        members[one.fileno()] = Member(one, of_member)
        poll.register(one.fileno(), select.EPOLLIN)
    began = time.perf_counter()
    for member in members.values():
        member.send()
    answered = 0
    while time.perf_counter() - began < seconds:
        for number, _ in poll.poll(1.0):
            member = members[number]
            data = member.socket.recv(RECEIVE_BYTES)
            assert len(data) == 4 + int.from_bytes(data[:4], "big"), data
            answered += 1
            member.send()
    rate = answered / (time.perf_counter() - began)
    poll.close()
    for member in members.values():
        member.socket.close()
    return rate


def ours(stack: ExitStack) -> str:
    program = [sys.executable, "-m", "groupledger.jobs.cli.main", "coordinator", *SOCKETS]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    assert process.stderr is not None
    return process.stderr.readline().split("=")[1].split()[0]


def brokers(stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    broker = stack.enter_context(LocalBroker(Path(folder)))
    connection = Connection(broker.bootstrap_servers)
    topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=MEMBERS, replication_factor=1)
    connection.call(CreateTopicsRequest(version=7, topics=[topic], timeout_ms=30_000))
    retried(connection, FindCoordinatorRequest(version=3, key=GROUP, key_type=0))
    connection.close()
    time.sleep(5)  # it loads the partitions of its offsets topic
    return broker.bootstrap_servers


@click.command()
@click.option("--seconds", default=10.0, show_default=True)
def main(seconds: float) -> None:
    for name, start in (("the coordinator on a socket", ours), ("a 4.2 broker", brokers)):
        with ExitStack() as stack:
            bootstrap_servers = start(stack)
            rate = load(bootstrap_servers, joined(bootstrap_servers), seconds)
        click.echo(f"{name}: {rate:,.0f} requests/s, {MEMBERS} members")


if __name__ == "__main__":
    main()

"""Sends requests that no client at hand can send to a broker, byte by byte.

Share and streams groups have no Python client, and no client of today sends an explicit retention (OffsetCommit 2) or
a member whose subscription is broken. Only what history.py needs is here: primitive types, one blocking connection,
and the requests. Field order: Kafka's `clients/src/main/resources/common/message/*Request.json`, 4.2.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

TIMEOUT_SECONDS = 60
CLIENT_ID = "raw"

OFFSET_COMMIT = 8
FIND_COORDINATOR = 10
JOIN_GROUP = 11
LEAVE_GROUP = 13
SYNC_GROUP = 14
SHARE_GROUP_HEARTBEAT = 76
STREAMS_GROUP_HEARTBEAT = 88

# 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR: the offsets topic is being made.
COORDINATOR_NOT_READY = (14, 15, 16)
ATTEMPTS_MAX = 600
ATTEMPT_SECONDS = 0.1
AFTER_THROTTLE = slice(4, 6)

NO_TAGS = b"\x00"
ABSENT = b"\xff"  # a nullable struct that is null


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def string(text: str | None) -> bytes:
    return int16(-1) if text is None else int16(len(text.encode())) + text.encode()


def data(content: bytes) -> bytes:
    return int32(len(content)) + content


def array(items: Iterable[bytes]) -> bytes:
    items = list(items)
    return int32(len(items)) + b"".join(items)


def unsigned_varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def compact_string(text: str | None) -> bytes:
    return b"\x00" if text is None else unsigned_varint(len(text.encode()) + 1) + text.encode()


def compact_array(items: Iterable[bytes] | None) -> bytes:
    if items is None:
        return b"\x00"
    items = list(items)
    return unsigned_varint(len(items) + 1) + b"".join(items)


class BrokerError(Exception):
    """The broker answered with an error code."""


class Connection:
    """One blocking connection; a context manager."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._replies.close()
        self._socket.close()

    def call(
        self, api_key: int, api_version: int, body: bytes, *, flexible: bool = False, error_at: slice = AFTER_THROTTLE
    ) -> Reply:
        """Returns the reply's body after its error code; asks again while the coordinator is not ready.

        `flexible` is about the header only: the caller encodes the body to fit.
        """
        header = int16(api_key) + int16(api_version) + int32(0) + string(CLIENT_ID)
        message = data(header + (NO_TAGS if flexible else b"") + body)
        for _ in range(ATTEMPTS_MAX):
            self._socket.sendall(message)
            reply = self._replies.read(int.from_bytes(self._replies.read(4), "big"))[5 if flexible else 4 :]
            (code,) = struct.unpack(">h", reply[error_at])
            if code == 0:
                return Reply(reply[error_at.stop :])
            if code not in COORDINATOR_NOT_READY:
                break
            time.sleep(ATTEMPT_SECONDS)
        raise BrokerError(f"API {api_key}: error code {code} in {reply!r}")

    def await_coordinator(self) -> None:
        """FindCoordinator 1, which also makes the broker create `__consumer_offsets`."""
        self.call(FIND_COORDINATOR, 1, string("any group") + b"\x00")

    def commit_with_retention(
        self, group: str, topic: str, partition: int, offset: int, *, metadata: str | None, retention_ms: int
    ) -> None:
        """OffsetCommit 2, one of those with a retention (2 to 4), from outside of any generation."""
        entry = int32(partition) + int64(offset) + string(metadata)
        topics = array([string(topic) + array([entry])])
        body = string(group) + int32(-1) + string("") + int64(retention_ms) + topics
        self.call(OFFSET_COMMIT, 2, body, error_at=slice(-2, None))

    def join_and_lead(
        self, group: str, *, protocol_type: str, protocol: str, metadata: bytes, assignment: bytes
    ) -> str:
        """JoinGroup 2 and SyncGroup 1 as the only member, with bytes that nobody checks; returns the member id."""
        protocols = array([string(protocol) + data(metadata)])
        join = string(group) + int32(30_000) + int32(30_000) + string("") + string(protocol_type) + protocols
        reply = self.call(JOIN_GROUP, 2, join)
        generation, _, _, member_id = reply.int32(), reply.string(), reply.string(), reply.string()
        assignments = array([string(member_id) + data(assignment)])
        self.call(SYNC_GROUP, 1, string(group) + int32(generation) + string(member_id) + assignments)
        return member_id

    def leave(self, group: str, member_id: str) -> None:
        self.call(LEAVE_GROUP, 1, string(group) + string(member_id))

    def share_heartbeat(self, group: str, member_id: str, epoch: int, topics: list[str] | None = None) -> int:
        """ShareGroupHeartbeat 1; epoch 0 joins and -1 leaves. Returns the member's epoch."""
        names = None if topics is None else map(compact_string, topics)
        body = compact_string(group) + compact_string(member_id) + int32(epoch)
        body += compact_string("rack-1" if topics else None) + compact_array(names) + NO_TAGS
        return self.call(SHARE_GROUP_HEARTBEAT, 1, body, flexible=True).member_epoch()

    def streams_heartbeat(
        self, group: str, member_id: str, epoch: int, *, topology: bytes | None = None, tasks: bytes | None = None
    ) -> int:
        """StreamsGroupHeartbeat 0; a join brings the topology, later beats bring the tasks owned (None: as before)."""
        joining = topology is not None
        no_tasks = compact_array(None if tasks is None and not joining else [])
        body = compact_string(group) + compact_string(member_id) + int32(epoch) + int32(0)
        body += compact_string(None) + compact_string("rack-1" if joining else None) + int32(10_000 if joining else -1)
        body += ABSENT if topology is None else topology
        body += (tasks or no_tasks) + no_tasks + no_tasks
        body += compact_string(f"process-of-{member_id}" if joining else None)
        if joining:
            body += b"\x01" + compact_string("host-1") + struct.pack(">H", 65_535) + NO_TAGS
            body += compact_array([compact_string("zone") + compact_string("a") + NO_TAGS])
        else:
            body += ABSENT + compact_array(None)
        body += compact_array(None) + compact_array(None) + b"\x00" + NO_TAGS
        return self.call(STREAMS_GROUP_HEARTBEAT, 0, body, flexible=True).member_epoch()


class Reply:
    """What follows the error code in a reply, read from front to back."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def string(self) -> str:
        return self._take(int.from_bytes(self._take(2), "big")).decode()

    def member_epoch(self) -> int:
        """Returns the epoch in a heartbeat's reply, after an empty message and a member id of less than 127 bytes."""
        _message, size_plus_one = self._take(2)
        self._take(size_plus_one - 1)
        return self.int32()

    def _take(self, size: int) -> bytes:
        head, self._body = self._body[:size], self._body[size:]
        return head

"""Sends two requests that no client of today sends: a commit in the name of a member from another address of this
machine, and a commit with a short retention of its own."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from kafka.protocol.consumer.group import OffsetCommitRequest

from lab.kafka.connection import Connection

if TYPE_CHECKING:
    from lab.diagnosis.group import Group

OTHER_ADDRESS = "127.0.0.2"
COMMIT_VERSION = 7
RETENTION_VERSION = 2  # the first of three with a retention


class FromElsewhere(Connection):
    """A connection from another address of this machine, which the broker takes for the client's host."""

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=60, source_address=(OTHER_ADDRESS, 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        self._answers = self._socket.makefile("rb")
        self._sent = self._answer = None


def commit_as(group: Group, member_id: str, generation: int, offset: int) -> int:
    """Commits an offset of partition 0 in a member's name from another address, and returns the error code of the
    answer."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    place = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_leader_epoch=-1)
    connection = FromElsewhere(group.stage.servers)
    request = OffsetCommitRequest(
        version=COMMIT_VERSION,
        group_id=group.id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=None,
        topics=[topic(name=group.topic, partitions=[place])],
    )
    connection.send(request, group.client_id("1"))
    answer = connection.receive()
    connection.close()
    code: int = answer.topics[0].partitions[0].error_code
    return code


def commit_to_expire(group: Group, partition: int, offset: int, retention_ms: int) -> None:
    """Commits an offset that expires after `retention_ms`, for a group without members."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    place = topic.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    connection = Connection(group.stage.servers)
    request = OffsetCommitRequest(
        version=RETENTION_VERSION,
        group_id=group.id,
        generation_id_or_member_epoch=-1,
        member_id="",
        retention_time_ms=retention_ms,
        topics=[topic(name=group.topic, partitions=[place])],
    )
    answer = connection.call(request)
    connection.close()
    assert answer.topics[0].partitions[0].error_code == 0, answer

"""Sends requests unchanged over blocking connections, awaits their answers, and reads `__consumer_offsets`.

A broker answers the requests of one connection in turn, so a parked JoinGroup (one that is answered later) blocks its
connection: a client with many members needs a connection for each parked request. kafka-python's own client repeats,
corrects and extends requests. This module sends them as they are.
"""

from __future__ import annotations

import select
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata.api_versions import ApiVersionsRequest
from kafka.record import MemoryRecords

from groupledger.coordinator.model.config import KAFKA_4_2, KAFKA_4_4
from groupledger.schemas.codec.records import Record, decode_record
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT_ID = "client"
ANSWER_SECONDS_MAX = 60.0
FETCH_VERSION = 11  # the last with topic names that kafka-python and the broker share, and no session
LIST_OFFSETS_VERSION = 5
FETCH_BYTES = 8 << 20
LATEST = -1


class NoAnswerError(Exception):
    """Raised if the broker did not answer in time, or closed the connection."""


class Connection:
    """One blocking connection, which has at most one request without an answer."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, port = bootstrap_servers.rsplit(":", 1)
        self._address = host, int(port)
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._sent: Any = None
        self._answer: Any = None

    def reconnect(self) -> None:
        """Connects again, after the broker was restarted."""
        self.close()
        self._connect()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def send(self, request: Any, client_id: str = CLIENT_ID) -> None:
        request.with_header(0, client_id)
        self._sent = request
        self._socket.sendall(request.encode(header=True, framed=True))

    def is_answered(self) -> bool:
        return self._answer is not None or bool(select.select([self._socket], [], [], 0)[0])

    def receive(self) -> Any:
        answer, self._answer = self.peek(), None
        return answer

    def peek(self) -> Any:
        """Waits for the response and returns it. `receive` can still return it, too."""
        if self._answer is None:
            self._answer = self._read()
        return self._answer

    def _read(self) -> Any:
        try:
            size = int.from_bytes(self._answers.read(4), "big")
            answer = self._answers.read(size)
        except TimeoutError as error:
            raise NoAnswerError(f"no answer to {self._sent}") from error
        if not answer:
            raise NoAnswerError(f"connection closed instead of an answer to {self._sent}")
        return self._sent.header.get_response_class().decode(answer, header=True)

    def call(self, request: Any) -> Any:
        self.send(request)
        return self.receive()


def release_of(connection: Connection) -> str:
    """Returns the release that the reference coordinator has to follow to equal a broker, judging by the APIs that the
    broker offers."""
    answer = connection.call(ApiVersionsRequest(version=0))
    of_4_4 = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
    return KAFKA_4_4 if any(each.api_key == of_4_4 for each in answer.api_keys) else KAFKA_4_2


@dataclass(frozen=True, slots=True)
class Appended:
    """A data record of `__consumer_offsets`, with its time and the producer id of its batch."""

    timestamp_ms: int
    producer_id: int
    record: Record


def end_offset(connection: Connection, partition: int) -> int:
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = topic.ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    answer = connection.call(
        ListOffsetsRequest(version=LIST_OFFSETS_VERSION, topics=[topic(name=OFFSETS_TOPIC, partitions=[asked])])
    )
    offset: int = answer.topics[0].partitions[0].offset
    return offset


def read_offsets_topic(connection: Connection, partition: int, offset: int) -> Iterator[tuple[int, Appended]]:
    """Yields the data records of a partition of `__consumer_offsets` from `offset` to the high watermark, each with its
    offset."""
    topic = FetchRequest.FetchTopic
    high_watermark = offset + 1
    while offset < high_watermark:
        asked = topic.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        answer = connection.call(
            FetchRequest(version=FETCH_VERSION, topics=[topic(topic=OFFSETS_TOPIC, partitions=[asked])])
        )
        (found,) = answer.responses[0].partitions
        high_watermark = found.high_watermark
        batches = MemoryRecords(bytes(found.records or b""))
        before = offset
        while batch := batches.next_batch():
            for record in batch:
                # A batch is fetched whole, whichever of its records was asked for.
                if record.offset >= offset and not batch.is_control_batch:
                    decoded = decode_record(record.key, record.value)
                    yield record.offset, Appended(record.timestamp, batch.producer_id, decoded)
                offset = max(offset, record.offset + 1)
        if offset == before:
            return

"""Stores the log of a partition that producers write to: the batches as they were sent, with the offsets that they get
here.

A batch is checked before it is appended: its checksum, its format, and that it is neither a marker nor transactional. A
batch that a producer sends again, because it lost the response, is not appended twice. No batch is removed before the
coordinator ends, so the size of all logs together is limited.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import KafkaError
from kafka.record import MemoryRecords

from groupledger.jobs.coordinator.logs import LOOK_AGAIN_MS, Aborted, OffsetForTime, at_base_offset
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

BYTES_MAX = 512 << 20  # of all logs of a coordinator
_MAGIC = 2
_BATCHES_REMEMBERED = 5  # of a producer, as Kafka does: so many requests may be on their way
# Errors of kafka-python for bytes that are not batches.
_NO_BATCHES = (KafkaError, struct.error, IndexError, ValueError, AssertionError)


class Room:
    """The number of bytes, `left`, that all logs of a coordinator together may still take."""

    def __init__(self, size: int = BYTES_MAX) -> None:
        self.left = size


class StoredBatch(NamedTuple):
    base_offset: int
    end_offset: int
    max_timestamp_ms: int
    data: bytes


@dataclass(slots=True)
class StoredLog:
    """The log of one partition. `append` returns the offset of the first appended record, or the error that Kafka
    returns."""

    room: Room
    batches: list[StoredBatch] = field(default_factory=list)
    _recent: dict[int, deque[tuple[int, int, int]]] = field(
        default_factory=dict
    )  # (epoch, sequence, offset) by producer

    def append(self, records: bytes) -> int | Error:
        try:
            batches = list(_batches(records))
        except _NO_BATCHES:
            return Error.CORRUPT_MESSAGE
        for error in map(_refusal, batches):
            if error:
                return error
        if not batches:
            return Error.INVALID_RECORD
        if len(records) > self.room.left:
            return Error.KAFKA_STORAGE_ERROR
        offsets = [self._append(batch) for batch in batches]
        return offsets[0]

    def _append(self, batch: Any) -> int:
        recent = self._recent.setdefault(batch.producer_id, deque(maxlen=_BATCHES_REMEMBERED))
        for epoch, sequence, offset in recent if batch.has_producer_id() else ():
            if (epoch, sequence) == (batch.producer_epoch, batch.base_sequence):
                return offset
        base_offset = self.end_offset(0)
        data = at_base_offset(bytes(batch._buffer), base_offset)  # noqa: SLF001  # nothing public has the bytes
        end_offset = base_offset + batch.last_offset_delta + 1
        self.batches.append(StoredBatch(base_offset, end_offset, batch.max_timestamp, data))
        self.room.left -= len(data)
        recent.append((batch.producer_epoch, batch.base_sequence, base_offset))
        return base_offset

    # As `logs.Log`

    def start_offset(self, now_ms: int) -> int:
        del now_ms
        return 0

    def end_offset(self, now_ms: int) -> int:
        del now_ms
        return self.batches[-1].end_offset if self.batches else 0

    def last_stable_offset(self, now_ms: int) -> int:
        return self.end_offset(now_ms)

    def at_time(self, timestamp_ms: int, now_ms: int) -> OffsetForTime:
        del now_ms
        for batch in self.batches:
            if batch.max_timestamp_ms >= timestamp_ms:
                return OffsetForTime(batch.base_offset, batch.max_timestamp_ms)
        return OffsetForTime()

    def newest(self, now_ms: int) -> OffsetForTime:
        del now_ms
        newest = max(self.batches, key=lambda batch: batch.max_timestamp_ms, default=None)
        return OffsetForTime() if newest is None else OffsetForTime(newest.end_offset - 1, newest.max_timestamp_ms)

    def read(self, offset: int, to_offset: int, room: int) -> bytes:
        found = b""
        for batch in self._between(offset, to_offset):
            if found and len(found) + len(batch.data) > room:
                break
            found += batch.data
        return found

    def _between(self, offset: int, to_offset: int) -> Sequence[StoredBatch]:
        first = bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)
        last = bisect_right(self.batches, to_offset - 1, key=lambda batch: batch.base_offset)
        return self.batches[first:last]

    def aborted(self, offset: int, to_offset: int) -> list[Aborted]:
        del offset, to_offset
        return []

    def next_record_ms(self, now_ms: int) -> int | None:
        return now_ms + LOOK_AGAIN_MS


def _batches(records: bytes) -> Any:
    """Yields the batches in some bytes. Raises one of `_NO_BATCHES` for bytes that are left over."""
    found = MemoryRecords(records)
    size = 0
    while (batch := found.next_batch()) is not None:
        size += batch.size_in_bytes
        yield batch
    if size != len(records):
        raise ValueError("bytes after the last batch")


def _refusal(batch: Any) -> Error:
    if getattr(batch, "magic", 0) != _MAGIC:
        return Error.UNSUPPORTED_FOR_MESSAGE_FORMAT
    if not batch.validate_crc():
        return Error.CORRUPT_MESSAGE
    if batch.is_control_batch or batch.last_offset_delta != batch.records_count - 1 or batch.records_count < 1:
        return Error.INVALID_RECORD
    # A transaction that writes records is not coordinated here, only its offsets.
    return Error.INVALID_TXN_STATE if batch.is_transactional else Error.NONE

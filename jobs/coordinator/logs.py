"""Makes the records of partitions that clients fetch. For topics with a rate it computes the records on demand; for
`__consumer_offsets` it takes them from the coordinators. `stored_log` has the records that producers write.

A computed record has no key; its value is JSON with topic, partition and offset, and its timestamp is when the
partition's end reached its offset, so that a record is the same each time it is fetched. kafka-python's builder makes
the batches. It is a producer's builder, so base offsets and transaction markers, which a broker writes, are added here.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka.record.default_records import DefaultRecordBatchBuilder

from groupledger.coordinator.model.messages import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from groupledger.coordinator.simulator.partition_log import end_offset
from groupledger.schemas.codec.control_record import EndTransaction, encode_end_transaction
from groupledger.schemas.codec.records import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.coordinator.model.operation import Batch
    from groupledger.coordinator.simulator.partition_log import PartitionLog
    from groupledger.coordinator.simulator.topics import PartitionOfTopic, Topic

NOTHING = -1
_RECORDS_MAX = 500
_RECORD_BYTES = 160  # the size of a computed record at most, of the bytes that a client allows
_MAGIC = 2
_CONTROL_BIT = 0x20
_BASE_OFFSET_BYTES = 8
_COORDINATOR_EPOCH = 0
LOOK_AGAIN_MS = 50


class OffsetForTime(NamedTuple):
    """The offset that ListOffsets finds for a time, and the timestamp of its record. Both are NOTHING if there is no
    such record."""

    offset: int = NOTHING
    timestamp_ms: int = NOTHING


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int


class ServedLog(Protocol):
    """The log of one partition. Its methods answer for the time `now_ms`, in milliseconds since the epoch."""

    def start_offset(self, now_ms: int) -> int: ...

    def end_offset(self, now_ms: int) -> int: ...

    def last_stable_offset(self, now_ms: int) -> int: ...

    def at_time(self, timestamp_ms: int, now_ms: int) -> OffsetForTime:
        """Returns offset and timestamp of the first record at or after `timestamp_ms`."""
        ...

    def newest(self, now_ms: int) -> OffsetForTime: ...

    def read(self, offset: int, to_offset: int, room: int) -> bytes:
        """Returns whole batches with offsets below `to_offset`, beginning with the one that holds `offset`, in `room`
        bytes. The first batch is returned even if it is larger."""
        ...

    def aborted(self, offset: int, to_offset: int) -> list[Aborted]:
        """Returns the aborted transactions with records from `offset` up to `to_offset`."""
        ...

    def next_record_ms(self, now_ms: int) -> int | None:
        """Returns when the log should be looked at for the next record; None if no record is to come."""
        ...


@dataclass(frozen=True, slots=True)
class MadeLog:
    """The log of a partition whose records are computed on demand."""

    topic: Topic
    partition: int

    @property
    def _log(self) -> PartitionOfTopic:
        return self.topic.partitions[self.partition]

    def start_offset(self, now_ms: int) -> int:
        return self.topic.start_offset(self.partition, now_ms)

    def end_offset(self, now_ms: int) -> int:
        return self._log.end_offset(now_ms)

    def last_stable_offset(self, now_ms: int) -> int:
        return self._log.end_offset(now_ms)

    def at_time(self, timestamp_ms: int, now_ms: int) -> OffsetForTime:
        offset = max(self._log.end_offset(timestamp_ms - 1), self.start_offset(now_ms))
        return (
            OffsetForTime(offset, self.written_at_ms(offset)) if offset < self.end_offset(now_ms) else OffsetForTime()
        )

    def newest(self, now_ms: int) -> OffsetForTime:
        last = self.end_offset(now_ms) - 1
        return OffsetForTime(last, self.written_at_ms(last)) if last >= self.start_offset(now_ms) else OffsetForTime()

    def written_at_ms(self, offset: int) -> int:
        """Returns when the end of the log passed `offset`, which is the timestamp of the record there."""
        log = self._log
        for since_ms, first, rate in zip(
            reversed(log.since_ms), reversed(log.offsets), reversed(log.records_per_minute), strict=True
        ):
            if offset >= first and rate:
                return since_ms - (-(offset + 1 - first) * 60_000 // rate)
        return log.since_ms[0]

    def read(self, offset: int, to_offset: int, room: int) -> bytes:
        count = min(to_offset - offset, max(room // _RECORD_BYTES, 1), _RECORDS_MAX)
        builder = _BatchOfBroker(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, is_control=False)
        for each in range(offset, offset + count):
            value = {"topic": self.topic.name, "partition": self.partition, "offset": each}
            builder.append(each - offset, self.written_at_ms(each), None, json.dumps(value).encode(), [])
        return builder.at_offset(offset)

    def aborted(self, offset: int, to_offset: int) -> list[Aborted]:
        del offset, to_offset
        return []

    def next_record_ms(self, now_ms: int) -> int | None:
        return self._log.next_record_ms(now_ms)


@dataclass(frozen=True, slots=True)
class OffsetsLog:
    """The log of a partition of `__consumer_offsets`, as its coordinator has written it."""

    log: PartitionLog

    def start_offset(self, now_ms: int) -> int:
        del now_ms
        return 0

    def end_offset(self, now_ms: int) -> int:
        del now_ms
        return self.log.end_offset

    def last_stable_offset(self, now_ms: int) -> int:
        del now_ms
        return self.log.last_stable_offset

    def at_time(self, timestamp_ms: int, now_ms: int) -> OffsetForTime:
        del now_ms
        for batch in self.log.batches:
            if batch.timestamp_ms >= timestamp_ms:
                return OffsetForTime(batch.base_offset, batch.timestamp_ms)
        return OffsetForTime()

    def newest(self, now_ms: int) -> OffsetForTime:
        del now_ms
        last = max(self.log.batches, key=lambda batch: batch.timestamp_ms, default=None)
        return OffsetForTime() if last is None else OffsetForTime(last.base_offset, last.timestamp_ms)

    def read(self, offset: int, to_offset: int, room: int) -> bytes:
        found = b""
        for batch in self._between(offset, to_offset):
            encoded = encode_batch(batch)
            if found and len(found) + len(encoded) > room:
                break
            found += encoded
        return found

    def _between(self, offset: int, to_offset: int) -> Sequence[Batch]:
        """Returns the batches with offsets of a range. The log cleaner may have taken the one with the first."""
        batches = self.log.batches
        first = bisect_right(batches, offset, key=end_offset)
        last = bisect_right(batches, to_offset - 1, key=lambda batch: batch.base_offset)
        return batches[first:last]

    def aborted(self, offset: int, to_offset: int) -> list[Aborted]:
        found, open_since = [], dict[int, int]()
        for batch in self.log.batches:
            if batch.producer_id == NO_PRODUCER_ID:
                continue
            if batch.committed is None:
                open_since.setdefault(batch.producer_id, batch.base_offset)
                continue
            first_offset = open_since.pop(batch.producer_id, None)
            is_here = first_offset is not None and first_offset < to_offset and batch.base_offset >= offset
            if is_here and not batch.committed:
                found.append(Aborted(batch.producer_id, first_offset or 0))
        return found

    def next_record_ms(self, now_ms: int) -> int | None:
        """Returns a time soon after now: a client that waits for the coordinator's next record is answered then."""
        return now_ms + LOOK_AGAIN_MS


def encode_batch(batch: Batch) -> bytes:
    """Returns the bytes of a coordinator's batch, or of a marker, as in a broker's log."""
    builder = _BatchOfBroker(batch.producer_id, batch.producer_epoch, is_control=batch.committed is not None)
    for index, (key, value) in enumerate(_records(batch)):
        builder.append(index, batch.timestamp_ms, key, value, [])
    return builder.at_offset(batch.base_offset)


def _records(batch: Batch) -> Iterable[tuple[bytes, bytes | None]]:
    if batch.committed is not None:
        return [encode_end_transaction(EndTransaction(batch.committed, _COORDINATOR_EPOCH))]
    return map(encode_record, batch.records)


def at_base_offset(batch: bytes, base_offset: int) -> bytes:
    """Returns a batch with another base offset, which its checksum does not cover."""
    return base_offset.to_bytes(_BASE_OFFSET_BYTES, "big") + batch[_BASE_OFFSET_BYTES:]


class _BatchOfBroker(DefaultRecordBatchBuilder):  # type: ignore[misc]  # no types are published
    def __init__(self, producer_id: int, producer_epoch: int, *, is_control: bool) -> None:
        super().__init__(_MAGIC, 0, producer_id != NO_PRODUCER_ID, producer_id, producer_epoch, NOTHING, 1 << 30)
        self._control_bit = _CONTROL_BIT if is_control else 0

    def _get_attributes(self, include_compression_type: bool = True) -> int:  # kafka-python's
        attributes: int = super()._get_attributes(include_compression_type)
        return attributes | self._control_bit

    def at_offset(self, base_offset: int) -> bytes:
        """Returns the bytes of the batch with its base offset in the log."""
        return at_base_offset(bytes(self.build()), base_offset)

"""Simulates the log of one `__consumer_offsets` partition: the batches that a new leader loads, and those that a
read_committed reader gets.

The log cleaner keeps the log short, as it does in Kafka. Below the last stable offset it retains the last record of
each key, nothing of an aborted transaction, and tombstones until `delete.retention.ms` has passed. A loading broker
finds the cleaned log. The reader (`take_committed`) gets the cleaned log only if `is_compacted_first`; otherwise it
reads every batch before the cleaner does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.messages import NO_PRODUCER_ID
from groupledger.coordinator.model.operation import Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.schemas.codec.records import Record

DELETE_RETENTION_MS = 86_400_000
_CLEAN_FROM_BATCHES = 2_000  # a shorter log is not cleaned


def end_offset(batch: Batch) -> int:
    """Returns the offset after a batch. A transaction marker has no records and takes one offset."""
    return batch.base_offset + max(len(batch.records), 1)


class PartitionLog:
    __slots__ = ("_clean_at", "_is_compacted_first", "_unread", "batches", "end_offset", "open_transactions")

    def __init__(self, *, is_compacted_first: bool = False) -> None:
        self.batches: list[Batch] = []
        self.end_offset = 0
        self.open_transactions: dict[int, int] = {}  # first offset, by producer id
        self._unread: list[Batch] = []
        self._is_compacted_first = is_compacted_first
        self._clean_at = _CLEAN_FROM_BATCHES

    @property
    def last_stable_offset(self) -> int:
        return min(self.open_transactions.values(), default=self.end_offset)

    def append(self, batch: Batch) -> None:
        self.batches.append(batch)
        if not self._is_compacted_first:
            self._unread.append(batch)
        self.end_offset = end_offset(batch)
        if batch.committed is not None:
            self.open_transactions.pop(batch.producer_id, None)
        elif batch.producer_id != NO_PRODUCER_ID:
            self.open_transactions.setdefault(batch.producer_id, batch.base_offset)
        if len(self.batches) >= self._clean_at:
            self.clean(batch.timestamp_ms)

    def clean(self, now_ms: int) -> None:
        """Runs the cleaner over the log below the last stable offset."""
        self.batches = cleaned(self.batches, self.last_stable_offset, now_ms)
        self._clean_at = max(2 * len(self.batches), _CLEAN_FROM_BATCHES)

    def take_committed(self) -> list[Batch]:
        """Returns the batches that a read_committed reader gets next, without markers and without batches of aborted
        transactions."""
        end = self.last_stable_offset
        source = self.batches if self._is_compacted_first else self._unread
        # A marker beyond the end may be about batches below it.
        committed = [batch for batch in without_aborted(source) if batch.base_offset < end]
        self._unread = [batch for batch in self._unread if batch.base_offset >= end]
        return [batch for batch in committed if batch.committed is None]


def without_aborted(batches: Sequence[Batch]) -> list[Batch]:
    """Returns the batches except those of aborted transactions. The other batches and the markers of commits stay."""
    verdicts: dict[int, bool] = {}  # of the next marker, by producer id
    kept = []
    for batch in reversed(batches):
        if batch.committed is not None:
            verdicts[batch.producer_id] = batch.committed
        if batch.producer_id == NO_PRODUCER_ID or verdicts.get(batch.producer_id, True):
            kept.append(batch)
    return kept[::-1]


def cleaned(batches: Sequence[Batch], to_offset: int, now_ms: int) -> list[Batch]:
    """Returns the batches that the log cleaner leaves. Below `to_offset` each record that it keeps becomes a batch of
    its own, and the marker of a transaction stays if one of its records does. It drops tombstones that are too old at
    `now_ms`. The batches from `to_offset` on stay as they are."""
    dirty = [batch for batch in without_aborted(batches) if batch.base_offset < to_offset]
    last = {_key(record): offset for batch in dirty for offset, record in _records(batch)}
    kept: list[Batch] = []
    producers = set()
    for batch in dirty:
        is_old = now_ms - batch.timestamp_ms > DELETE_RETENTION_MS
        records = [
            Batch(
                partition=batch.partition,
                base_offset=offset,
                timestamp_ms=batch.timestamp_ms,
                records=(record,),
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
            )
            for offset, record in _records(batch)
            if last[_key(record)] == offset and not (record.value is None and is_old)
        ]
        kept += records
        if batch.committed is None and records:
            producers.add(batch.producer_id)
        elif batch.committed is not None and batch.producer_id in producers:
            producers.discard(batch.producer_id)
            kept.append(batch)  # without its marker, the rest of a transaction would seem open
    return kept + [batch for batch in batches if batch.base_offset >= to_offset]


def _records(batch: Batch) -> Iterable[tuple[int, Record]]:
    return enumerate(batch.records, batch.base_offset)


def _key(record: Record) -> tuple[Any, ...]:
    return record.record_type, *record.key.values()

"""Fetches the headers of the batches around some offsets of `__consumer_offsets` from the leader's log.

A consumer sees records only. Only the batches show which offsets are markers, belong to aborted transactions, or were
removed. So the batches are fetched without a consumer, by requests over the connections of `brokers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords

from groupledger.jobs.kafka.brokers import attempts
from groupledger.jobs.kafka.fetch import fetch_of, of_partitions
from groupledger.jobs.kafka.sampling import describe_topics
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.coverage.rules.evidence import BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.process.settings import SamplingSettings

FETCH_BYTES = 4 << 20
WAIT_MS_MAX = 500
MAGIC_WITH_COUNT = 2


def read_batches(
    brokers: Brokers, settings: SamplingSettings, partition: int, begin: int, end: int
) -> list[BatchHeader]:
    """Returns the batches that hold any of the offsets [begin, end), in order, up to the first batch of an old format.
    Raises OutsideError if the leader does not answer."""
    error: KafkaError | None = None
    for _ in attempts(settings):
        leaders, _, _ = describe_topics(brokers, settings, {OFFSETS_TOPIC})
        node = next(
            (node for node, places in leaders.items() if any(each.partition == partition for each in places)), None
        )
        try:
            return list(_batches(brokers, node, partition, begin, end))
        except KafkaError as found:
            error = found
    raise OutsideError(
        f"The leader of partition {partition} of {OFFSETS_TOPIC} does not show its log ({error}): run the command"
        " again."
    )


def _batches(brokers: Brokers, node: int | None, partition: int, begin: int, end: int) -> Iterator[BatchHeader]:
    offset = begin
    while offset < end:
        found = _fetch(brokers, node, partition, offset)
        aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        before, producers = offset, set[int]()
        records = MemoryRecords(bytes(found.records or b""))
        while (batch := records.next_batch()) is not None and batch.base_offset < end:
            if batch.magic < MAGIC_WITH_COUNT:
                return  # a batch that old does not show whether it was compacted
            last_offset = batch.base_offset + batch.last_offset_delta
            while aborted and aborted[0][0] <= last_offset:
                producers.add(aborted.pop(0)[1])
            is_control = batch.is_control_batch
            is_aborted = batch.is_transactional and batch.producer_id in producers
            offset = max(offset, last_offset + 1)
            if last_offset >= begin:
                yield BatchHeader(batch.base_offset, last_offset, batch.records_count, is_control or is_aborted)
            if is_control and is_aborted and any(record.abort for record in batch):
                producers.discard(batch.producer_id)
        if offset == before:
            return


def _fetch(brokers: Brokers, node: int | None, partition: int, offset: int) -> Any:
    request = fetch_of(
        {partition: offset},
        partition_bytes=FETCH_BYTES,
        isolation_level=IsolationLevel.READ_COMMITTED,
        wait_ms=WAIT_MS_MAX,
        min_bytes=1,
    )
    (found,) = of_partitions(brokers.send(request, node).responses)
    return found

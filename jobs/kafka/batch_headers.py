"""Reads the headers of the batches around some offsets of `__consumer_offsets`, as they lie in the leader's log.

A consumer sees records only. Which offsets are markers, which belong to aborted transactions and which were removed is
told by the batches alone, so they are fetched below the consumer, over the connections of `brokers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import FetchRequest, IsolationLevel
from kafka.record import MemoryRecords

from groupledger.jobs.kafka.brokers import attempts
from groupledger.jobs.kafka.sampling import describe_topics
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.coverage.rules.evidence import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.process.settings import SamplingSettings

# The last version that names its topic; later ones need the topic's id.
FETCH_VERSION_MAX = 12
FETCH_BYTES = 4 << 20
WAIT_MS_MAX = 500
MAGIC_WITH_COUNT = 2


def read_batches(brokers: Brokers, settings: SamplingSettings, partition: int, begin: int, end: int) -> list[Batch]:
    """Returns the batches that hold any of the offsets [begin, end), in order. Raises OutsideError if the leader does
    not answer."""
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


def _batches(brokers: Brokers, node: int | None, partition: int, begin: int, end: int) -> Iterator[Batch]:
    offset = begin
    while offset < end:
        found = _fetch(brokers, node, partition, offset)
        aborted = sorted((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        before, producers = offset, set[int]()
        records = MemoryRecords(bytes(found.records or b""))
        while (batch := records.next_batch()) is not None and batch.base_offset < end:
            if batch.magic < MAGIC_WITH_COUNT:
                return  # as old as that, it can't tell whether it was thinned
            last_offset = batch.base_offset + batch.last_offset_delta
            while aborted and aborted[0][0] <= last_offset:
                producers.add(aborted.pop(0)[1])
            is_control = batch.is_control_batch
            is_aborted = batch.is_transactional and batch.producer_id in producers
            offset = max(offset, last_offset + 1)
            if last_offset >= begin:
                yield Batch(batch.base_offset, last_offset, batch.records_count, is_control or is_aborted)
            if is_control and is_aborted and any(record.abort for record in batch):
                producers.discard(batch.producer_id)
        if offset == before:
            return


def _fetch(brokers: Brokers, node: int | None, partition: int, offset: int) -> Any:
    topic = FetchRequest.FetchTopic
    asked = topic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=WAIT_MS_MAX,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=IsolationLevel.READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=OFFSETS_TOPIC, partitions=[asked])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=FETCH_VERSION_MAX,
    )
    ((found,),) = ([*each.partitions] for each in brokers.send(request, node).responses)
    if found.error_code:
        raise for_code(found.error_code)
    return found

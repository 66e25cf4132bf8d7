"""Asks the leaders of `__consumer_offsets` for leader epochs: the epoch in which a record was written, and where an
epoch ends.

Each leader of a partition has an epoch, and every batch has the epoch of the leader that wrote it. A leader that was
not in sync when it was elected has a shorter log than its predecessor, and new records take the offsets of the records
that it lacks. Only the epochs show that: the epoch of the last record that was read then ends below the position of the
read.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel
from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest

from groupledger.jobs.kafka.brokers import attempts
from groupledger.jobs.kafka.fetch import OF_CONSUMERS, fetch_of, of_partitions
from groupledger.jobs.kafka.sampling import describe_topics
from groupledger.jobs.process.chunks import chunks
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.process.settings import SamplingSettings

    Ask = Callable[[Any, int, Mapping[int, int]], dict[int, int]]

FETCH_BYTES = 16 << 10
# The head of a batch of any format: base offset, length, leader's epoch (a checksum before format 2), format.
HEAD = Struct(">qiib")
MAGIC_WITH_EPOCH = 2


def epochs_at(brokers: Brokers, settings: SamplingSettings, offsets: Mapping[int, int]) -> dict[int, int]:
    """Returns, by partition, the leader epoch of the record at the offset in `offsets`, or of the next record that
    still exists. Partitions without such a record, or with a batch too old to have an epoch, are left out. Raises
    OutsideError if a leader does not answer."""
    return _responses(brokers, settings, offsets, _epochs_at)


def ends_of_epochs(brokers: Brokers, settings: SamplingSettings, epochs: Mapping[int, int]) -> dict[int, int]:
    """Returns, by partition, the offset where the epoch in `epochs` ends in the present leader's log. Partitions whose
    leader does not know the epoch are left out. Raises OutsideError if a leader does not answer."""
    return _responses(brokers, settings, epochs, _ends_of_epochs)


def _responses(
    brokers: Brokers, settings: SamplingSettings, of_partition: Mapping[int, int], ask: Ask
) -> dict[int, int]:
    """Returns the responses of the leaders. A leader that has moved, or does not answer, is looked up and asked
    again."""
    error: KafkaError | None = None
    for _ in attempts(settings) if of_partition else ():
        leaders, _, _ = describe_topics(brokers, settings, {OFFSETS_TOPIC})
        led = {partition: node for node, places in leaders.items() for _, partition in places}
        found: dict[int, int] = {}
        try:
            for node in sorted({led.get(partition, -1) for partition in of_partition}):
                asked = [partition for partition in of_partition if led.get(partition, -1) == node]
                for some in chunks(asked, settings.partitions_per_request):
                    found |= ask(brokers, node, {partition: of_partition[partition] for partition in some})
        except KafkaError as refused:
            error = refused
            continue
        return found
    if error is None:
        return {}
    raise OutsideError(
        f"The leaders of {OFFSETS_TOPIC} do not report their epochs ({error}): run the command again."
    ) from error


def _epochs_at(brokers: Brokers, node: int, offsets: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    waiting = dict(offsets)
    while waiting:
        # A batch that is larger than asked for comes for the first partition of a request only.
        first = next(iter(waiting))
        request = fetch_of(waiting, partition_bytes=FETCH_BYTES, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        for partition in of_partitions(brokers.send(request, node).responses):
            head = bytes(partition.records or b"")[: HEAD.size]
            if len(head) == HEAD.size:
                _, _, epoch, magic = HEAD.unpack(head)
                if magic >= MAGIC_WITH_EPOCH and epoch >= 0:
                    found[partition.partition_index] = epoch
                waiting.pop(partition.partition_index, None)
        waiting.pop(first, None)
    return found


def _ends_of_epochs(brokers: Brokers, node: int, epochs: Mapping[int, int]) -> dict[int, int]:
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    asked = [
        topic.OffsetForLeaderPartition(partition=partition, current_leader_epoch=-1, leader_epoch=epoch)
        for partition, epoch in epochs.items()
    ]
    request = OffsetForLeaderEpochRequest(
        replica_id=OF_CONSUMERS, topics=[topic(topic=OFFSETS_TOPIC, partitions=asked)]
    )
    partitions = of_partitions(brokers.send(request, node).topics)
    return {each.partition: each.end_offset for each in partitions if each.end_offset >= 0}

"""Finds out whether the offsets right before the last stable offset of a partition hold only markers of transactions.

A marker takes an offset and is not a record. So a consumer that has read everything, and commits the offset after the
last record, has a committed offset before the end. No answer about offsets shows that. Only the batches do, which are
fetched without a consumer. If this user may not read the topic, its markers stay unknown.

A leader is asked only if the committed offset of a group is close before an end that has not moved since the previous
round (`resting_places`), and only once: the result holds until the end moves. A control batch takes less than a hundred
bytes, so a few kilobytes show all; a batch that does not fit holds records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import TopicAuthorizationFailedError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords

from groupledger.jobs.kafka.topic_fetches import ask_leaders_of, fetched, with_markers
from groupledger.jobs.process.chunks import chunks
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.sampling import SampledRound
    from groupledger.jobs.process.settings import SamplingSettings
    from groupledger.transforms.lag.rules.resting import Resting

FETCH_BYTES = 4 << 10
MAGIC_WITH_CONTROL = 2


class PartitionMarkers(NamedTuple):
    """The number of markers right before the last stable offset of a partition, `place` (with the committed offset of
    the resting group). `markers_at_end` is None if this user may not read the topic."""

    topic_id: str | None
    place: Resting
    markers_at_end: int | None


class Markers:
    """Remembers the markers at the end of each partition from round to round."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, PartitionMarkers] = {}

    def add_to(
        self,
        sampled: SampledRound,
        resting: Mapping[TopicPartition, Resting],
        brokers: Brokers,
        settings: SamplingSettings,
    ) -> SampledRound:
        """Returns the round with `markers_at_end` set for the partitions in `resting`, on which a group rested in the
        previous round, if their end has not moved. If a leader does not answer, the number stays unknown, and the
        leader is asked again in the next round."""
        if not resting:
            self._known = {}
            return sampled
        ids = {}
        for row in sampled.watermarks:
            at = resting.get(TopicPartition(row.topic, row.partition))
            if at is not None and row.last_stable_offset == at.last_stable_offset:
                ids[TopicPartition(row.topic, row.partition)] = row.topic_id
        self._known = {
            place: known
            for place, known in self._known.items()
            if place in ids and known.topic_id == ids[place] and _holds(known.place, resting[place])
        }
        asked = {place: resting[place] for place in ids if place not in self._known}
        counts = trailing_markers(brokers, settings, asked) if asked else {}
        self._known |= {place: PartitionMarkers(ids[place], resting[place], count) for place, count in counts.items()}
        return with_markers(sampled, {place: known.markers_at_end for place, known in self._known.items()})


def _holds(known: Resting, now: Resting) -> bool:
    return known.last_stable_offset == now.last_stable_offset and known.committed_offset <= now.committed_offset


def trailing_markers(
    brokers: Brokers, settings: SamplingSettings, asked: Mapping[TopicPartition, Resting]
) -> dict[TopicPartition, int | None]:
    """Returns, for each partition, how many offsets right before the last stable offset hold markers, counted back to
    the group's committed offset at most; None if this user may not read the topic. Partitions whose leader does not
    answer are left out."""

    def ask(node: int, places: list[TopicPartition]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for some in chunks(places, settings.partitions_per_request):
            found |= _ask_leader(brokers, node, {place: asked[place] for place in some})
        return found

    return ask_leaders_of(brokers, settings, asked, ask)


def _ask_leader(
    brokers: Brokers, node: int, asked: Mapping[TopicPartition, Resting]
) -> dict[TopicPartition, int | None]:
    """Raises KafkaError if the leader does not answer."""
    found: dict[TopicPartition, int | None] = {}
    again = {}
    for place, partition in _fetched(brokers, node, {place: at.committed_offset for place, at in asked.items()}):
        if partition.error_code == TopicAuthorizationFailedError.errno:
            found[place] = None
        elif not partition.error_code:
            count = markers_before(bytes(partition.records or b""), asked[place].last_stable_offset)
            if count is None:
                again[place] = asked[place].last_stable_offset - 1
            else:
                found[place] = count
    for place, partition in _fetched(brokers, node, again) if again else ():
        if not partition.error_code:
            found[place] = markers_before(bytes(partition.records or b""), asked[place].last_stable_offset) or 0
    return found


def markers_before(records: bytes, end: int) -> int | None:
    """Returns how many offsets right before `end` hold markers in these batches; None if the batches do not reach
    `end`."""
    batches = MemoryRecords(records)
    position, since = -1, end
    while (batch := batches.next_batch()) is not None and batch.base_offset < end:
        if batch.magic < MAGIC_WITH_CONTROL:
            return 0
        is_next = batch.base_offset == position and since < end
        position = batch.base_offset + batch.last_offset_delta + 1
        if not batch.is_control_batch:
            since = end
        elif not is_next:
            since = batch.base_offset
    return end - since if position == end else None


def _fetched(
    brokers: Brokers, node: int, offsets: Mapping[TopicPartition, int]
) -> Iterator[tuple[TopicPartition, Any]]:
    return fetched(brokers, node, offsets, size=FETCH_BYTES, isolation_level=IsolationLevel.READ_UNCOMMITTED)

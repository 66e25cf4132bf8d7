"""Finds out whether all offsets from a group's committed offset to the end of a partition hold only markers and records
of aborted transactions.

A read_committed consumer gets no such record. So if it commits after each record that it gets, its committed offset may
stay there, and the group is well all the same. `jobs.kafka.markers` looks only at the last offsets before an end that
does not move. This module reads on from the committed offset of the group that is closest to the end, also while
producers abort further transactions. In each round it fetches a few kilobytes of a partition, or more if all offsets
that it has seen are unreadable, and continues there in the next round. A committed record ends the search until the
committed offset has passed it. If this user may not read the topic, nothing is known about it.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.errors import TopicAuthorizationFailedError
from kafka.protocol.consumer import IsolationLevel
from kafka.record import MemoryRecords

from groupledger.jobs.kafka.markers import FETCH_BYTES, MAGIC_WITH_CONTROL
from groupledger.jobs.kafka.topic_fetches import ask_leaders_of, fetched, with_markers
from groupledger.jobs.process.chunks import chunks
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.sampling import SampledRound
    from groupledger.jobs.process.settings import SamplingSettings

FETCH_BYTES_MORE = 256 << 10


class Unreadable(NamedTuple):
    """The offsets from `since` up to `until` of a partition, which hold no committed record. `is_over` if a committed
    record follows, or if this user may not read the topic."""

    topic_id: str | None
    since: int
    until: int
    is_over: bool = False


class AbortedRecords:
    """Remembers the unreadable offsets of each partition from round to round."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, Unreadable] = {}

    def add_to(
        self,
        sampled: SampledRound,
        standing: Mapping[TopicPartition, int],
        brokers: Brokers,
        settings: SamplingSettings,
    ) -> SampledRound:
        """Returns the round with `markers_at_end` set for the partitions in which all offsets from the committed offset
        in `standing` up to the last stable offset are unreadable."""
        rows = {
            place: row
            for row in sampled.watermarks
            if (place := TopicPartition(row.topic, row.partition)) in standing and row.last_stable_offset is not None
        }
        self._known = {
            place: self._from(place, standing[place], row.topic_id)
            for place, row in rows.items()
            if standing[place] < (row.last_stable_offset or 0)
        }
        asked = {
            place: known
            for place, known in self._known.items()
            if not known.is_over and known.until < (rows[place].last_stable_offset or 0)
        }
        self._known |= read_on(brokers, settings, asked) if asked else {}
        counts = {
            place: max(rows[place].markers_at_end or 0, known.until - known.since)
            for place, known in self._known.items()
            if not known.is_over and known.until == rows[place].last_stable_offset
        }
        return with_markers(sampled, counts)

    def _from(self, place: TopicPartition, committed: int, topic_id: str | None) -> Unreadable:
        known = self._known.get(place)
        if known is not None and known.topic_id == topic_id and known.since <= committed <= known.until:
            return known
        return Unreadable(topic_id, committed, committed)


def read_on(
    brokers: Brokers, settings: SamplingSettings, asked: Mapping[TopicPartition, Unreadable]
) -> dict[TopicPartition, Unreadable]:
    """Reads the partitions from the `until` of what is known of them, and returns how far the unreadable offsets reach
    now. Partitions whose leader does not answer are left out."""

    def ask(node: int, places: list[TopicPartition]) -> dict[TopicPartition, Unreadable]:
        found: dict[TopicPartition, Unreadable] = {}
        new = [place for place in places if asked[place].since == asked[place].until]
        others = [place for place in places if place not in set(new)]
        for some, size in ((new, FETCH_BYTES), (others, FETCH_BYTES_MORE)):
            for chunk in chunks(some, settings.partitions_per_request):
                found |= _ask_leader(brokers, node, {place: asked[place] for place in chunk}, size)
        return found

    return ask_leaders_of(brokers, settings, asked, ask)


def _ask_leader(
    brokers: Brokers, node: int, asked: Mapping[TopicPartition, Unreadable], size: int
) -> dict[TopicPartition, Unreadable]:
    """Raises KafkaError if the leader does not answer."""
    offsets = {place: known.until for place, known in asked.items()}
    found = {}
    for place, partition in fetched(brokers, node, offsets, size=size, isolation_level=IsolationLevel.READ_COMMITTED):
        if partition.error_code == TopicAuthorizationFailedError.errno:
            found[place] = asked[place]._replace(is_over=True)
        elif not partition.error_code:
            until, is_over = unreadable_until(
                offsets[place], bytes(partition.records or b""), partition.aborted_transactions or ()
            )
            found[place] = asked[place]._replace(until=until, is_over=is_over)
    return found


def unreadable_until(start: int, records: bytes, aborted: Iterable[Any]) -> tuple[int, bool]:
    """Returns the offset up to which the batches in `records` hold no committed record, from the offset `start` on, and
    whether a committed record follows. `aborted` are the aborted transactions in these batches, with their producer and
    first offset, as a broker lists them for a read_committed consumer."""
    ahead, producers = deque(sorted(aborted, key=attrgetter("first_offset"))), set[int]()
    batches, until = MemoryRecords(records), start
    while (batch := batches.next_batch()) is not None:
        if batch.magic < MAGIC_WITH_CONTROL:
            return until, True
        last = batch.base_offset + batch.last_offset_delta
        while ahead and ahead[0].first_offset <= last:
            producers.add(ahead.popleft().producer_id)
        if last < start:
            continue
        if batch.is_control_batch:
            producers.discard(batch.producer_id)  # whatever its end is, the transaction is over
        elif not (batch.is_transactional and batch.producer_id in producers):
            return until, True
        until = last + 1
    return until, False

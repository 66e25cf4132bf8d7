"""Fetches small pieces of topics from their leaders within a sampling round, and puts what they show into the round.

`jobs.kafka.markers` and `jobs.kafka.aborted` decide what to fetch, and judge the batches. A leader that does not answer
costs its own partitions only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kafka.errors import KafkaError

from groupledger.jobs.kafka.brokers import ask_each
from groupledger.jobs.kafka.fetch import fetch_of_topics
from groupledger.jobs.kafka.sampling import describe_topics
from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from groupledger.jobs.kafka.brokers import Brokers
    from groupledger.jobs.kafka.sampling import SampledRound
    from groupledger.jobs.process.settings import SamplingSettings

Seen = TypeVar("Seen")


def ask_leaders_of(
    brokers: Brokers,
    settings: SamplingSettings,
    places: Collection[TopicPartition],
    ask: Callable[[int, list[TopicPartition]], dict[TopicPartition, Seen]],
) -> dict[TopicPartition, Seen]:
    """Calls `ask` with each leader of `places` and those that it leads, for several leaders at once. Returns all
    results. Partitions without a known leader, and those for which `ask` raises KafkaError, are left out."""
    try:
        leaders, _, _ = describe_topics(brokers, settings, {place.topic for place in places})
    except OutsideError:
        return {}
    wanted = {node: [place for place in led if place in places] for node, led in leaders.items()}
    answers = ask_each(settings, {node: led for node, led in wanted.items() if led}, ask)
    return {
        place: seen
        for answer in answers.values()
        if not isinstance(answer, KafkaError)
        for place, seen in answer.items()
    }


def fetched(
    brokers: Brokers, node: int, offsets: Mapping[TopicPartition, int], *, size: int, isolation_level: int
) -> Iterator[tuple[TopicPartition, Any]]:
    """Yields what the leader `node` returns of each partition from its offset on, `size` bytes or a batch that is
    larger. Raises KafkaError if the leader does not answer."""
    request = fetch_of_topics(offsets, partition_bytes=size, isolation_level=isolation_level)
    for topic in brokers.send(request, node).responses:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition.partition_index), partition


def with_markers(sampled: SampledRound, counts: Mapping[TopicPartition, int | None]) -> SampledRound:
    """Returns the round with the `markers_at_end` of the partitions in `counts`."""
    rows = (
        replace(row, markers_at_end=counts[place])
        if (place := TopicPartition(row.topic, row.partition)) in counts
        else row
        for row in sampled.watermarks
    )
    return replace(sampled, watermarks=tuple(rows))

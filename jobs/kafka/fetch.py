"""Builds Fetch requests for use without a consumer, and parses the responses about the partitions of one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

# The last version that names its topic; later ones need the topic's id.
FETCH_VERSION_MAX = 12
OF_CONSUMERS = -1  # as the replica that asks
MAX_BYTES = 50 << 20  # of an answer, as Kafka's own consumer has it


def fetch_of(
    offsets: Mapping[int, int], *, partition_bytes: int, isolation_level: int, wait_ms: int = 0, min_bytes: int = 0
) -> FetchRequest:
    """Returns a Fetch for each partition of `__consumer_offsets` in `offsets`, from its offset on."""
    return fetch_of_topics(
        {TopicPartition(OFFSETS_TOPIC, partition): offset for partition, offset in offsets.items()},
        partition_bytes=partition_bytes,
        max_bytes=partition_bytes * len(offsets),
        isolation_level=isolation_level,
        wait_ms=wait_ms,
        min_bytes=min_bytes,
    )


def fetch_of_topics(
    offsets: Mapping[TopicPartition, int],
    *,
    partition_bytes: int,
    isolation_level: int,
    max_bytes: int = MAX_BYTES,
    wait_ms: int = 0,
    min_bytes: int = 0,
) -> FetchRequest:
    """Returns a Fetch for each topic partition in `offsets`, from its offset on. A broker returns a batch that is
    larger than `partition_bytes` for the first partition only. That may leave no room for the others, if `max_bytes` is
    reached."""
    topic = FetchRequest.FetchTopic
    of_topics: dict[str, list[Any]] = {}
    for place, offset in offsets.items():
        of_topics.setdefault(place.topic, []).append(
            topic.FetchPartition(
                partition=place.partition,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=partition_bytes,
            )
        )
    return FetchRequest(
        replica_id=OF_CONSUMERS,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=name, partitions=asked) for name, asked in of_topics.items()],
        forgotten_topics_data=[],
        rack_id="",
        max_version=FETCH_VERSION_MAX,
    )


def of_partitions(answers: Any) -> list[Any]:
    """Returns the partitions in an answer about a single topic. Raises KafkaError if one of them has an error."""
    (found,) = ([*each.partitions] for each in answers)
    for each in found:
        if each.error_code:
            raise for_code(each.error_code)
    return found

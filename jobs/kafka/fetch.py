"""Makes fetches of `__consumer_offsets` below the consumer, and reads the answers about its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest

from groupledger.schemas.kafka.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

# The last version that names its topic; later ones need the topic's id.
FETCH_VERSION_MAX = 12
OF_CONSUMERS = -1  # as the replica that asks


def fetch_of(
    offsets: Mapping[int, int], *, partition_bytes: int, isolation_level: int, wait_ms: int = 0, min_bytes: int = 0
) -> FetchRequest:
    """Returns a request for what lies in each partition from an offset on."""
    topic = FetchRequest.FetchTopic
    asked = [
        topic.FetchPartition(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_bytes,
        )
        for partition, offset in offsets.items()
    ]
    return FetchRequest(
        replica_id=OF_CONSUMERS,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=partition_bytes * len(asked),
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=OFFSETS_TOPIC, partitions=asked)],
        forgotten_topics_data=[],
        rack_id="",
        max_version=FETCH_VERSION_MAX,
    )


def of_partitions(answers: Any) -> list[Any]:
    """Returns what was answered of each partition of the one topic. Raises KafkaError if one was refused."""
    (found,) = ([*each.partitions] for each in answers)
    for each in found:
        if each.error_code:
            raise for_code(each.error_code)
    return found

"""Goal: what earlier rounds showed of a topic is there again in a state that is recovered from the tables."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.lag.lag_seeds import topic_seeds
from groupledger.transforms.lag.rules import LagState
from groupledger.transforms.lag.rules.of_group import SAMPLE, TOPIC, by_kind, restore_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
# By topic: (topic id, high watermark, last stable offset), an hour apart.
SAMPLES = {
    "transactional": [("a", 10, 9), ("a", 12, 12), ("a", 12, 12)],
    "plain": [("b", 10, 10), ("b", 12, 12)],
    "recreated": [("c", 10, 9), ("d", 2, 2)],
}


def test_transactions_are_remembered(spark: SparkSession) -> None:
    """Goal: a partition has transactions if any sample of its present topic showed an open one."""
    rows = [
        {
            **dict.fromkeys(WATERMARKS.schema.names),
            "sampled_at": BEGAN_AT + timedelta(hours=hour),
            "topic": topic,
            "partition": 0,
            "topic_id": topic_id,
            "log_start_offset": 0,
            "high_watermark": end,
            "last_stable_offset": stable,
        }
        for topic, samples in SAMPLES.items()
        for hour, (topic_id, end, stable) in enumerate(samples)
    ]
    seeds = topic_seeds(spark.createDataFrame(rows, WATERMARKS.schema)).orderBy("kind").collect()
    kinds = by_kind(row.asDict() for row in seeds)
    state = LagState()
    restore_topics(state, kinds[TOPIC], kinds[SAMPLE])
    found = {topic: state.topics[TopicPartition(topic, 0)].has_transactions for topic in SAMPLES}
    assert found == {"transactional": True, "plain": False, "recreated": False}

"""A monitor reads commits as columns, and they are those of Spark's rows."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from groupledger.jobs.monitor.commits import in_log_order
from groupledger.transforms.lag.lag import commit_events
from groupledger.transforms.lag.rules.of_group import commit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_LOG = (
    "group_id string, topic string, partition int, committed_offset long, commit_timestamp_ms long,"
    " kafka_timestamp timestamp, kafka_partition int, kafka_offset long, is_tombstone boolean, topic_id string,"
    " leader_epoch int"
)


def test_commits_come_in_the_order_of_the_log(spark: SparkSession) -> None:
    random = Random(7)
    rows: list[tuple[Any, ...]] = [
        (
            f"g-{number % 3}",
            f"t-{number % 5}",
            number % 4,
            random.choice((number, None, 2**63 - 1)),
            1_800_000_000_000 + number,
            None,
            number % 2,
            number,
            number % 7 == 0,
            random.choice((None, "id-1", "id-2")),
            random.choice((None, 3)),
        )
        for number in range(500)
    ]
    random.shuffle(rows)
    commits = spark.createDataFrame(rows, COMMIT_LOG)

    found = list(in_log_order(commits))

    expected = [row.asDict() for row in commit_events(commits).orderBy("kafka_partition", "kafka_offset").collect()]
    assert found == [
        (row["group_id"], row["topic"], row["partition"], commit_of(row | {"high_watermark": None})) for row in expected
    ]
    assert {commit.committed_offset is None for *_, commit in found} == {True, False}


def test_no_commits(spark: SparkSession) -> None:
    assert list(in_log_order(spark.createDataFrame([], COMMIT_LOG))) == []

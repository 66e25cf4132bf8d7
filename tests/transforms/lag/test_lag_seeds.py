"""Goal: a state that is recovered from the seeds has all that earlier rounds showed, however the seeds came about."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone
from functools import reduce
from operator import or_
from random import Random
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import ms_of
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import LagSeedKind
from groupledger.transforms.lag.lag import is_below
from groupledger.transforms.lag.lag_seeds import SEED_ROWS, as_events, next_seeds
from groupledger.transforms.lag.rules import End, LagRules, LagState
from groupledger.transforms.lag.rules.of_group import SAMPLE, TOPIC, by_kind, restore_topics
from groupledger.transforms.offsets.offset_commits import commit_log
from tests.transforms.lag.rules.test_rounds import still_held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
# By topic: (topic id, high watermark, last stable offset), an hour apart.
SAMPLES = {
    "transactional": [("a", 10, 9), ("a", 12, 12), ("a", 12, 12)],
    "plain": [("b", 10, 10), ("b", 12, 12)],
    "recreated": [("c", 10, 9), ("d", 2, 2)],
}
ROUND_S, ROUNDS = 1_200, 150  # two days of rounds
OFFSETS_PARTITIONS = 3


def sampled(at: datetime, topic: str, partition: int, end: int, **others: Any) -> dict[str, Any]:
    row = {**dict.fromkeys(WATERMARKS.schema.names), "sampled_at": at, "topic": topic, "partition": partition}
    return row | {"log_start_offset": 0, "high_watermark": end, "last_stable_offset": end} | others


def frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(rows, table.schema)


def test_transactions_are_remembered(spark: SparkSession) -> None:
    """Goal: a partition has transactions if any sample of its present topic showed an open one."""
    rows = [
        sampled(BEGAN_AT + timedelta(hours=hour), topic, 0, end, topic_id=topic_id, last_stable_offset=stable)
        for topic, samples in SAMPLES.items()
        for hour, (topic_id, end, stable) in enumerate(samples)
    ]
    none = spark.createDataFrame([], SEED_ROWS)
    commits = commit_log(frame(spark, COORDINATOR_RECORDS, []))
    seeds = next_seeds(none, frame(spark, WATERMARKS, rows), commits, {}, LagRules())
    events = as_events(seeds, LagSeedKind.TOPIC, LagSeedKind.SAMPLE).orderBy("kind", "at_ms").collect()
    kinds = by_kind(row.asDict() for row in events)
    state = LagState()
    restore_topics(state, kinds[TOPIC], kinds[SAMPLE])
    found = {topic: state.topics[TopicPartition(topic, 0)].has_transactions for topic in SAMPLES}
    assert found == {"transactional": True, "plain": False, "recreated": False}


def test_steps_of_any_length(spark: SparkSession) -> None:
    """Goal: the seeds after the last round are the same in one step and in several, whatever was removed, made anew, or
    had no answer."""
    random = Random(19)
    watermarks, records, ends = random_log(random)
    cuts = sorted(random.sample(range(1, ROUNDS), 2))
    found = []
    for steps in ([ROUNDS], [*cuts, ROUNDS]):
        seeds, begin = spark.createDataFrame([], SEED_ROWS), 0
        counted: dict[int, tuple[int, End]] = {}
        for end in steps:
            rows = [row for number in range(begin, end) for row in watermarks[number]]
            after = reduce(or_, ends[begin:end], counted)
            log = commit_log(frame(spark, COORDINATOR_RECORDS, records))
            new = log.where(is_below(after) & ~is_below(counted))
            seeds = next_seeds(seeds, frame(spark, WATERMARKS, rows), new, after, LagRules())
            begin, counted = end, after
        found.append(Counter(tuple(row) for row in seeds.collect()))
    assert found[0] == found[1]
    assert_samples_are_held(found[0], watermarks)
    assert {row[SEED_ROWS.names.index("kind")] for row in found[0]} == {"topic", "sample", "commit", "end"}
    assert 300 < found[0].total() < ROUNDS * 8


def assert_samples_are_held(seeds: Counter[tuple[Any, ...]], watermarks: list[list[dict[str, Any]]]) -> None:
    """Asserts that the seeds have the samples of each partition that its window is made from, and those of the log's
    ends besides."""
    for partition in range(4):
        of_partition = [row for rows in watermarks for row in rows if row["topic"] == "orders"]
        samples = [
            {"at_ms": ms_of(row["sampled_at"]), "high_watermark": row["high_watermark"]}
            for row in of_partition
            if row["partition"] == partition
        ]
        rows = (dict(zip(SEED_ROWS.names, row, strict=True)) for row in seeds)
        found = {row["at_ms"] for row in rows if row["kind"] == LagSeedKind.SAMPLE and row["partition"] == partition}
        held = {row["at_ms"] for row in still_held(samples)}
        assert held <= found
        assert len(found - held) <= OFFSETS_PARTITIONS


def end_of(number: int) -> int:
    """Returns the end that a round saw: it grows, and falls at times."""
    return number * 7 - (number % 13 == 5) * 40 - (number % 29 == 7) * 15


def random_log(random: Random) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]], list[dict[int, Any]]]:
    """Returns the samples of each round, commits, and by round the ends that it saw."""
    ends, watermarks, records = [], [], []
    offsets = dict.fromkeys(range(OFFSETS_PARTITIONS), 0)
    for number in range(ROUNDS):
        at = BEGAN_AT + timedelta(seconds=number * ROUND_S)
        at_ms = int(at.timestamp() * 1_000)
        seen = [each for each in offsets if random.random() < 0.9 and not (each == 2 and 20 < number < 140)]
        ends.append({partition: (at_ms, End(offsets[partition])) for partition in seen})
        rows = [sampled(at, OFFSETS_TOPIC, partition, offsets[partition]) for partition in seen]
        rows += [
            sampled(at, "orders", partition, end_of(number), topic_id="old" if number < 90 else "new")
            for partition in range(4)
            if random.random() < 0.95
        ]
        watermarks.append(rows)
        for group in [random.randrange(5)] * random.choice([0, 1, 2, 3, 12]):
            kafka_partition = group % OFFSETS_PARTITIONS
            is_tombstone = random.random() < 0.2 or (group == 4 and number > 30)
            value = {} if is_tombstone else {"offset": number * 7 - random.randrange(7), "commit_timestamp_ms": at_ms}
            records.append(
                {
                    **dict.fromkeys(COORDINATOR_RECORDS.schema.names),
                    "kafka_partition": kafka_partition,
                    "kafka_offset": offsets[kafka_partition],
                    "kafka_timestamp": at,
                    "record_type": "offset_commit",
                    "is_tombstone": is_tombstone,
                    "group_id": f"g{group}",
                    "offset_commit": {"topic": "orders", "partition": random.randrange(4), **value},
                }
            )
            offsets[kafka_partition] += random.randrange(1, 3)
    return watermarks, records, ends

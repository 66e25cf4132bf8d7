"""Goal: the steps of commits are those that the rules' own function finds, however the log is cut into passes."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta, timezone
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.incidents.commit_steps import (
    NEW,
    as_rows,
    as_steps,
    lines_of,
    steps_of,
    with_earlier,
    with_ends,
    with_suspicion,
)
from groupledger.transforms.incidents.rules import Commit, Rules
from groupledger.transforms.incidents.rules.facts import CommitStep, TopicEnd, commit_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGAN_AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
BEGAN_AT_MS = round(BEGAN_AT.timestamp() * 1_000)
MINUTE_MS = 60_000
GAP_MS = 2 * MINUTE_MS
MINUTES = 400
GROWN_AT = 5
CUTS = (130, 131, 300)  # minutes at which a pass keeps what there is
RULES = Rules(commit_gap_ms=GAP_MS)
KAFKA_PARTITIONS = 2
COMMITS = (
    "group_id string, kafka_partition int, kafka_offset long, topic string, partition int, topic_id string, at_ms long,"
    " offset long"
)


class Log:
    """Commits of some groups, with pauses, rewinds and removals; a hole in one partition; samples by the minute, of a
    topic that gets its second partition at `GROWN_AT`."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.commits: list[dict[str, Any]] = []
        self.samples: list[tuple[TopicPartition, TopicEnd]] = []
        ends = Counter[int]()
        offsets: Counter[tuple[str, int]] = Counter()
        places = [
            (f"group-{number}", number % KAFKA_PARTITIONS, partition) for number in range(4) for partition in (0, 1)
        ]
        tails = [0] * KAFKA_PARTITIONS
        for minute in range(MINUTES):
            at_ms = BEGAN_AT_MS + minute * MINUTE_MS
            for partition in (0, 1):
                ends[partition] += random.choice((0, 0, 0, 5))
                place = TopicPartition("orders", partition)
                if partition == 0 or minute >= GROWN_AT:
                    self.samples.append((place, TopicEnd(at_ms, ends[partition], random.choice((0, 0, 5)))))
            for group_id, kafka_partition, partition in places:
                if random.random() < (0.9 if (minute // 40 + len(group_id) + partition) % 2 else 0.05):
                    chance = random.random()
                    moved = -3 if chance < 0.02 else random.choice((0, 0, 4))
                    offsets[group_id, partition] = max(offsets[group_id, partition] + moved, 0)
                    self.commits.append(
                        {
                            "group_id": group_id,
                            "kafka_partition": kafka_partition,
                            "kafka_offset": tails[kafka_partition],
                            "topic": "orders",
                            "partition": partition,
                            "topic_id": "a" if minute < MINUTES // 2 else "b",
                            "at_ms": at_ms + random.randrange(MINUTE_MS),
                            "offset": None if chance > 0.98 else offsets[group_id, partition],
                        }
                    )
                    tails[kafka_partition] += 1
        # Records come in the order of their times.
        for partition in range(KAFKA_PARTITIONS):
            mine = [row for row in self.commits if row["kafka_partition"] == partition]
            for row, at_ms in zip(mine, sorted(row["at_ms"] for row in mine), strict=True):
                row["at_ms"] = at_ms
        hole = tails[1] // 3
        self.stretches = [(0, 0, tails[0]), (1, 0, hole), (1, hole + 20, tails[1])]

    def expected(self, until_ms: int) -> Counter[Any]:
        """Returns the steps by the rules' own function, in each stretch for each group."""
        ends: dict[TopicPartition, list[TopicEnd]] = defaultdict(list)
        for place, end in self.samples:
            ends[place].append(end)
        found: Counter[Any] = Counter()
        for kafka_partition, first, last in self.stretches:
            lines: dict[Any, list[dict[str, Any]]] = defaultdict(list)
            for row in self.commits:
                if row["kafka_partition"] == kafka_partition and first <= row["kafka_offset"] < last:
                    lines[row["group_id"], row["partition"]].append(row)
            for line in lines.values():
                for step in steps_of_line(line, ends, until_ms):
                    found[reported(step)] += 1
        return found


def steps_of_line(
    line: list[dict[str, Any]], ends: dict[TopicPartition, list[TopicEnd]], until_ms: int
) -> list[CommitStep]:
    """Returns the steps of one line, whose removals count for the rhythm of its commits and end what was there."""
    removal = -1
    commits = [
        Commit(
            **{name: row[name] for name in ("kafka_partition", "kafka_offset", "at_ms", "topic", "partition")},
            offset=removal if row["offset"] is None else row["offset"],
        )
        for row in line
    ]
    return [
        step
        for step in commit_steps(commits, GAP_MS, ends)
        if step.commit.offset != removal
        and (step.next_commit is None or step.next_commit.offset != removal)
        and (step.next_commit is not None or until_ms - step.commit.at_ms >= GAP_MS or step.new_from_ms is not None)
    ]


def reported(step: CommitStep) -> tuple[Any, ...]:
    following = step.next_commit
    return (
        *(step.commit.kafka_partition, step.commit.kafka_offset, step.commit.at_ms, step.commit.offset),
        *((None, None, None) if following is None else (following.kafka_offset, following.at_ms, following.offset)),
        *(None if step.interval_ms is None else round(step.interval_ms), step.high_watermark),
        *(step.idle_until_ms, step.waiting_from_ms),
        *(step.new_from_ms, step.new_end, step.unread_until_ms, step.unread_end),
    )


def row_values(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("kafka_partition", "kafka_offset", "at_ms", "offset", "next_kafka_offset", "next_at_ms", "next_offset")
    interval_ms = None if row["interval_ms"] is None else round(row["interval_ms"])
    return (
        *(row[name] for name in names),
        *(interval_ms, row["high_watermark"], row["idle_until_ms"], row["waiting_from_ms"]),
        *(row[name] for name in NEW),
    )


def coverage_of(spark: SparkSession, log: Log) -> DataFrame:
    rows = [
        {
            **dict.fromkeys(COVERAGE.schema.names),
            **dict(zip(("kafka_partition", "from_offset", "to_offset"), stretch, strict=True)),
            "completeness": "complete",
        }
        for stretch in log.stretches
    ]
    return spark.createDataFrame(rows, COVERAGE.schema)


def samples_of(spark: SparkSession, log: Log) -> DataFrame:
    others = [
        (TopicPartition(OFFSETS_TOPIC, 0), TopicEnd(BEGAN_AT_MS, 9)),
        (TopicPartition("x", 0), TopicEnd(BEGAN_AT_MS, 9)),
    ]
    rows = [
        {
            **dict.fromkeys(WATERMARKS.schema.names),
            "topic": place.topic,
            "partition": place.partition,
            "high_watermark": end.high_watermark,
            "last_stable_offset": end.high_watermark,
            "markers_at_end": end.unreadable or None,
            "sampled_at": BEGAN_AT + timedelta(milliseconds=end.sampled_at_ms - BEGAN_AT_MS),
        }
        for place, end in [*log.samples, *others]
    ]
    return spark.createDataFrame(rows, WATERMARKS.schema)


def test_the_same_however_it_is_cut(spark: SparkSession) -> None:
    """Goal: commits and samples that are read in pieces make the steps that all of them make at once; a commit that is
    read twice counts once."""
    log = Log(seed=7)
    until_ms = BEGAN_AT_MS + MINUTES * MINUTE_MS
    commits = spark.createDataFrame([tuple(row.values()) for row in log.commits], COMMITS).cache()
    coverage, samples = coverage_of(spark, log), samples_of(spark, log).cache()
    kept = as_steps(spark.createDataFrame([], COMMIT_STEPS.schema))
    closed: list[Any] = []
    for minute in CUTS:
        cut_ms = BEGAN_AT_MS + minute * MINUTE_MS
        lines = lines_of(kept, commits.where(f"at_ms <= {cut_ms}"), coverage)
        steps = with_suspicion(with_ends(steps_of(lines, GAP_MS, cut_ms), samples, cut_ms), RULES, cut_ms)
        steps = with_earlier(steps, lines)
        rows = as_rows(steps).selectExpr("'c' AS cluster", "*").select(*COMMIT_STEPS.schema.names).collect()
        closed += [row for row in rows if not row["is_open"]]
        kept = as_steps(spark.createDataFrame([row for row in rows if row["is_open"]], COMMIT_STEPS.schema))
    lines = lines_of(kept, commits, coverage)
    last = with_ends(steps_of(lines, GAP_MS, until_ms), samples, until_ms).where("is_step")
    before = as_steps(spark.createDataFrame(closed, COMMIT_STEPS.schema))
    steps = before.unionByName(with_suspicion(last, RULES, until_ms), allowMissingColumns=True)
    found = steps.collect()
    assert Counter(row_values(row.asDict()) for row in found) == log.expected(until_ms)
    assert len(found) > 100
    assert any(row["is_recreated_topic"] for row in found)
    assert any(row["new_from_ms"] for row in found)
    assert without_samples(lines) == {None}
    suspicion = [row["is_suspect"] for row in found]
    assert set(suspicion) == {0, 1}
    all_at_once = with_suspicion(steps.withColumn("is_step", F.lit(True)), RULES, until_ms).collect()
    assert [row["is_suspect"] for row in all_at_once] == suspicion


def without_samples(lines: DataFrame) -> set[Any]:
    """Returns the high watermarks of new commits if nothing was sampled."""
    steps = with_ends(steps_of(lines.where("sampled_until_ms IS NULL"), GAP_MS, BEGAN_AT_MS), None, BEGAN_AT_MS)
    return {row.high_watermark for row in steps.select("high_watermark").distinct().collect()}

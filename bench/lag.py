"""Measures what a sampling round costs: 2,000 groups with 20 partitions each; all partitions lag and commit. Each group
reads a topic of its own, or with --topics groups share so many. With --moving only that share of the groups lags and
commits; the others have read everything, nothing is written for them, and they commit nothing.

    memory   takes in commits, computes and sums up rows, and writes metrics and rows, as the monitor does in the driver
    table    computes the same rounds in Spark, as `groupledger pipeline` does (with --table)

It prints the seconds for each round: median and maximum of the rounds after the first ten. It prints the processor
time, too, which other work on the machine does not change. All partitions have samples of as many rounds before as
are kept, so the memory is that of a monitor that has run for long.

    python -m bench.lag [--groups 2000] [--partitions 20] [--topics N] [--moving 1.0] [--rounds 20] [--table]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from dataclasses import astuple, dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from prometheus_client.exposition import choose_encoder

from groupledger.jobs.kafka.sampling import SampledGroupState, SampledRound, SampledWatermark
from groupledger.jobs.monitor.commits import COMMIT_COLUMNS, commits_of
from groupledger.jobs.monitor.exposition import Published
from groupledger.jobs.monitor.state import MonitorState
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.process.garbage import collector_rests
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.coverage.rules.losses import LogLosses
from groupledger.transforms.lag.lag import lag_table
from groupledger.transforms.lag.rules import (
    Commit,
    End,
    GroupFacts,
    GroupHistory,
    LagRules,
    OffsetRange,
    Owner,
    Round,
    Watermark,
)
from groupledger.transforms.lag.rules.topic_window import THIN_ABOVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from groupledger.schemas.tables.table import Table

START_MS = 1_760_000_000_000
ROUND_MS = 5_000
OFFSETS_PARTITIONS = 50
WARM_UP = 10
SAMPLED_BEFORE = THIN_ABOVE - WARM_UP - 2  # rounds, so that one of those that count thins the samples out
TABLE_ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--topics", type=int, metavar="N")
    parser.add_argument("--moving", type=float, default=1.0, metavar="SHARE")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.topics and arguments.moving < 1:
        parser.error("With --topics all groups move, since those that rest can't share a topic with others.")
    load = Load(arguments.groups, arguments.partitions, arguments.topics or arguments.groups, arguments.moving)
    in_memory(load, arguments.rounds)
    if arguments.table:
        through_spark(load)


@dataclass(frozen=True)
class Load:
    """Groups that read `topics` topics between them, each one topic. In a round the share `moving` of the groups moves:
    their ends by 50, and their commits by 40, which is lag that grows. The others have committed 0 of empty logs."""

    groups: int
    partitions: int
    topics: int
    moving: float = 1.0

    def places(self) -> Iterator[tuple[int, str, str, int]]:
        """Yields the group's number, its id, topic and partition, for each partition of each group."""
        for group in range(self.groups):
            for partition in range(self.partitions):
                yield group, f"group-{group}", topic_of(group, self.topics), partition

    def facts(self) -> dict[str, GroupFacts]:
        owner = Owner(owned=True, member_id="member-0", client_id="client", client_host="/10.0.0.1")
        return {
            f"group-{group}": GroupFacts(
                "Stable",
                {
                    TopicPartition(topic_of(group, self.topics), partition): owner
                    for partition in range(self.partitions)
                },
                is_ownership_known=True,
                subscribed_topics=frozenset({topic_of(group, self.topics)}),
            )
            for group in range(self.groups)
        }

    def histories(self) -> dict[str, GroupHistory]:
        """Returns intervals that hold for good, from which the monitor makes `facts`."""
        always = OffsetRange(-1, None)
        return {
            group_id: GroupHistory(
                [(always, True)],
                [(always, place, owner) for place, owner in of.owners.items()],
                [(always, of.subscribed_topics)],
            )
            for group_id, of in self.facts().items()
        }

    def sampled(self, number: int) -> SampledRound:
        """Returns `round` as the brokers give it."""
        read = self.round(number)
        ends = [SampledWatermark(OFFSETS_TOPIC, each, 0, end.offset, end.offset) for each, end in read.ends.items()]
        others = [SampledWatermark(*place, *watermark[1:4]) for place, watermark in read.watermarks.items()]
        states = tuple(SampledGroupState(f"group-{each}", "classic", "Stable") for each in range(self.groups))
        return SampledRound(read.sampled_at_ms, (*ends, *others), states, {}, {})

    def commits(self, number: int) -> Iterator[tuple[str, str, int, Commit]]:
        first = number * self.groups * self.partitions
        committed_at_ms = START_MS + number * ROUND_MS - 1_000
        for offset, (group, group_id, topic, partition) in enumerate(self.places(), first):
            if number and not self.moves(group):
                continue
            yield group_id, topic, partition, Commit(number * 40, committed_at_ms, group % OFFSETS_PARTITIONS, offset)

    def moves(self, group: int) -> bool:
        return group < self.moving * self.groups

    def ends(self, number: int) -> dict[int, End]:
        return dict.fromkeys(range(OFFSETS_PARTITIONS), End((number + 1) * self.groups * self.partitions))

    def round(self, number: int) -> Round:
        at_ms = START_MS + number * ROUND_MS
        ends = {topic: number * 50 if self.moves(topic) else 0 for topic in range(min(self.topics, self.groups))}
        watermarks = {
            TopicPartition(topic_of(topic, self.topics), partition): Watermark(at_ms, 0, end, end)
            for topic, end in ends.items()
            for partition in range(self.partitions)
        }
        return Round(at_ms, self.ends(number), watermarks)


def topic_of(group: int, topics: int) -> str:
    return f"topic-{group % topics}"


def in_memory(load: Load, rounds: int) -> None:
    ledger: Any = SimpleNamespace(settings=load_settings(), cluster="bench")
    state = MonitorState(ledger)
    state._histories = load.histories()  # noqa: SLF001 - of a ledger that is not there
    names = ("commits", "rows and sums", "metrics", "rows for the table", "all, processor time")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    exposition, held = b"", None
    encoder, _ = choose_encoder("")
    for number in range(-SAMPLED_BEFORE, 0):
        for place in load.round(0).watermarks:
            state._lag.sample(place, Watermark(START_MS + number * ROUND_MS, 0, 0, 0))  # noqa: SLF001 - as above
    for number in range(rounds + WARM_UP):
        sampled, commits = load.sampled(number), commit_rows(load.commits(number))
        times = [time.perf_counter()]
        cpu = time.process_time()
        with collector_rests():
            state.take(commits_of(commits))
            times.append(time.perf_counter())
            state.compute(sampled, range(OFFSETS_PARTITIONS))
            times.append(time.perf_counter())
            exposition = Published([*state.metrics(1.0)]).encoded(encoder)
            times.append(time.perf_counter())
            held = lag_table(state.rows)
            times.append(time.perf_counter())
        took = [later - earlier for earlier, later in pairwise(times)]
        if number >= WARM_UP:
            for name, value in zip(seconds, [*took, time.process_time() - cpu], strict=True):
                seconds[name].append(value)
    assert held is not None
    assert held.num_rows == load.groups * load.partitions
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    size_mb = len(exposition) / 1e6
    print(f"{held.num_rows:,} partitions of groups a round, {size_mb:.0f} MB of metrics, {memory_mb:,.0f} MB of memory")
    for name, values in seconds.items():
        print(f"  {name:<22} {statistics.median(values):6.2f} s, at most {max(values):.2f} s", flush=True)


def commit_rows(commits: Iterable[tuple[str, str, int, Commit]]) -> pa.Table:
    """Returns commits as a monitor gets them from Spark."""
    rows = [(*place, *astuple(commit)[: len(COMMIT_COLUMNS) - len(place)]) for *place, commit in commits]
    types = (
        pa.string(),
        pa.string(),
        pa.int32(),
        pa.int64(),
        pa.int64(),
        pa.int32(),
        pa.int64(),
        pa.string(),
        pa.int32(),
    )
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return pa.table(list(map(pa.array, columns, types)), COMMIT_COLUMNS)


def through_spark(load: Load) -> None:
    """Runs the rounds in Spark over tables in memory, so that only the computing is measured."""
    from groupledger.jobs.derive.lag import lag_of
    from groupledger.jobs.derive.lag_seeds import Seeds
    from groupledger.jobs.process.session import spark_session
    from groupledger.jobs.warehouse.tables import Tables
    from groupledger.transforms.lag.lag_seeds import SEED_ROWS

    spark = spark_session("groupledger bench")
    tables = table_rows(load)

    class InMemory(Tables):
        def rows_if_any(self, table: Table) -> DataFrame:
            import pyarrow as pa

            from groupledger.schemas.arrow import arrow_schema

            arrow = pa.Table.from_pylist(tables.get(table.name, []), schema=arrow_schema(table.schema))
            return spark.createDataFrame(arrow, table.schema).repartition(2)

    part = [(START_MS + number * ROUND_MS, load.ends(number)) for number in range(TABLE_ROUNDS)]
    found = lag_of(InMemory(spark, ""), part, Seeds(spark.createDataFrame([], SEED_ROWS)), LagRules(), LogLosses())
    began = time.perf_counter()
    assert found.count() == TABLE_ROUNDS * load.groups * load.partitions
    took = time.perf_counter() - began
    print(f"  through Spark, cold    {took / TABLE_ROUNDS:6.2f} s a round, {TABLE_ROUNDS} rounds in {took:.1f} s")
    spark.stop()


def table_rows(load: Load) -> dict[str, list[dict[str, Any]]]:
    commits = [
        {
            "kafka_partition": commit.kafka_partition,
            "kafka_offset": commit.kafka_offset,
            "kafka_timestamp": commit.commit_timestamp_ms * 1_000,
            "record_type": "offset_commit",
            "is_tombstone": False,
            "group_id": group_id,
            "offset_commit": {
                "topic": topic,
                "partition": partition,
                "offset": commit.committed_offset,
                "commit_timestamp_ms": commit.commit_timestamp_ms,
            },
        }
        for number in range(TABLE_ROUNDS)
        for group_id, topic, partition, commit in load.commits(number)
    ]
    watermarks = [
        {
            "sampled_at": watermark.sampled_at_ms * 1_000,
            "sample_date": watermark.sampled_at_ms // DAY_MS,
            "topic": topic,
            "partition": partition,
            "log_start_offset": 0,
            "high_watermark": watermark.high_watermark,
            "last_stable_offset": watermark.last_stable_offset,
        }
        for number in range(TABLE_ROUNDS)
        for (topic, partition), watermark in load.round(number).watermarks.items()
    ]
    return {"coordinator_records": commits, "watermarks": watermarks}


if __name__ == "__main__":
    main()

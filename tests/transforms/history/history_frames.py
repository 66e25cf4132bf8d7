"""Logs written by hand as the tables that they lead to: their commits in `coordinator_records`, the history as the fold
makes it, and the coverage that the log was read with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.history.rules.events import CommitSums, Coverage
from groupledger.transforms.history.rules.fold import fold
from lab.truth.histories import Commit, Log, member, position, stretch, summaries
from tests.transforms.history.rules.consumer_groups import consumer_groups, event, of_group, topic_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table
    from lab.truth.histories import Entry

CLUSTER = "test"
START_MS = 1_760_000_000_000
HISTORY = (GENERATIONS, MEMBERS, MEMBER_EPOCHS, ASSIGNMENTS, REBALANCES, GROUPS)
APART = 100  # the factor of a real log's offsets, so that commits lie in between

# Groups of KIP-848's kind in a real broker's logs: which log, a partition for it here, and where it commits.
REAL = {
    "dynamic": ("consumer_groups", 7, [("dynamic", number) for number in range(6)]),
    "static": ("consumer_groups", 8, [("static", number) for number in range(4)]),
    "migrated": ("consumer_groups", 9, [("migrated", number) for number in range(4)]),
    "dynamic of 4.4": ("consumer_groups_4_4", 11, [("dynamic", number) for number in range(6)]),
    "static of 4.4": ("consumer_groups_4_4", 12, [("static", number) for number in range(4)]),
    "application": ("modern_groups", 10, [(topic, number) for topic in ("orders", "refunds") for number in range(3)]),
}


@dataclass(frozen=True)
class GroupLog:
    """One group, alone in its partition. `coverage` has rows of `stretch`; the history has not folded `unfolded`
    yet."""

    group_id: str
    kafka_partition: int
    entries: Sequence[Entry]
    coverage: Sequence[dict[str, Any]]
    unfolded: Sequence[Commit] = ()

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        marks = [Coverage(row["from_offset"], row["completeness"]) for row in self.coverage]
        log = sorted([*marks, *(each for each in self.entries if not isinstance(each, Coverage))], key=position)
        rows = fold(self.group_id, self.kafka_partition, None, summaries(log)).rows
        commits = [each for each in (*self.entries, *self.unfolded) if isinstance(each, Commit)]
        rows[COORDINATOR_RECORDS.name] = [self._record(commit) for commit in commits]
        rows[COVERAGE.name] = [{"kafka_partition": self.kafka_partition, **row} for row in self.coverage]
        return rows

    def _record(self, commit: Commit) -> dict[str, Any]:
        value = {
            "offset": commit.committed_offset,
            "leader_epoch": -1,
            "metadata": "",
            "commit_timestamp_ms": commit.kafka_timestamp_ms,
            "topic_id": ZERO_UUID,
        }
        is_tombstone = commit.committed_offset is None
        return {
            "kafka_partition": self.kafka_partition,
            "kafka_offset": commit.kafka_offset,
            "kafka_timestamp": commit.kafka_timestamp_ms * 1_000,
            "record_type": "offset_commit",
            "is_tombstone": is_tombstone,
            "group_id": self.group_id,
            "offset_commit": {"topic": commit.topic, "partition": commit.partition, **({} if is_tombstone else value)},
        }


def frames(spark: SparkSession, *logs: GroupLog) -> dict[Table, DataFrame]:
    by_log = [log.rows() for log in logs]
    found = {}
    for table in (COORDINATOR_RECORDS, COVERAGE, *HISTORY):
        rows = [{"cluster": CLUSTER, **row} for rows in by_log for row in rows[table.name]]
        if table.end_column is not None:
            rows = [{**row, "is_open": int(row[table.end_column] is None)} for row in rows]
        arrow = pa.Table.from_pylist(rows, schema=arrow_schema(table.schema))
        found[table] = spark.createDataFrame(arrow, table.schema)
    return found


def cooperative_group() -> GroupLog:
    """`g1`: a simple consumer's commit, three generations, an end, a second incarnation, a hole, and records after
    it."""
    log = Log().wait(START_MS).commit(0, at=10)  # offset 1
    log.record(1, member("a", 0), member("b", 1)).commit(0, at=20).commit(0, at=5).commit(7, at=1)  # 2 to 5
    log.record(2, member("a", owned=[0]), member("b", 1, owned=[1])).commit(0, at=30)  # 6, 7: a gives up 0
    log.record(3, member("b", 0, 1, owned=[1])).commit(0, at=31).commit(0, at=-1).commit(0, at=40)  # 8 to 11
    log.commit(0, at=None).commit(0, at=1).record(4).commit(0, at=2)  # 12 to 15
    log.tombstone().commit(0, at=3).record(1, member("c", 0))  # 16 to 18
    hole_ms = log.now_ms + 1_000
    log.offset, log.now_ms = 24, hole_ms + 60_000
    read_again_ms = log.now_ms
    log.commit(0, at=1).commit(1, at=9).commit(0, at=0)  # 25 to 27
    coverage = [
        stretch(0, 19, (START_MS, hole_ms), "complete"),
        stretch(19, 25, None, "unknown"),
        {**stretch(25, 27, None, "compacted"), "to_time": read_again_ms * 1_000},
        stretch(27, 100, (read_again_ms, read_again_ms + 60_000), "complete"),
    ]
    return GroupLog("g1", 3, log.entries, coverage, unfolded=[Commit(28, log.now_ms, "orders", 0, 4)])


def compacted_group() -> GroupLog:
    """`old`: compaction left records of generations 5 and 9; then it is followed, and two members get one partition."""
    log = Log().wait(START_MS - 5_000).record(5, member("a", 0)).commit(0, at=1).record(9, member("b", 0))  # 1 to 3
    log.commit(0, at=2).wait(5_000).commit(0, at=3).record(10, member("b", 0), member("a", 0)).commit(0, at=4)  # 4 to 7
    coverage = [
        {**stretch(0, 5, None, "compacted"), "to_time": START_MS * 1_000},
        stretch(5, 100, (START_MS, START_MS + 600_000), "complete"),
    ]
    return GroupLog("old", 4, log.entries, coverage)


def simple_group() -> GroupLog:
    """`simple`: commits only, one of them of offset -1, one removed; then a clock half a second back."""
    log = Log().wait(START_MS).commit(0, at=7).commit(1, at=-1).commit(2, at=5).wait(1_000).commit(2, at=None)  # 1 to 4
    log.wait(1_000).commit(0, at=8).wait(-500).commit(0, at=9)  # 5, 6
    return GroupLog("simple", 5, log.entries, [stretch(0, 100, (START_MS, START_MS + 600_000), "complete")])


def emptied_group() -> GroupLog:
    """`emptied`: its only member leaves."""
    log = Log().wait(START_MS).record(1, member("a", 0)).commit(0, at=1).record(2)
    return GroupLog("emptied", 6, log.entries, [stretch(0, 100, (START_MS, START_MS + 600_000), "complete")])


def modern_groups() -> list[GroupLog]:
    return [_real_group(*each) for each in REAL.items()]


def _real_group(group_id: str, of: tuple[str, int, Sequence[tuple[str, int]]]) -> GroupLog:
    """Returns a group of KIP-848 as a real broker wrote it, with a commit in each of the places after each of the
    coordinator's operations."""
    source, kafka_partition, places = of
    names = topic_names(consumer_groups(source))
    entries: list[Entry] = []
    for record in real_operations(group_id):
        place = {"kafka_offset": record["kafka_offset"] * APART, "after_ms": START_MS + record["after_ms"]}
        decoded = event({**record, **place}, names)
        assert not isinstance(decoded, CommitSums | Coverage)
        entries.append(decoded)
        if record["is_last"]:
            entries += [
                Commit(place["kafka_offset"] + number, place["after_ms"], *each, number)
                for number, each in enumerate(places, 1)
            ]
    end = position(entries[-1])[0] + 1
    return GroupLog(group_id, kafka_partition, entries, [stretch(0, end, (START_MS, START_MS + 600_000), "complete")])


def real_operations(group_id: str) -> Iterator[dict[str, Any]]:
    """Yields the records of a group of `REAL`; `is_last`: the next one is of another operation."""
    records = of_group(consumer_groups(REAL[group_id][0]), group_id.removesuffix(" of 4.4"))
    for record, following in zip_longest(records, records[1:]):
        yield {**record, "is_last": following is None or following["after_ms"] != record["after_ms"]}

"""Measures whether a micro-batch of the history costs more as the history grows, from records to the last table.

Each case is a ledger with closed history, written directly into the tables in ten Delta commits, and with open groups,
which a first batch through the job itself makes. Then five batches go through `jobs.derive.history.apply_batch`. In
each of them some groups commit, and one of their members is replaced. The program prints the median time, its ratio to
that of the shortest history, what one batch rewrote according to Delta, and the files that it read. It ends with 1 if a
longer history costs more than 1.5 times as much. Two more cases with the shortest history follow: a large group, and
many groups.

    python -m bench.history_cost [--rows 1000000 10000000 50000000] [--driver-records 200000]

Batches of more records than --driver-records are folded by Spark's tasks; 0 measures only these.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from groupledger.jobs.derive import history
from groupledger.jobs.derive.history import TABLES, apply_batch
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.source import CAPTURE, LedgerSource, TopicIdentity, write_source
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.coverage.rules.stretches import Reading
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

RUNS, COMMITS, RATIO_MAX = 5, 10, 1.5
PARTITIONS = 50  # of __consumer_offsets
INTERVAL = 1_000  # offsets, and seconds, that a closed row lasts
# How many of a hundred rows of history are in each table.
SHARES = {ASSIGNMENTS: 70, MEMBERS: 10, GENERATIONS: 10, REBALANCES: 10}
SECOND_US = 1_000_000


@dataclass(frozen=True)
class Case:
    """A number of closed rows, and of open groups; each batch touches some of these groups."""

    name: str
    rows: int
    groups: int
    members: int
    units: int
    touched: int


@dataclass(frozen=True)
class Cost:
    seconds: float
    files_read: int
    files_rewritten: int


def cases(rows: list[int]) -> Iterator[Case]:
    for number in rows:
        yield Case(f"{number:,} rows of history", number, groups=1_000, members=5, units=5, touched=100)
    yield Case(
        "a group of 1,000 members and 5,000 partitions", rows[0], groups=1, members=1_000, units=5_000, touched=1
    )
    yield Case("10,000 groups", rows[0], groups=10_000, members=2, units=4, touched=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 50_000_000])
    parser.add_argument("--driver-records", type=int, default=history.RECORDS_PER_DRIVER_FOLD)
    arguments = parser.parse_args()
    rows, history.RECORDS_PER_DRIVER_FOLD = arguments.rows, arguments.driver_records
    spark = spark_session("groupledger history cost")
    costs: list[float] = []
    for case in cases(rows):
        with tempfile.TemporaryDirectory(prefix="groupledger-cost-") as warehouse:
            cost = measure(spark, Path(warehouse), case)
        costs.append(cost.seconds)
        print(
            f"{case.name:<46}{cost.seconds:7.2f} s {cost.seconds / costs[0]:5.2f} times the first;"
            f" {cost.files_read} files read, {cost.files_rewritten} rewritten",
            flush=True,
        )
    spark.stop()
    sys.exit(1 if max(costs[: len(rows)]) > RATIO_MAX * costs[0] else 0)


def measure(spark: SparkSession, warehouse: Path, case: Case) -> Cost:
    with open_test_ledger(spark, warehouse) as ledger:
        born = Reading(from_offset=0, complete_from=0, complete_from_ms=0)
        readings = {partition: [born] for partition in range(PARTITIONS)}
        write_source(
            ledger.storage, ledger.cluster, LedgerSource(CAPTURE, TopicIdentity("c", "t", PARTITIONS), readings)
        )
        ledger.create(*TABLES)
        write_closed_rows(ledger, case.rows)
        log = GroupLogs(case)
        apply_batch(ledger, log.batch(spark, range(case.groups)))
        apply_batch(ledger, log.next_batch(spark))  # warms up
        seconds = []
        for _ in range(RUNS):
            batch = log.next_batch(spark)
            started = time.perf_counter()
            apply_batch(ledger, batch)
            seconds.append(time.perf_counter() - started)
        metrics = [last_merge(ledger, table) for table in TABLES]
    return Cost(
        statistics.median(seconds),
        sum(int(each.get("num_target_files_scanned", 0)) for each in metrics),
        sum(int(each.get("num_target_files_removed", 0)) for each in metrics),
    )


def last_merge(ledger: Ledger, table: Table) -> dict[str, str]:
    (entry,) = open_table(ledger.warehouse, table).history(1)
    return dict(entry["operationMetrics"]) if entry["operation"] == "MERGE" else {}


# Closed history


def write_closed_rows(ledger: Ledger, rows: int) -> None:
    for table, share in SHARES.items():
        part = rows * share // 100 // COMMITS
        for number in range(COMMITS):
            closed = closed_rows(ledger, table, number * part, part)
            closed.write.format("delta").mode("append").save(ledger.path(table))


def closed_rows(ledger: Ledger, table: Table, first: int, count: int) -> DataFrame:
    """Returns closed rows with the columns that all tables need, one row a second of a thousand groups."""
    number = F.col("id")
    began, ended = F.timestamp_micros(number * SECOND_US), F.timestamp_micros((number + INTERVAL) * SECOND_US)
    values = {
        "cluster": F.lit(ledger.cluster),
        "group_id": F.concat(F.lit("group-"), (number % 1_000).cast("string")),
        "incarnation": F.lit(1),
        "topic": F.lit("orders"),
        "partition": number % 50,
        "generation": number,
        "to_generation": number + 1,
        "revision": F.lit(0),
        "from_offset": number,
        "kafka_offset": number,
        "to_offset": number + INTERVAL,
        "member_id": F.concat(F.lit("member-"), number.cast("string")),
        "is_hole": F.lit(False),
        "is_open": F.lit(0),
        "is_carried_over": F.lit(False),
        **dict.fromkeys(("valid_from", "started_at", "joined_at", "happened_at"), began),
        **dict.fromkeys(("valid_to", "ended_at", "left_at"), ended),
    }
    rows = ledger.spark.range(first, first + count, 1, 2)
    return rows.select(
        *[values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in table.schema]
    )


# Open groups


class GroupLogs:
    """The next records of each group, after all closed rows. Partition p belongs to the member in slot p modulo the
    number of members; with each generation the next slot gets a new member."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._next = case.rows + 2 * INTERVAL
        self._generations = dict.fromkeys(range(case.groups), case.rows + 1)
        self._slots = {
            group: [f"member-{group}-{slot}" for slot in range(case.members)] for group in range(case.groups)
        }

    def next_batch(self, spark: SparkSession) -> DataFrame:
        first = self._next % self._case.groups
        return self.batch(spark, [(first + number) % self._case.groups for number in range(self._case.touched)])

    def batch(self, spark: SparkSession, groups: Any) -> DataFrame:
        rows = [row for group in groups for row in self.rows_of(group)]
        table = pa.Table.from_pylist(rows, schema=arrow_schema(COORDINATOR_RECORDS.schema))
        return spark.createDataFrame(table, COORDINATOR_RECORDS.schema)

    def rows_of(self, group: int) -> Iterator[dict[str, Any]]:
        generation = self._generations[group] = self._generations[group] + 1
        slots = self._slots[group]
        slots[generation % len(slots)] = f"member-{group}-{generation}-new"
        record = group_metadata(generation, slots, "orders", self._case.units, self._next * 1_000)
        yield self._row(group, record_type="group_metadata", record_json=record)
        for partition in range(min(self._case.units, 50)):
            commit = {"topic": "orders", "partition": partition, "offset": generation, "commit_timestamp_ms": 0}
            yield self._row(group, record_type="offset_commit", offset_commit=commit)

    def _row(self, group: int, **fields: Any) -> dict[str, Any]:
        self._next += 1
        return {
            "cluster": "test",
            "kafka_partition": group % PARTITIONS,
            "kafka_offset": self._next,
            "kafka_timestamp": self._next * SECOND_US,
            "is_tombstone": False,
            "group_id": f"group-{group}",
            **fields,
        }


def group_metadata(generation: int, slots: list[str], topic: str, partitions: int, at_ms: int) -> str:
    """Returns the record of a generation. Its members own in turn the partitions of a topic."""
    record = {
        "generation": generation,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": slots[0],
        "current_state_timestamp_ms": at_ms,
        "members": [
            {
                "member_id": member_id,
                "group_instance_id": None,
                "client_id": "bench",
                "client_host": "/127.0.0.1",
                "session_timeout_ms": 45_000,
                "rebalance_timeout_ms": 300_000,
                "consumer_subscription": {"topics": [topic], "owned_partitions": [], "rack_id": None},
                "consumer_assignment": {
                    "assigned_partitions": [{"topic": topic, "partitions": list(range(slot, partitions, len(slots)))}]
                },
            }
            for slot, member_id in enumerate(slots)
        ],
    }
    return json.dumps(record)


if __name__ == "__main__":
    main()

"""Counts the files that each job opens, after a short history and after one ten times as long.

Two ledgers differ only in the length of their history. The same rounds follow in both: a quiet one, in batches that the
driver folds, and one with findings, in batches that Spark's tasks fold. If a job opened another number of files or rows
of a table in the longer ledger, the program prints both numbers and ends with 1. Incidents are final after a day, so
that the short history is longer than what a pass reads of a group that it judges.

    python -m bench.opened_files
"""

from __future__ import annotations

import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.history_cost import Case, GroupLogs
from bench.lag_cost import OFFSETS_PARTITIONS, TOPIC_PARTITIONS, Past, table_rows, write_whole_log
from groupledger.jobs.derive import history, offset_events
from groupledger.jobs.derive.coordinator_faults import coordinator_faults
from groupledger.jobs.derive.groups_to_judge import places
from groupledger.jobs.derive.history import TABLES, update_history
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.lag import group_histories, update_lag
from groupledger.jobs.derive.offset_events import update_offset_events
from groupledger.jobs.ingest.samples import batch_of
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.process.settings import overlaid
from groupledger.jobs.warehouse.task_files import write_here
from groupledger.jobs.warehouse.topic_until import known_until_ms
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_us
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import Completeness, CoordinatorEventKind, LeaveCause, Source
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.opened_files import opened_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from lab.warehouses.opened_files import Opened

    Found = dict[str, dict[str, Opened]]

PAST = Past(groups=6, rounds_a_day=144, rewound_every=3)  # a round in ten minutes
FILES_A_DAY, SHORT_DAYS, LONG_DAYS = 4, 3, 30
DERIVED = {COMMIT_STEPS: "next_at", OFFSET_EVENTS: "happened_at", INCIDENTS: "last_seen_at"}
CLOSED = (GENERATIONS, MEMBERS, ASSIGNMENTS, REBALANCES)
# The first pass reads all of the past. At the second one its findings have settled. Then a round with nothing to find
# comes, which the driver folds, and one with findings, which Spark's tasks fold, when an hour of new rows is due to be
# kept.
SETTLED, QUIET, WITH_FINDINGS = 3, 4, 8


def main() -> None:
    spark = spark_session("groupledger opened files")
    with tempfile.TemporaryDirectory(prefix="groupledger-opened-") as folder:
        short, long = (passes(spark, Path(folder), days) for days in (SHORT_DAYS, LONG_DAYS))
    spark.stop()
    found = grown(short, long)
    for job, table in sorted(set().union(*found)):
        counts = [
            (of_short[job].get(table), of_long[job].get(table)) for of_short, of_long in zip(short, long, strict=True)
        ]
        print(f"{job:<20}{table:<22}{counts}", flush=True)
    sys.exit(1 if any(found) else 0)


def grown(short: tuple[Found, Found], long: tuple[Found, Found]) -> list[set[tuple[str, str]]]:
    """Returns for each round the jobs that opened more, or fewer, files or rows after the longer past, with the
    table."""
    return [
        {
            (job, table)
            for job in of_long
            for table in of_short[job].keys() | of_long[job].keys()
            if of_short[job].get(table) != of_long[job].get(table)
        }
        for of_short, of_long in zip(short, long, strict=True)
    ]


def passes(spark: SparkSession, folder: Path, days: int) -> tuple[Found, Found]:
    """Returns the files that the jobs opened in a quiet round and in one with findings."""
    with final_after_a_day(spark, folder / f"{days}") as ledger:
        write_past(ledger, days)
        first = days * PAST.rounds_a_day
        one_pass(ledger, first)
        for table, column in DERIVED.items():
            split_by_day(ledger, table, column)
        one_pass(ledger, first + SETTLED)
        quiet = one_pass(ledger, first + QUIET)
        ledger.commits.append(COORDINATOR_RECORDS, finding_rows(ledger, first + WITH_FINDINGS))
        with (
            patch.object(history, "RECORDS_PER_DRIVER_FOLD", 1),
            patch.object(offset_events, "RECORDS_PER_DRIVER_FOLD", 1),
        ):
            found = one_pass(ledger, first + WITH_FINDINGS)
        return quiet, found


@contextmanager
def final_after_a_day(spark: SparkSession, warehouse: Path) -> Iterator[Ledger]:
    """Opens a ledger in which incidents are final after a day."""
    with open_test_ledger(spark, warehouse) as ledger:
        yield replace(ledger, settings=overlaid(ledger.settings, {"incidents": {"final_after_s": DAY_MS // 1_000}}))


def one_pass(ledger: Ledger, number: int) -> Found:
    """Adds a round, and runs every job that is due; returns the files that each opened."""
    numbers = np.array([number])
    ledger.commits.append(COORDINATOR_RECORDS, PAST.commits(ledger.cluster, numbers))
    for table, rows in ((GROUP_STATES, group_states), (WATERMARKS, PAST.watermarks)):
        batch = batch_of(ledger, table, int(PAST.at_ms(number)))
        ledger.commits.append(table, rows(ledger.cluster, numbers), batch)
    found: Found = {}
    for name, job in JOBS.items():
        with opened_files(Path(ledger.warehouse)) as opened:
            job(ledger)
        found[name] = opened
    return found


def split_by_day(ledger: Ledger, table: Table, column: str) -> None:
    """Puts rows that a first pass wrote together into a file for each day of a column, as if passes had come all the
    time."""
    rows = ledger.arrow(table)
    days = pc.floor_temporal(rows[column], unit="day")
    parts = [rows.filter(pc.equal(days, day)) for day in pc.unique(days.drop_null())]
    parts.append(rows.filter(pc.is_null(days)))
    files = [
        file for part in parts if part.num_rows for file in write_here(part.combine_chunks(), table, ledger.warehouse)
    ]
    ledger.commits.replace_files(table, ledger.commits.paths(table, {"cluster": ledger.cluster}), files)


JOBS: dict[str, Callable[[Ledger], object]] = {
    "history": lambda ledger: update_history(ledger, threading.Event()),
    "lag": lambda ledger: update_lag(ledger, threading.Event()),
    "offset_events": update_offset_events,
    "coordinator_faults": lambda ledger: coordinator_faults(
        ledger, places(ledger), known_until_ms(ledger)[Source.HISTORY]
    ),
    "incidents": update_incidents,
    "group_histories": group_histories,
    "known_until": known_until_ms,
}


# The past


def write_past(ledger: Ledger, days: int) -> None:
    """Writes days of records, samples, lag, log lines and closed history, a round in each file."""
    partitions = np.arange(OFFSETS_PARTITIONS)
    write_whole_log(ledger)
    numbers = np.arange(0, days * PAST.rounds_a_day, PAST.rounds_a_day // FILES_A_DAY)
    makers: dict[Table, Callable[[str, Any], pa.Table]] = {
        COORDINATOR_RECORDS: PAST.commits,
        WATERMARKS: PAST.watermarks,
        LAG: PAST.lag,
        GROUP_STATES: group_states,
        COORDINATOR_EVENTS: log_lines,
        **{table: closed_rows(table) for table in CLOSED},
    }
    ledger.create(*TABLES, COVERAGE, *makers)
    last_ms = int(PAST.at_ms(numbers[-1]))
    for table, rows in makers.items():
        files = [
            file
            for number in numbers
            for file in write_here(rows(ledger.cluster, np.array([number])), table, ledger.warehouse)
        ]
        ledger.commits.add_files(table, files, batch_of(ledger, table, last_ms))
    last = days * PAST.rounds_a_day + 10
    complete = {
        "kafka_partition": partitions,
        "from_offset": partitions * 0,
        "to_offset": partitions * 0 + last * PAST.groups * TOPIC_PARTITIONS,
        "from_time": partitions * 0 + PAST.at_ms(0) * 1_000,
        "to_time": partitions * 0 + PAST.at_ms(last) * 1_000,
        "completeness": [Completeness.COMPLETE] * OFFSETS_PARTITIONS,
    }
    ledger.commits.append(COVERAGE, table_rows(COVERAGE, ledger.cluster, complete))


def group_states(cluster: str, numbers: Any) -> pa.Table:
    at_ms = PAST.at_ms(np.repeat(numbers, PAST.groups))
    return table_rows(
        GROUP_STATES,
        cluster,
        {
            "sampled_at": at_ms * 1_000,
            "sample_date": at_ms // DAY_MS,
            "group_id": [f"group-{each}" for each in range(PAST.groups)] * len(numbers),
            "state": ["Empty"] * len(at_ms),
        },
    )


def log_lines(cluster: str, numbers: Any) -> pa.Table:
    at_ms = PAST.at_ms(numbers)
    return table_rows(
        COORDINATOR_EVENTS,
        cluster,
        {
            "source_file": ["server.log"] * len(numbers),
            "line_number": numbers,
            "logged_at": at_ms * 1_000,
            "logged_date": at_ms // DAY_MS,
            "kind": [CoordinatorEventKind.PARTITION_LOADED] * len(numbers),
            "kafka_partition": np.ones(len(numbers), int),
        },
    )


def closed_rows(table: Table) -> Callable[[str, Any], pa.Table]:
    """Returns a function that makes rows that ended in a round, one for each group."""

    def rows(cluster: str, numbers: Any) -> pa.Table:
        number = np.repeat(numbers, PAST.groups)
        ended_us, count = PAST.at_ms(number) * 1_000, len(number)
        began_us = ended_us - 60_000_000
        values = {
            "group_id": [f"group-{each}" for each in range(PAST.groups)] * len(numbers),
            "topic": ["topic-0"] * count,
            "leave_cause": [LeaveCause.REPLACED] * count,
            "member_id": [f"member-{each}" for each in number],
            **dict.fromkeys(("incarnation", "partition", "revision"), np.ones(count, int)),
            **dict.fromkeys(("generation", "to_generation", "from_offset", "kafka_offset", "to_offset"), number),
            **dict.fromkeys(("is_hole", "is_carried_over"), np.zeros(count, bool)),
            "is_open": np.zeros(count, int),
            **dict.fromkeys(("valid_from", "started_at", "joined_at"), began_us),
            **dict.fromkeys(("valid_to", "ended_at", "left_at", "happened_at"), ended_us),
        }
        return table_rows(table, cluster, {name: of for name, of in values.items() if name in table.schema.names})

    return rows


# A round with findings


def finding_rows(ledger: Ledger, number: int) -> pa.Table:
    """Returns records in which two members join group-1 and group-0 goes back."""
    logs = GroupLogs(Case("", 0, groups=2, members=2, units=4, touched=1))
    at_us = (int(PAST.at_ms(number)) - 1) * 1_000
    first = number * PAST.groups * TOPIC_PARTITIONS
    rows = [
        {**row, "kafka_partition": 1, "kafka_offset": first, "kafka_timestamp": at_us, "cluster": ledger.cluster}
        for row in logs.rows_of(1)
        if row["record_type"] == "group_metadata"
    ]
    of_commit = {"record_type": "offset_commit", "record_json": None, "group_id": "group-0", "kafka_partition": 0}
    back = {"topic": "topic-0", "partition": 0, "offset": 1, "commit_timestamp_ms": at_us // 1_000}
    rows.append({**rows[0], **of_commit, "kafka_offset": first + 2, "offset_commit": back})
    day = instant_of_us(at_us).date()
    return pa.Table.from_pylist([{**row, "ingest_date": day} for row in rows], arrow_schema(COORDINATOR_RECORDS.schema))


if __name__ == "__main__":
    main()

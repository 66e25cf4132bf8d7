"""What the commands that ask the warehouse share: one cluster's rows, and how answers are shown.

Rows come as dicts whose instants are aware datetimes in UTC; JSON is one object a line, ASCII only, so that no name can
do anything to a terminal.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import print_table, printable
from groupledger.jobs.warehouse.warehouse import read_table, table_exists
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.logs.rebalance_triggers import with_triggers, without_triggers
from groupledger.transforms.offsets.offset_commits import commit_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

Answer = dict[str, Any]


@dataclass(frozen=True)
class Warehouse:
    """The rows of one cluster."""

    spark: SparkSession
    path: str
    cluster: str

    def rows(self, table: Table) -> DataFrame:
        return read_table(self.spark, self.path, table).where(F.col("cluster") == F.lit(self.cluster))

    def of_group(self, table: Table, name: str) -> DataFrame:
        return self.rows(table).where(F.col("group_id") == F.lit(name))

    def rebalances(self, name: str | None = None) -> DataFrame:
        """With what the server log says started them: the columns of `TRIGGER`, null where no imported log tells it."""
        rows = self.rows(REBALANCES) if name is None else self.of_group(REBALANCES, name)
        if not table_exists(self.spark, self.path, COORDINATOR_EVENTS):
            return without_triggers(rows)
        events = read_table(self.spark, self.path, COORDINATOR_EVENTS).where(F.col("cluster") == F.lit(self.cluster))
        return with_triggers(rows, events if name is None else events.where(F.col("group_id") == F.lit(name)))

    def group(self, name: str) -> Answer:
        """Its row in `groups`."""
        found = collect(self.of_group(GROUPS, name))
        if not found:
            raise no_group(self.cluster, name)
        return found[0]

    def commits(self) -> DataFrame:
        return commit_log(self.rows(COORDINATOR_RECORDS))

    def coverage(self, *kafka_partitions: int) -> list[Answer]:
        return collect(self.rows(COVERAGE).where(F.col("kafka_partition").isin(*kafka_partitions)))

    def known_until(self) -> datetime:
        """The latest instant that the ledger knows of: what "now" is, in an answer about now."""
        (latest,) = collect(self.rows(COVERAGE).agg(F.max("to_time").alias("at")))
        at: datetime | None = latest["at"]
        if at is None:
            raise InputError("The ledger has not read any log to its end yet: run `groupledger ingest` again.")
        return at


def no_group(cluster: str, name: str) -> InputError:
    return InputError(
        f"The ledger of cluster {cluster} knows nothing of the group {printable(name)}: check the name, give --cluster,"
        " or run `groupledger ingest` and `groupledger history`."
    )


def collect(rows: DataFrame) -> list[Answer]:
    """By way of Arrow, which keeps the zone of instants; Spark's own rows have none."""
    found: list[Answer] = rows.toArrow().to_pylist()
    return found


def within(rows: DataFrame, column: str, since: datetime | None, until: datetime | None) -> DataFrame:
    if since is not None:
        rows = rows.where(F.col(column) >= F.lit(since))
    return rows if until is None else rows.where(F.col(column) < F.lit(until))


def print_answers(title: str, columns: Sequence[str], answers: Iterable[Answer], *, as_json: bool) -> None:
    """JSON has all that an answer holds, the table the columns."""
    if as_json:
        print_json(answers)
    else:
        # Spaces, so that a narrow terminal breaks the headings between words.
        print_table(
            title,
            [name.replace("_", " ") for name in columns],
            ([_cell(answer[name]) for name in columns] for answer in answers),
        )


def print_answer(title: str, answer: Answer) -> None:
    """One answer, a line for each of its fields that has a value."""
    print_table(title, ("what", "value"), [(name, _cell(value)) for name, value in answer.items() if value is not None])


def print_json(answers: Iterable[Answer]) -> None:
    for answer in answers:
        sys.stdout.write(json.dumps(answer, separators=(",", ":"), default=iso) + "\n")


def _cell(value: object) -> object:
    return iso(value) if isinstance(value, datetime) else value

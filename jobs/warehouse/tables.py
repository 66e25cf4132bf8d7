"""Reads the Delta tables of a warehouse for all jobs: paths, rows and versions.

Reading never creates a table. A table that does not exist is an InputError that names the command which writes it, or
an empty frame where a job can do without it (`rows_if_any`). Tables are created by their writers (`Ledger.create`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.outside import of_the_table
from groupledger.jobs.warehouse.delta_log import dataset, few_rows, has_row, open_table, rows_where, table_uri
from groupledger.jobs.warehouse.migrate import with_all_columns
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.table import IS_OPEN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

Condition: TypeAlias = Callable[[Callable[[str], Any]], Any]
"""A condition for rows that is written once for Spark and for pyarrow. It gets a function that makes a column of a name
(`F.col` or `pc.field`), and returns an expression that compares columns with values of Python."""
ROWS_OF_DICTS = 5_000
NAMED_MAX = 1_000
"""At most so many names become part of a condition, to leave files out. With more names, all rows are read."""


def every_row(_: Callable[[str], Any]) -> bool:
    """Returns True: this `Condition` holds for all rows."""
    return True


def is_open(column: Callable[[str], Any]) -> Any:
    """Returns the expression for rows that have not ended (a `Condition`)."""
    return column(IS_OPEN.name) == 1


def ended_since(table: Table, since_ms: int) -> Condition:
    """Returns the condition for the rows of a table with an `end_column` that are open, or ended at an instant or
    later."""
    since = instant_of_ms(since_ms)
    return lambda column: is_open(column) | (column(str(table.end_column)) >= since)


def is_among(column: str, names: Iterable[str]) -> pc.Expression:
    """Returns the condition of pyarrow that a column has one of some names, of which there may be none."""
    return pc.field(column).isin(pa.array([*names], pa.string()))


@dataclass(frozen=True)
class Tables:
    """The tables of a warehouse (a directory or a URI), with the rows of all clusters."""

    spark: SparkSession
    warehouse: str

    def path(self, table: Table) -> str:
        return f"{self.warehouse.rstrip('/')}/{table.name}"

    def exists(self, table: Table) -> bool:
        return DeltaTable.is_deltatable(table_uri(self.warehouse, table))

    def existing(self) -> list[Table]:
        """Returns the tables that exist in the warehouse. Raises InputError if there are none."""
        found = [table for table in all_tables() if self.exists(table)]
        if not found:
            raise InputError(
                f"The warehouse {self.warehouse} has no tables: check the path, or run `groupledger ingest` first."
            )
        return found

    def rows(self, table: Table, version: int | None = None) -> DataFrame:
        """Returns the rows of a table, as it is now or as it was in `version`. Raises InputError if the table does not
        exist."""
        self.require(table)
        return self._load(table, version)

    def require(self, table: Table) -> None:
        """Raises InputError if a table does not exist."""
        if not self.exists(table):
            self.existing()
            raise InputError(
                f"The warehouse {self.warehouse} has no table {table.name} yet: run `groupledger {table.written_by}`"
                " first."
            )

    def rows_if_any(self, table: Table) -> DataFrame:
        """Returns the rows of a table, or an empty frame if the table does not exist."""
        return self._load(table) if self.exists(table) else self.empty(table)

    def empty(self, table: Table) -> DataFrame:
        return self.spark.createDataFrame([], table.schema)

    def rows_within(self, table: Table, condition: Condition, version: int | None = None) -> DataFrame:
        """Returns the rows that match a condition, of the table as it is now or as it was in `version`. Without a
        version, returns an empty frame if the table does not exist."""
        rows = self.rows_if_any(table) if version is None else self.rows(table, version)
        return rows.where(of_spark(condition))

    def rows_named(
        self, table: Table, column: str, names: Collection[str], condition: Condition = every_row
    ) -> DataFrame:
        """Returns the rows that have one of `names` in `column` and match a condition. If there are more than NAMED_MAX
        names, returns all rows that match the condition. If there is no name, or no table, returns an empty frame."""
        if not names:  # pyarrow knows no type for an empty list
            return self.empty(table)
        if len(names) > NAMED_MAX:
            return self.rows_within(table, condition)
        return self.rows_within(table, lambda of: of(column).isin([*names]) & condition(of))

    def version(self, table: Table) -> int:
        """Returns the number of the last commit in the table's Delta log."""
        return open_table(self.warehouse, table).version()

    def _load(self, table: Table, version: int | None = None) -> DataFrame:
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return with_all_columns(reader.load(self.path(table)), table)


@dataclass(frozen=True)
class ClusterTables(Tables):
    """The tables of a warehouse, limited to the rows of one cluster."""

    cluster: str

    def arrow(self, table: Table, condition: Any = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the cluster's rows that match a pyarrow expression, without Spark. `columns` are the columns to
        return; None stands for all."""
        is_ours = pc.field("cluster") == self.cluster
        wanted = is_ours if condition is None else is_ours & condition
        with of_the_table(table_uri(self.warehouse, table)):
            found = rows_where(dataset(self.warehouse, table, condition=wanted), wanted)
        return found if columns is None else found.select(list(columns))

    def rows_within(self, table: Table, condition: Condition, version: int | None = None) -> DataFrame:
        """Returns the cluster's rows that match a condition; an empty frame if the table does not exist.

        Few rows are read in the driver and passed to Spark. For each scan of a Delta table in a plan Spark runs a job
        to choose the files; if there are few new rows, such jobs take most of the time of a pass.
        """
        if not self.exists(table):
            return self.rows_if_any(table)
        found = few_rows(self.warehouse, table, (pc.field("cluster") == self.cluster) & condition(pc.field), version)
        if found is None:
            return super().rows_within(table, condition, version)
        today = arrow_schema(table.schema)
        known = pa.schema([today.field(name) for name in found.schema.names if name in today.names])
        return with_all_columns(frame_of(self.spark, found.select(known.names).cast(known)), table)

    def row_count(self, table: Table) -> int:
        """Returns how many rows the cluster has in a table that is partitioned by cluster, by the table's log."""
        added = pa.table(open_table(self.warehouse, table).get_add_actions(flatten=True))
        if not added.num_rows:
            return 0
        is_ours = pc.equal(added["partition.cluster"], self.cluster)
        return pc.sum(added.filter(is_ours)["num_records"]).as_py() or 0

    def has_rows(self, table: Table) -> bool:
        """Returns whether the cluster has a row in a table, without Spark."""
        with of_the_table(table_uri(self.warehouse, table)):
            return self.exists(table) and has_row(dataset(self.warehouse, table), "cluster", self.cluster)

    def _load(self, table: Table, version: int | None = None) -> DataFrame:
        return super()._load(table, version).where(F.col("cluster") == F.lit(self.cluster))


def of_spark(condition: Condition) -> Any:
    """Returns a condition as a column of Spark."""
    found = condition(F.col)
    return F.lit(found) if isinstance(found, bool) else found


def is_null(column: Any) -> Any:
    """Returns the condition that a column, of Spark or of pyarrow, is null."""
    return column.is_null() if isinstance(column, pc.Expression) else column.isNull()


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Returns Arrow rows as a Spark frame, in a single batch. Spark 4.0 takes an empty batch for the end, and drops all
    later rows silently; files without a matching row give such batches. Spark would also make a task of each batch."""
    return spark.createDataFrame(rows.combine_chunks())


def collect(rows: DataFrame) -> list[dict[str, Any]]:
    """Returns the rows as dicts, converted by Arrow: it keeps the time zone of instants, which Spark's own rows
    lose."""
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return found


def dicts_in_order(rows: pa.Table, *columns: str) -> Iterator[dict[str, Any]]:
    """Yields Arrow rows as dicts, in the order of some columns. Only some thousands are dicts at a time, since a dict
    takes several times the memory of a row of Arrow. To sort here, and not in Spark, saves Spark a second look at all
    that the rows are made of."""
    ordered = rows.sort_by([(column, "ascending") for column in columns])
    for batch in ordered.to_batches(max_chunksize=ROWS_OF_DICTS):
        yield from batch.to_pylist()


def not_a_pattern(path: str) -> str:
    """Returns the path with its wildcards escaped, since Spark's file source treats every path as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)

"""The one handle by which jobs read the Delta tables of a warehouse: their paths, rows and versions.

Reading never makes a table. A table that is not there is an InputError that names the command which writes it, or an
empty frame where a job can do without it (`rows_if_any`). Tables are made by those who write them (`Ledger.create`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.delta_log import dataset, open_table, table_uri
from groupledger.jobs.warehouse.migrate import with_all_columns
from groupledger.schemas.tables.all_tables import all_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table


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
        """Returns the tables that are there. Raises InputError if there are none."""
        found = [table for table in all_tables() if self.exists(table)]
        if not found:
            raise InputError(
                f"The warehouse {self.warehouse} has no tables: check the path, or run `groupledger ingest` first."
            )
        return found

    def rows(self, table: Table, version: int | None = None) -> DataFrame:
        """Returns the rows of a table, as of now or of a version. Raises InputError if the table is not there."""
        if not self.exists(table):
            self.existing()
            raise InputError(
                f"The warehouse {self.warehouse} has no table {table.name} yet: run `groupledger {table.written_by}`"
                " first."
            )
        return self._load(table, version)

    def rows_if_any(self, table: Table) -> DataFrame:
        """Returns the rows of a table, or an empty frame if the table is not there."""
        return self._load(table) if self.exists(table) else self.spark.createDataFrame([], table.schema)

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
    """The same tables, with the rows of one cluster."""

    cluster: str

    def arrow(self, table: Table, condition: Any = None, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the cluster's rows for which an expression of pyarrow holds, without Spark."""
        is_ours = pc.field("cluster") == self.cluster
        wanted = is_ours if condition is None else is_ours & condition
        return dataset(self.warehouse, table).to_table(columns=columns and list(columns), filter=wanted)

    def rows_of_group(self, table: Table, group_id: str) -> DataFrame:
        return self.rows(table).where(F.col("group_id") == F.lit(group_id))

    def _load(self, table: Table, version: int | None = None) -> DataFrame:
        return super()._load(table, version).where(F.col("cluster") == F.lit(self.cluster))


def is_one_of(name: str, texts: Iterable[str]) -> pc.Expression:
    """Returns the condition that a column of texts has one of some values, for `ClusterTables.arrow`.

    The files that delta-rs's merges write hold texts as views, which pyarrow does not compare with texts.
    """
    return pc.field(name).cast(pa.string()).isin(pa.array(list(texts), pa.string()))


def collect(rows: DataFrame) -> list[dict[str, Any]]:
    """Returns the rows as dicts, by way of Arrow: it keeps the zone of instants, and Spark's own rows have none."""
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return found


def not_a_pattern(path: str) -> str:
    """Returns the path with its wildcards escaped, since Spark's file source takes every path for a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)

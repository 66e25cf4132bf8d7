"""Imports sampling rounds from the files that `simulate` writes beside a capture, one row for each row of the tables.

    DIR/watermarks/*.parquet      sampled_at_ms, and columns of `watermarks`
    DIR/group_states/*.parquet    sampled_at_ms, and columns of `group_states`

Columns that a file lacks are null; columns that the table lacks are left out. Rounds up to the last one of the table
are left out too: if the same files are imported again, or longer files of the same cluster, no row is added twice.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from groupledger.jobs.ingest.ingest_capture import files_pattern
from groupledger.jobs.ingest.samples import SAMPLE_TABLES, batch_of, last_sampled_at_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.upsert import append
from groupledger.schemas.tables.table import CLUSTER
from groupledger.schemas.tables.watermarks import SAMPLE_DATE, SAMPLED_AT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

SAMPLED_AT_MS = "sampled_at_ms"


def import_samples(ledger: Ledger, directory: str) -> None:
    """Adds the new rounds to the tables. Raises InputError if the files are missing, lack a column of the key, or have
    rows without a key."""
    new = [(table, new_rows(ledger, table, f"{directory.rstrip('/')}/{table.name}")) for table in SAMPLE_TABLES]
    ledger.create(*SAMPLE_TABLES)
    for table, rows in new:
        count, last_ms = rows.agg(F.count(F.lit(1)), F.unix_millis(F.max(SAMPLED_AT.name))).collect()[0]
        if count:
            append(ledger, table, rows.coalesce(1), batch_of(ledger, table, last_ms))
        ledger.say(f"{count:,} rows added to {table.name}")


def new_rows(ledger: Ledger, table: Table, directory: str) -> DataFrame:
    try:
        rows = ledger.spark.read.parquet(files_pattern(directory))
    except AnalysisException as error:
        raise InputError(f"{directory} holds no Parquet files: give the directory that `simulate` wrote.") from error
    types = dict(rows.dtypes)
    key = [name for name in table.key if name not in (CLUSTER.name, SAMPLED_AT.name)]
    if types.get(SAMPLED_AT_MS) != "bigint" or any(name not in types for name in key):
        raise InputError(
            f"The files in {directory} are no samples: they need the columns {SAMPLED_AT_MS}, {', '.join(key)}."
        )
    sampled_at = F.timestamp_millis(SAMPLED_AT_MS)
    given = {CLUSTER.name: F.lit(ledger.cluster), SAMPLED_AT.name: sampled_at, SAMPLE_DATE.name: F.to_date(sampled_at)}
    columns = [
        given.get(field.name, F.col(field.name) if field.name in types else F.lit(None)).cast(field.dataType)
        for field in table.schema
    ]
    has_no_key = reduce(or_, [F.isnull(name) for name in (SAMPLED_AT_MS, *key)])
    if not rows.where(has_no_key).isEmpty():
        raise InputError(f"The files in {directory} hold rows without {SAMPLED_AT_MS} or {' or '.join(key)}.")
    new = rows.where(F.col(SAMPLED_AT_MS) > last_sampled_at_ms(ledger, table))
    return new.select(*[column.alias(name) for column, name in zip(columns, table.schema.names, strict=True)])

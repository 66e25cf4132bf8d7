"""`quality_results`: the results of the expectations of `conf/quality`, a row for each of them in each pass of
`pipeline` that ends with `quality`.

The table has no values from the checked rows, only counts.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

QUALITY_RESULTS = Table(
    name="quality_results",
    comment="One row for each expectation about a table and each time that it was checked.",
    written_by="pipeline",
    key=("cluster", "checked_at", "table_name", "expectation"),
    statistics_columns=("cluster", "checked_at", "table_name"),
    partition_columns=("checked_date",),
    fixed_time_column="checked_at",
    schema=struct(
        CLUSTER,
        column("checked_at", T.TimestampType(), "When the run began; the same for all of its rows."),
        column("table_name", T.StringType(), "The table."),
        column("expectation", T.StringType(), "Its name: a rule of conf/quality, or the type and the columns."),
        column("description", T.StringType(), "The expectation, and its reason."),
        column("is_success", T.BooleanType(), "It held."),
        column("checked_rows", T.LongType(), "Rows that were looked at; null if the check could not be made."),
        column("unexpected_rows", T.LongType(), "Rows for which it did not hold; null if the check could not be made."),
        column("error", T.StringType(), "Why the check could not be made; else null."),
        column("engine", T.StringType(), "What looked at the rows: pandas; spark in rows of older releases."),
        column("checked_date", T.DateType(), "UTC date of checked_at."),
    ),
)

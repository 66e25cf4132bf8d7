"""`quality_results`: what the expectations of `conf/quality` found, a row for each of them in each run.

No value from the checked rows is kept here, only counts.
"""

from pyspark.sql.types import BooleanType, DateType, LongType, StringType, StructType, TimestampType

from groupledger.schemas.tables.table import CLUSTER, Table, column

QUALITY_RESULTS = Table(
    name="quality_results",
    comment="One row for each expectation about a table and each time that it was checked.",
    written_by="quality",
    key=("cluster", "checked_at", "table_name", "expectation"),
    statistics_columns=("cluster", "checked_at", "table_name"),
    partition_columns=("checked_date",),
    fixed_time_column="checked_at",
    schema=StructType(
        [
            CLUSTER,
            column("checked_at", TimestampType(), "When the run began; the same for all of its rows."),
            column("table_name", StringType(), "The table."),
            column("expectation", StringType(), "Its name: a rule of conf/quality, or the type and the columns."),
            column("description", StringType(), "What is expected, and why."),
            column("is_success", BooleanType(), "It held."),
            column("checked_rows", LongType(), "Rows that were looked at; null if the check could not be made."),
            column("unexpected_rows", LongType(), "Rows for which it did not hold; null as above."),
            column("error", StringType(), "Why the check could not be made; else null."),
            column("engine", StringType(), "What looked at the rows: pandas, or spark if there are many."),
            column("checked_date", DateType(), "UTC date of checked_at."),
        ]
    ),
)

"""`what_if_runs`: one row for each what-if whose answers were stored in `what_if_effects`: the question, and its
time."""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

RUN_ID = column("run_id", T.StringType(), "The run, a random UUID.")

WHAT_IF_RUNS = Table(
    name="what_if_runs",
    comment="One row for each run of what-if whose answers were kept.",
    written_by="what-if",
    key=("cluster", "run_id"),
    statistics_columns=("cluster", "run_id", "ran_at"),
    fixed_time_column="ran_at",
    schema=struct(
        CLUSTER,
        RUN_ID,
        column("ran_at", T.TimestampType(), "When it was asked."),
        column("since", T.TimestampType(), "What happened from then on was played."),
        column("until", T.TimestampType(), "What happened before then was played."),
        column(
            "settings",
            T.ArrayType(T.StringType()),
            "Settings asked for, as differences from those of each group.",
        ),
        column(
            "told_setting",
            T.StringType(),
            "Settings of groups that the command was given and no record shows.",
        ),
        column("groups", T.IntegerType(), "Groups that were asked about."),
        column("groups_told", T.IntegerType(), "Groups for which at least one setting can be computed."),
    ),
)

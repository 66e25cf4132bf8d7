"""`what_if_effects`: the figures of a group, observed and simulated under another setting, side by side.

Each figure has intervals: observed by the ledger, simulated with the actual setting, simulated with the other setting,
and the saving (below 0: an additional cost). A row with a refusal has no figures.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, Table, column, struct
from groupledger.schemas.tables.what_if_runs import RUN_ID

INTERVALS = struct(
    *(
        column(f"{name}_{bound}", T.DoubleType(), f"{words}: at {at}.")
        for name, words in (
            ("observed", "The ledger's own numbers"),
            ("replayed", "What the replay of the actual setting came to"),
            ("asked", "What the setting asked for would have come to"),
            ("spared", "What it would have avoided"),
        )
        for bound, at in (("low", "least"), ("high", "most"))
    )
)

WHAT_IF_EFFECTS = Table(
    name="what_if_effects",
    comment="One row for each run of what-if, group and setting: what it would have avoided, or why not known.",
    written_by="what-if",
    key=("cluster", "run_id", "group_id", "setting"),
    statistics_columns=("cluster", "run_id", "group_id"),
    fixed_time_column="ran_at",
    schema=struct(
        CLUSTER,
        RUN_ID,
        GROUP_ID,
        column("setting", T.StringType(), "The setting that was asked for, as a difference from that of the group."),
        column("ran_at", T.TimestampType(), "When it was asked."),
        column("actual_setting", T.StringType(), "What the group has; null if it could not be replayed."),
        column("asked_setting", T.StringType(), "The same with what was asked for."),
        column("runs", T.IntegerType(), "How many scripts that the ledger allows were played under each setting."),
        column("replay_error", T.DoubleType(), "How far the replayed rebalances are from the observed, as a share."),
        column("refusal", T.StringType(), "Why it can't be computed; null if it can."),
        column("rebalances", INTERVALS, "Increments of the generation or epoch."),
        column("partitions_moved", INTERVALS, "Partitions that were given to another member."),
        column("stopped_partition_seconds", INTERVALS, "How long partitions had nobody while a process was up."),
        column(
            "records_processed_twice",
            INTERVALS,
            "With commits every five seconds; null if the rate is not known.",
        ),
    ),
)

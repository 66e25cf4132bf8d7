"""`rebalance_stats`: how often and how hard a classic group rebalances, by hour and by day (UTC).

A row is computed from the rows of `rebalances`, `members` and `assignments` in its window, and again whenever one of
these changes. A window in which nothing happened has no row. `transforms.history.rebalance_stats` has the rules of
storms and flapping, whose parameters are the settings under `history`.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, TOPIC_PARTITION, Table, column, struct

FLAPPING_MEMBER = struct(
    column("group_instance_id", T.StringType(), "Instance id of a static member; null for a dynamic one."),
    column("client_id", T.StringType(), "The client's name for itself; null for a static member."),
    column("client_host", T.StringType(), "Its address; null for a static member."),
    column("short_tenures", T.IntegerType(), "Short tenures that ended in the window."),
)

FLAPPING_PARTITION = struct(
    *TOPIC_PARTITION,
    column("owners_lost", T.IntegerType(), "Intervals of ownership that ended in the window."),
)

REBALANCE_STATS = Table(
    name="rebalance_stats",
    comment="One row for each classic group and hour or day in which it rebalanced: frequency, churn, storms.",
    written_by="history",
    key=("cluster", "group_id", "window", "window_start"),
    statistics_columns=("cluster", "group_id", "window", "window_start"),
    fixed_time_column="window_start",
    schema=struct(
        CLUSTER,
        GROUP_ID,
        column("window", T.StringType(), "hour or day."),
        column("window_start", T.TimestampType(), "The hour or day, in UTC."),
        column("rebalances", T.IntegerType(), "Rebalances with a record; a group's birth does not count."),
        column("births", T.IntegerType(), "Incarnations of the group that began."),
        column("increments_without_record", T.IntegerType(), "Generations in between that have no record."),
        column("cooperative_follow_ups", T.IntegerType(), "Rebalances among them that another one made necessary."),
        column("mean_interval_ms", T.LongType(), "Between rebalances of the window; null if it has fewer than two."),
        column("members_joined", T.IntegerType(), "Members that came."),
        column("members_left", T.IntegerType(), "Members that went."),
        column("members_replaced", T.IntegerType(), "Static members and clients that came back under a new id."),
        column("partitions_moved", T.LongType(), "Partitions (or connectors and tasks) that changed hands."),
        column("pause_lower_ms", T.LongType(), "The lower bounds of all pauses, added up."),
        column("longest_pause_upper_ms", T.LongType(), "The longest time for which the whole group may have stood."),
        column("storms", T.IntegerType(), "Storms that were recognized in the window."),
        column("storm_rebalances", T.IntegerType(), "Rebalances of the window at which there was a storm."),
        column("flapping_member_count", T.IntegerType(), "Members that came and went again and again."),
        column(
            "flapping_members", T.ArrayType(FLAPPING_MEMBER), "The ten worst of them, the worst first; null if none."
        ),
        column("flapping_partition_count", T.IntegerType(), "Partitions that changed hands again and again."),
        column(
            "flapping_partitions",
            T.ArrayType(FLAPPING_PARTITION),
            "The ten worst of them, the worst first; null if none.",
        ),
    ),
)

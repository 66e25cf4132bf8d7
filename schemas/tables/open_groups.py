"""`open_groups`: where the fold of each group stands. Written last, after the rows that it led to.

A crash in between leaves the old state, from which the same rows come again. Records at or below `last_kafka_offset`
are folded already. The state is as large as the group is now, and private to `transforms.history.rules.state`.
"""

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, Table, column

OPEN_GROUPS = Table(
    name="open_groups",
    comment="One row for each group: the state from which its history goes on.",
    written_by="history",
    key=("cluster", "group_id"),
    statistics_columns=("cluster", "group_id", "last_kafka_offset"),
    schema=StructType(
        [
            CLUSTER,
            GROUP_ID,
            column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the group."),
            column("last_kafka_offset", LongType(), "Newest record that is folded in."),
            column("coverage_offset", LongType(), "Start of the newest stretch of coverage that it has met."),
            column("state", StringType(), "The open state, as JSON."),
        ]
    ),
)

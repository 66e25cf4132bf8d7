"""`open_groups`: the state of the fold of each group. A job writes it last, after the rows that the fold produced.

A crash in between leaves the old state, from which the next run folds the same rows again. Records at or below
`last_kafka_offset` are folded already. The state is as large as the group is now, and only
`transforms.history.rules.state` knows its form.

A group whose records can't be folded is set aside: its row stays as it was, and names the release that failed. Later
records must not be folded onto that state. Another release, or a rebuild, folds all the records that the group has
missed.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, KAFKA_PARTITION, Table, column, struct

SET_ASIDE_BY = column(
    "set_aside_by",
    T.StringType(),
    "The release of groupledger that could not fold its records (troubles says why); null while its history goes on.",
)

OPEN_GROUPS = Table(
    name="open_groups",
    comment="One row for each group: the state from which its history goes on.",
    written_by="history",
    key=("cluster", "group_id"),
    statistics_columns=("cluster", "group_id", "last_kafka_offset"),
    schema=struct(
        CLUSTER,
        GROUP_ID,
        KAFKA_PARTITION,
        column("last_kafka_offset", T.LongType(), "Newest record that is folded in."),
        column("coverage_offset", T.LongType(), "Start of the newest stretch of coverage that it has met."),
        column("state", T.StringType(), "The open state, as JSON; null if the group was set aside from the beginning."),
        SET_ASIDE_BY,
    ),
)

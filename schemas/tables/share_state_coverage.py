"""`share_state_coverage`: which stretches of `__share_group_state` the ledger has read; a row for each.

The stretches of a partition follow one another without overlap. A hole has the offsets of records that brokers pruned
before they were read. That is normal: the records after it hold all that the brokers themselves still know. What
happened within the hole is unknown.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, Table, column, struct
from groupledger.schemas.words import Completeness

SHARE_STATE_COVERAGE = Table(
    name="share_state_coverage",
    comment="Which stretches of each __share_group_state partition the ledger has read, and which it has missed.",
    written_by="pipeline",
    key=("cluster", "kafka_partition", "from_offset"),
    statistics_columns=("cluster", "kafka_partition", "from_offset"),
    schema=struct(
        CLUSTER,
        column("kafka_partition", T.IntegerType(), "Partition of __share_group_state."),
        column("from_offset", T.LongType(), "First offset of the stretch."),
        column("to_offset", T.LongType(), "The offset after the last one of the stretch."),
        column("from_time", T.TimestampType(), "When its reading began, or that of the stretch before had ended."),
        column("to_time", T.TimestampType(), "When it was last read to the topic's end; null until then."),
        column(
            "completeness",
            T.StringType(),
            f"{Completeness.COMPLETE}, or {Completeness.UNKNOWN}: pruned before it was read.",
        ),
        column("topic_id", T.StringType(), "Id of the topic; with another one its offsets mean other records."),
    ),
)

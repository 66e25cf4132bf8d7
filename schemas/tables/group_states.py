"""`group_states`: the state of each group as its coordinator reported it, in the same rounds as `watermarks`.

The log of a group never shows that a rebalance is under way (PreparingRebalance, CompletingRebalance), nor that a
member of a KIP-848 group still has to give partitions up (Reconciling): only the coordinator knows. For the history of
members see `generations` and `members`.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, OF_SAMPLES, Table, column, struct
from groupledger.schemas.tables.watermarks import SAMPLE_DATE, SAMPLED_AT
from groupledger.schemas.words import GroupType, one_of, words_of

GROUP_STATES = Table(
    name="group_states",
    comment="One row for each group and sampling round: its state as its coordinator reported it.",
    written_by="pipeline",
    key=("cluster", "sampled_at", "group_id"),
    partition_columns=("sample_date",),
    statistics_columns=("cluster", "sampled_at", "group_id"),
    retention=OF_SAMPLES,
    schema=struct(
        CLUSTER,
        SAMPLED_AT,
        GROUP_ID,
        column("group_type", T.StringType(), f"{one_of(words_of(GroupType))}; null if not reported."),
        column(
            "state",
            T.StringType(),
            "In Kafka's spelling: Stable, Empty, Dead; PreparingRebalance or CompletingRebalance of a classic"
            " group; Assigning or Reconciling of the others; null if the coordinator did not answer.",
        ),
        column("protocol_type", T.StringType(), "consumer, connect, ... of a classic group; empty without members."),
        column("protocol", T.StringType(), "The assignor in use; empty without one."),
        column("member_count", T.IntegerType(), "Members at that moment; null if not reported."),
        column("group_epoch", T.IntegerType(), "The epoch of a KIP-848 group; null of a classic one."),
        column(
            "subscribed_topics",
            T.ArrayType(T.StringType()),
            "Topics that its members subscribe to, sorted; null if not reported or if the members' bytes name none.",
        ),
        column("error", T.StringType(), "Kafka's name of the error with which the question was refused, or null."),
        SAMPLE_DATE,
    ),
)

"""`replay_findings`: contents of records that no coordinator can have written, found by a replay through the reference
coordinator.

One row for each kind of finding in a record; an empty table means that the replay found no contradiction.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import KAFKA_PARTITION, OF_INCARNATION, Table, column, struct
from groupledger.schemas.words import FindingKind, FindingSeverity, one_of, words_of

REPLAY_FINDINGS = Table(
    name="replay_findings",
    comment="What no Kafka broker or assignor can have written, found by replaying the history of each group.",
    written_by="validate",
    key=("cluster", "kafka_partition", "kafka_offset", "finding"),
    statistics_columns=("cluster", "group_id", "kafka_partition", "kafka_offset"),
    schema=struct(
        *OF_INCARNATION,
        column(
            "generation",
            T.IntegerType(),
            "The generation of the record, of a KIP-848 group the epoch in force; null where that is not known.",
        ),
        column("revision", T.IntegerType(), "The revision of the record, or of that epoch."),
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the record."),
        column(
            "finding",
            T.StringType(),
            f"{one_of(words_of(FindingKind))}.",
        ),
        column(
            "severity",
            T.StringType(),
            f"{FindingSeverity.ERROR}: nothing of Kafka's writes this; {FindingSeverity.WARNING}: an assignor chose"
            " otherwise than Kafka's of its name.",
        ),
        column("member_id", T.StringType(), "The member that it is about, the first of several; null if about none."),
        column("topic", T.StringType(), "The topic that it is about, the first of several; null if about none."),
        column("partition", T.IntegerType(), "The partition of that topic; null if about none."),
        column("explanation", T.StringType(), "The finding, in one sentence."),
        column("evidence", T.StringType(), "JSON: everything that the finding is about, by kind."),
    ),
)

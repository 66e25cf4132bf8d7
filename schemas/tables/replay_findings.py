"""`replay_findings`: what a replay of the ledger through the reference coordinator found that can't be true.

One row for each kind of finding in a record; an empty table says that the replay has nothing against the ledger.
"""

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, Table, column
from groupledger.schemas.words import FindingKind, Severity, one_of, words_of

REPLAY_FINDINGS = Table(
    name="replay_findings",
    comment="What no Kafka broker or assignor can have written, found by replaying the history of each group.",
    written_by="validate",
    key=("cluster", "kafka_partition", "kafka_offset", "finding"),
    statistics_columns=("cluster", "group_id", "kafka_partition", "kafka_offset"),
    schema=StructType(
        [
            CLUSTER,
            GROUP_ID,
            column("incarnation", IntegerType(), "Which of the group's lives, counted from 1."),
            column("generation", IntegerType(), "The generation of the record."),
            column("revision", IntegerType(), "The revision of the record."),
            column("kafka_partition", IntegerType(), "Partition of __consumer_offsets that holds the record."),
            column("kafka_offset", LongType(), "Offset of the record."),
            column(
                "finding",
                StringType(),
                f"{one_of(words_of(FindingKind))}.",
            ),
            column(
                "severity",
                StringType(),
                f"{Severity.ERROR}: nothing of Kafka's writes this; {Severity.WARNING}: an assignor chose otherwise"
                " than Kafka's of its name.",
            ),
            column("member_id", StringType(), "The member that it is about, the first of several; null if about none."),
            column("topic", StringType(), "The topic that it is about, the first of several; null if about none."),
            column("partition", IntegerType(), "The partition of that topic; null if about none."),
            column("explanation", StringType(), "What is wrong, in one sentence."),
            column("evidence", StringType(), "JSON: everything that the finding is about, by kind."),
        ]
    ),
)

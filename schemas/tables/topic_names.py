"""`topic_names`: names of topic ids, as a request log, a sample of watermarks or a commit that carries both gives them.

Clients of Kafka 4 commit by topic id alone, and the log of such a commit has no name; records of KIP-848 groups have
none either. An id is never used again, and a topic keeps its name.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

TOPIC_NAMES = Table(
    name="topic_names",
    comment="One row for each topic id that records or requests name, and what the topic is called.",
    written_by="history",
    key=("cluster", "topic_id"),
    statistics_columns=("cluster", "topic_id"),
    schema=struct(
        CLUSTER,
        column("topic_id", T.StringType(), "The topic's id, 22 characters, as Kafka writes it."),
        column("topic", T.StringType(), "Its name; null until it is known."),
        column(
            "is_awaited",
            T.BooleanType(),
            "The history has rows that hold the id in place of the name; it renames them when it learns the name.",
        ),
    ),
)

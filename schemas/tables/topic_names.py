"""`topic_names`: names of topic ids, as clients were told them (Metadata answers in the request log).

Clients of Kafka 4 commit by topic id alone, and the log of such a commit has no name. An id is never used again, and a
topic keeps its name: rows never change.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, Table, column, struct

TOPIC_NAMES = Table(
    name="topic_names",
    comment="One row for each topic id whose name was seen in a request log.",
    written_by="import-logs",
    key=("cluster", "topic_id"),
    statistics_columns=("cluster", "topic_id"),
    schema=struct(
        CLUSTER,
        column("topic_id", T.StringType(), "The topic's id, 22 characters, as Kafka writes it."),
        column("topic", T.StringType(), "Its name."),
    ),
)

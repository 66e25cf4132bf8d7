"""`stream_topologies`: the topology of the application of a streams group, and since when it holds.

A topology has an epoch of its own, which the application increases. Regular expressions of source topics are stored as
they are: no record says which topics they match.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import IS_CARRIED_OVER, IS_OPEN, OF_INCARNATION, Table, column, struct

_TOPICS = T.ArrayType(T.StringType())
SUBTOPOLOGY = struct(
    column("subtopology", T.StringType(), "Its id."),
    column("source_topics", _TOPICS, "Topics that it reads, sorted."),
    column("source_topic_regex", _TOPICS, "Regular expressions of topics that it reads, sorted."),
    column("repartition_source_topics", _TOPICS, "Internal topics that it reads, sorted."),
    column("repartition_sink_topics", _TOPICS, "Internal topics that it writes for others, sorted."),
    column("changelog_topics", _TOPICS, "Internal topics that keep its state, sorted."),
)

STREAM_TOPOLOGIES = Table(
    name="stream_topologies",
    comment="One row for each topology that a streams group has had.",
    written_by="history",
    key=("cluster", "group_id", "incarnation", "topology_epoch", "from_offset"),
    statistics_columns=("cluster", "group_id", "incarnation", "topology_epoch", "from_offset", "valid_from"),
    partition_columns=("cluster", "is_open"),
    end_column="valid_to",
    schema=struct(
        *OF_INCARNATION,
        column("topology_epoch", T.IntegerType(), "The topology's own epoch."),
        column("from_offset", T.LongType(), "Offset of its record."),
        column("to_offset", T.LongType(), "Offset of the next one, or of what ended it; null while open."),
        column("subtopologies", T.ArrayType(SUBTOPOLOGY), "Its parts, by id."),
        column("valid_from", T.TimestampType(), "Time of its record."),
        column("valid_to", T.TimestampType(), "Time of the next one, or of what ended it; null while open."),
        column(
            "is_end_known",
            T.BooleanType(),
            "It ended exactly then; false: at the latest, or unknown from then on. Null while open.",
        ),
        IS_CARRIED_OVER,
        IS_OPEN,
    ),
)

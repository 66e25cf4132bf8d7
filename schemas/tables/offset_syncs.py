"""`offset_syncs`: which offset of a mirrored partition is the copy of which offset of its source.

MirrorMaker writes a sync for about every hundredth record that it copies, into a topic of the source cluster (or of the
target, if `offset-syncs.topic.location` says so): `mm2-offset-syncs.ALIAS.internal`. The topic is compacted, so that
only what was read before is left here. A row is stored with the cluster whose broker it was read from.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, PARTITION, Table, column, struct

OFFSET_SYNCS = Table(
    name="offset_syncs",
    comment="One row for each offset sync of MirrorMaker: an offset of a topic, and that of its copy.",
    written_by="pipeline",
    key=("cluster", "syncs_topic", "kafka_partition", "kafka_offset"),
    partition_columns=("ingest_date",),
    statistics_columns=("cluster", "syncs_topic", "kafka_partition", "kafka_offset", "topic"),
    schema=struct(
        CLUSTER,
        column("syncs_topic", T.StringType(), "The topic that MirrorMaker wrote the sync to."),
        column("kafka_partition", T.IntegerType(), "Partition of that topic."),
        column("kafka_offset", T.LongType(), "Offset of the sync in that partition."),
        column("synced_at", T.TimestampType(), "The record's timestamp: when MirrorMaker wrote the sync."),
        column("topic", T.StringType(), "The topic in the source cluster; null if the record can't be decoded."),
        PARTITION,
        column("upstream_offset", T.LongType(), "Offset of a record in the source cluster."),
        column("downstream_offset", T.LongType(), "Offset of its copy in the target cluster."),
        column("decode_error", T.StringType(), "Why the record can't be decoded; null if it is."),
        column("ingest_date", T.DateType(), "UTC date of the pass that wrote the row."),
    ),
)

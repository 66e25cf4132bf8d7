"""`coverage`: how completely the ledger has read `__consumer_offsets`. One row for each stretch of a partition.

The stretches of a partition follow one another without overlap. An answer about an instant that no `complete` stretch
holds is `unknown`. A complete stretch without offsets is of a partition in which nothing was written since it was read.
What a gap between record offsets hides (a marker of a transaction, an aborted transaction, records that were removed)
does not show in the rows: it is judged when they are read (`transforms.coverage.rules.evidence`).
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, OF_STATE, Table, column, struct
from groupledger.schemas.words import Completeness, Proof, one_of, words_of

COVERAGE = Table(
    name="coverage",
    comment="Which stretches of each __consumer_offsets partition the ledger has read, and how completely.",
    written_by="ingest",
    key=("cluster", "kafka_partition", "from_offset"),
    statistics_columns=("cluster", "kafka_partition", "from_offset"),
    retention=OF_STATE,
    schema=struct(
        CLUSTER,
        column("kafka_partition", T.IntegerType(), "Partition of __consumer_offsets."),
        column("from_offset", T.LongType(), "First offset of the stretch."),
        column("to_offset", T.LongType(), "The offset after the last one of the stretch."),
        column(
            "from_time",
            T.TimestampType(),
            "The first instant that the stretch is about; null for the first read of a topic.",
        ),
        column(
            "to_time",
            T.TimestampType(),
            "The last instant of the stretch: everything later comes after it.",
        ),
        column(
            "completeness",
            T.StringType(),
            f"{Completeness.COMPLETE}, {Completeness.COMPACTED} (records may have been removed before it was read) or"
            f" {Completeness.UNKNOWN} (a hole).",
        ),
        column(
            "proof",
            T.StringType(),
            f"What shows that a complete stretch is complete: {one_of(words_of(Proof))} (the last holds for a single"
            " replica); null where an older release has read it. A compacted stretch with a proof has all its records,"
            " and only what was before it may be missing.",
        ),
        column(
            "is_state_lost",
            T.BooleanType(),
            "Groups, members and offsets without a record in the stretch or after it may have ended without a"
            " trace before it: it was read so late that their tombstones may have gone, or the log was cut below it and"
            " has grown again. Null where an older release has read it.",
        ),
    ),
)

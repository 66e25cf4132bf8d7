"""`troubles`: groups on which a step failed, one row for each time that it began to fail on a group.

If a rule fails on data that a group's clients wrote, only that group has no result (`transforms.troubles`). An open row
means that the step still fails. A group with an open trouble of `history` gets no new rows there: its records stay in
`coordinator_records`, and are folded again by another release or by a rebuild. The other steps try again in each pass
that meets the group.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, IS_OPEN, KAFKA_PARTITION, Table, column, struct
from groupledger.schemas.words import TroubledStep, one_of, words_of

TROUBLES = Table(
    name="troubles",
    comment="One row for each group that a step could not judge, from when it failed until it did not.",
    written_by="history",
    key=("cluster", "group_id", "step", "since"),
    statistics_columns=("cluster", "group_id", "step", "since", "ended_at"),
    partition_columns=("cluster", "is_open"),
    end_column="ended_at",
    schema=struct(
        CLUSTER,
        GROUP_ID,
        column("step", T.StringType(), f"What failed: {one_of(words_of(TroubledStep))}."),
        column("since", T.TimestampType(), "When it first failed, by the clock of the job."),
        column("ended_at", T.TimestampType(), "When it no longer did; null while open."),
        column("reason", T.StringType(), "The error, and the line of code that raised it."),
        KAFKA_PARTITION,
        column("kafka_offset", T.LongType(), "Offset of the record at which it failed; null where none is known."),
        column("release", T.StringType(), "The release of groupledger that failed."),
        IS_OPEN,
    ),
)

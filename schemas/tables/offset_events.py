"""`offset_events`: events of committed offsets other than normal progress: reset, expired, deleted, lost.

There is one row for each record with such an event, and for each commit that the start of its topic's log has passed.

A record is compared with the commit before it of the same group and partition, which compaction leaves. An event and
its cause are stated only if the log between the two records is complete. If it is not, the removal of an offset is
`removed`, without a cause, and a commit makes no event. `transforms.offsets.rules.offset_event` has the rules.
"""

from pyspark.sql import types as T

from groupledger.schemas.tables.table import (
    CLUSTER,
    GROUP_ID,
    IS_CARRIED_OVER,
    KAFKA_PARTITION,
    PARTITION,
    TOPIC,
    Table,
    column,
    struct,
)
from groupledger.schemas.words import OffsetEventCause, OffsetEventEvidence, OffsetEventKind, one_of, words_of

OFFSET_EVENTS = Table(
    name="offset_events",
    comment="One row for each time that a committed offset went back, was moved by no member, or was removed.",
    written_by="pipeline",
    key=("cluster", "group_id", "topic", "partition", "kind", "happened_at", "kafka_offset"),
    statistics_columns=("cluster", "group_id", "happened_at", "kafka_offset"),
    fixed_time_column="happened_at",
    schema=struct(
        CLUSTER,
        GROUP_ID,
        TOPIC,
        PARTITION,
        column("kind", T.StringType(), f"{one_of(words_of(OffsetEventKind))}."),
        column("happened_at", T.TimestampType(), "Time of the record that shows it, or of the first sampling round."),
        KAFKA_PARTITION,
        column(
            "kafka_offset",
            T.LongType(),
            "Offset of that record: the commit that moved, or the removal; of a round, the commit that it saw.",
        ),
        column("offset_before", T.LongType(), "The offset committed before; null where that is not known."),
        column(
            "offset_after",
            T.LongType(),
            "The offset committed then, or the first that is left of the log; null for a removal.",
        ),
        column(
            "records_repeated",
            T.LongType(),
            "Offsets that the group reads again, at least; null unless it went back.",
        ),
        column(
            "records_skipped",
            T.LongType(),
            "Offsets that the group was moved over, or that were removed before it read them: at most, since some may"
            " hold no record; null otherwise.",
        ),
        column("cause", T.StringType(), f"{one_of(words_of(OffsetEventCause))}; null if not known."),
        column("evidence", T.StringType(), f"What it rests on: {one_of(words_of(OffsetEventEvidence))}."),
        column("committed_at", T.TimestampType(), "Time of the commit before; null where that is not known."),
        column("commit_kafka_offset", T.LongType(), "Its offset; null where that is not known."),
        column(
            "age_ms",
            T.LongType(),
            "For how long the broker had counted towards the expiry of a removed offset; null where that is not known.",
        ),
        IS_CARRIED_OVER,
    ),
)

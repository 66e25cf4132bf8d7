"""Computes the view `offset_commits`: one accepted offset commit per row, with its generation and its committer.

It is a view, since commits are stored once, in `coordinator_records`. Their records do not name the member, so these
columns follow from the order of the log, never from time:

    committer_generation   the generation that the commit named. In a classic group it is the one in force: the
                           coordinator refuses commits of any other. Two kinds of commit are exceptions: transactional
                           ones without a member id, and those of a generation whose leader never synced, so that it
                           has no record. In a group of KIP-848's kind it is the epoch that the owner had reached, since
                           the coordinator refuses any other of that member; null without an owner. A streams group, and
                           since Kafka 4.3 (KIP-1251) a consumer group, also takes an older epoch, if it is not older
                           than the member's partition: null, unless the owner is still at the epoch at which it got the
                           partition. Null while the group has no members (a simple consumer, or a reset).
    owner                  `assigned`: the partition's owner then. `previous_owner`: nobody owns the partition, and its
                           last owner is still a member: it commits what a cooperative round took from it. `none`:
                           neither of them, or the assignor had given the partition to several members. A static member
                           that is away commits nothing.
    regression             how far the offset is below that of the commit before: read again, or reset. 0 if it is not
                           below; null without a commit before, after a removal, after offset -1, and where the topic
                           was created anew.

A column is null where it can't be known: after the newest record that the history has folded; in a compacted stretch,
where records in between may be gone; after a hole. `committed_offset` is null for offset -1, which Kafka stores but
does not count as a commit. All windows order by kafka_offset, which is unique, since a group lies in one partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.schemas.words import Attribution, Completeness, EndedBy, GroupType
from groupledger.transforms.history.tenures import MEMBER, with_tenure

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COLUMNS = (
    "cluster",
    "kafka_partition",
    "kafka_offset",
    "kafka_timestamp",
    "group_id",
    "topic",
    "partition",
    "committed_offset",
    "leader_epoch",
    "metadata",
    "topic_id",
    "commit_timestamp_ms",
    "incarnation",
    "committer_generation",
    "owner",
    "owner_attribution",
    "regression",
)


def commit_log(coordinator_records: DataFrame) -> DataFrame:
    """Returns one row for each commit and for each removal of an offset. `is_tombstone` marks removals: the offset was
    deleted or expired, or the topic was deleted."""
    is_commit = F.col("record_type").isin(*OFFSET_COMMIT_TYPES) & F.col("decode_error").isNull()
    commit = coordinator_records.where(is_commit).select(
        "cluster", "kafka_partition", "kafka_offset", "kafka_timestamp", "group_id", "is_tombstone", "offset_commit.*"
    )
    return commit.select(
        *("cluster", "kafka_partition", "kafka_offset", "kafka_timestamp", "group_id", "topic", "partition"),
        "is_tombstone",
        F.when(F.col("offset") >= 0, F.col("offset")).alias("committed_offset"),
        F.when(F.col("leader_epoch") >= 0, F.col("leader_epoch")).alias("leader_epoch"),
        "metadata",
        F.when(F.col("topic_id") != ZERO_UUID, F.col("topic_id")).alias("topic_id"),
        "commit_timestamp_ms",
    )


def with_known_from(coverage: DataFrame) -> DataFrame:
    """Returns the stretches of coverage with `known_from`: the offset after the last hole before the stretch, or the
    start of a stretch that lost the state. A commit below that offset may have been removed without a record of it."""
    before = Window.partitionBy("cluster", "kafka_partition").orderBy("from_offset")
    begin = F.when(F.col("completeness") == Completeness.UNKNOWN, F.col("to_offset"))
    begin = begin.when(F.col("is_state_lost"), F.col("from_offset"))
    return coverage.withColumn("known_from", F.coalesce(F.max(begin).over(before), F.lit(0)))


def offset_commits(
    coordinator_records: DataFrame,
    generations: DataFrame,
    assignments: DataFrame,
    members: DataFrame,
    member_epochs: DataFrame,
    groups: DataFrame,
    coverage: DataFrame,
) -> DataFrame:
    """Returns one row for each commit, with `COLUMNS`. To get some groups only, filter the inputs."""
    log = _with_stretch(commit_log(coordinator_records), coverage)
    log = _with_generation(log, generations, groups)
    log = _with_last_owner(log, assignments, members, member_epochs)
    log = _with_owner(_with_step(log, member_epochs))
    return log.where(~F.col("is_tombstone")).select(*COLUMNS)


def _with_stretch(log: DataFrame, coverage: DataFrame) -> DataFrame:
    stretch = with_known_from(coverage).select(
        "cluster", "kafka_partition", "from_offset", "to_offset", "completeness", "known_from"
    )
    joined = log.alias("log").join(
        F.broadcast(stretch).alias("stretch"),
        (F.col("log.cluster") == F.col("stretch.cluster"))
        & (F.col("log.kafka_partition") == F.col("stretch.kafka_partition"))
        & (F.col("log.kafka_offset") >= F.col("stretch.from_offset"))
        & (F.col("log.kafka_offset") < F.col("stretch.to_offset")),
        "left",
    )
    return joined.select(
        "log.*",
        F.coalesce(F.col("completeness") == Completeness.COMPLETE, F.lit(False)).alias("is_complete"),
        F.col("stretch.to_offset").alias("stretch_end"),
        "known_from",
    )


def _newest(column: str, *keys: str, last_row: int = Window.currentRow) -> Column:
    """Returns the newest value of a column up to a row, by log order, in one pass however long the log is."""
    frame = Window.partitionBy(*keys).orderBy("kafka_offset").rowsBetween(Window.unboundedPreceding, last_row)
    return F.last(column, ignorenulls=True).over(frame)


def _with_generation(log: DataFrame, generations: DataFrame, groups: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("cluster", "group_id").orderBy("kafka_offset")
    generation = generations.withColumn("next_incarnation", F.lead("incarnation").over(in_order)).select(
        *("cluster", "group_id", "kafka_offset"),
        F.struct(
            *("incarnation", "generation", "group_type", "member_count", "is_ownership_known"),
            *("to_offset", "ended_by", "next_incarnation"),
        ).alias("stated"),
    )
    first = generations.groupBy("cluster", "group_id").agg(F.min("incarnation").alias("first_incarnation"))
    group = groups.select(
        "cluster",
        "group_id",
        F.col("incarnation").alias("last_incarnation"),
        F.col("last_kafka_offset").alias("folded_to"),
    ).join(first, ["cluster", "group_id"], "left")
    merged = log.unionByName(generation, allowMissingColumns=True)
    found = merged.withColumn("at", _newest("stated", "cluster", "group_id")).where(F.col("is_tombstone").isNotNull())
    found = found.drop("stated").join(group, ["cluster", "group_id"], "left")

    is_folded = F.coalesce(F.col("kafka_offset") <= F.col("folded_to"), F.lit(False))
    is_in_force = F.coalesce(_holds("at", "kafka_offset"), F.lit(False))
    # A compacted stretch has only the newest record of each key: a row is certain there if it held to its end.
    is_exact = F.col("is_complete") | F.coalesce(F.col("at.to_offset") >= F.col("stretch_end"), F.lit(True))
    is_known = is_folded & is_in_force & is_exact
    has_gone = (F.col("at.ended_by") == EndedBy.TOMBSTONE) & ~is_in_force
    earliest = F.coalesce(F.col("at.incarnation") + F.coalesce(has_gone.cast("int"), F.lit(0)), F.lit(1))
    following = F.when(F.col("at").isNull(), F.col("first_incarnation")).otherwise(F.col("at.next_incarnation"))
    latest = F.coalesce(following, F.col("last_incarnation"))
    return found.withColumn(
        "incarnation",
        F.when(is_known, F.col("at.incarnation")).when(is_folded & (earliest == latest), earliest),
    ).withColumn(
        "generation",
        F.when(is_known & (F.col("at.member_count") > 0), F.col("at.generation")),
    )


def _with_last_owner(log: DataFrame, assignments: DataFrame, members: DataFrame, member_epochs: DataFrame) -> DataFrame:
    """Returns the log with the newest interval of the partition as `last`, and the commit before as `before`."""
    taken = member_epochs.select(*MEMBER, "from_offset", F.col("member_epoch").alias("taken_at_epoch"))
    interval = with_tenure(assignments, members, member_to_offset="to_offset")
    interval = interval.join(taken, [*MEMBER, "from_offset"], "left").select(
        *("cluster", "group_id", "topic", "partition"),
        F.col("from_offset").alias("kafka_offset"),
        F.struct(
            *("incarnation", "member_id", "other_member_ids", "to_offset", "member_to_offset"),
            F.when(F.col("is_start_known"), F.col("taken_at_epoch")).alias("taken_at_epoch"),
        ).alias("given"),
    )
    said = F.struct("kafka_offset", "committed_offset", "topic_id", "is_tombstone")
    merged = log.withColumn("said", said).unionByName(interval, allowMissingColumns=True)
    place = ("cluster", "group_id", "topic", "partition")
    found = merged.withColumn("last", _newest("given", *place)).withColumn(
        "before", _newest("said", *place, last_row=-1)
    )
    return found.where(F.col("is_tombstone").isNotNull()).drop("said", "given")


def _with_step(log: DataFrame, member_epochs: DataFrame) -> DataFrame:
    """Returns the log with the step, in force then, of the partition's last owner as `step`, in groups of KIP-848's
    kind."""
    step = member_epochs.select(
        *("cluster", "group_id", "member_id"),
        F.col("from_offset").alias("kafka_offset"),
        F.struct("incarnation", "member_epoch", "to_offset", "names_assignment_epochs").alias("taken"),
    )
    merged = log.withColumn("member_id", F.col("last.member_id")).unionByName(step, allowMissingColumns=True)
    found = merged.withColumn("step", _newest("taken", "cluster", "group_id", "member_id"))
    return found.where(F.col("is_tombstone").isNotNull())


def _with_owner(log: DataFrame) -> DataFrame:
    is_single = (F.col("last.incarnation") == F.col("incarnation")) & (F.size("last.other_member_ids") == 0)
    is_member = F.coalesce(F.col("kafka_offset") < F.col("last.member_to_offset"), F.lit(True))
    is_classic = F.coalesce(F.col("at.group_type") == GroupType.CLASSIC, F.lit(True))
    # In a compacted stretch a step, as a generation, is certain if it held to the end.
    is_exact = F.col("is_complete") | F.coalesce(F.col("step.to_offset") >= F.col("stretch_end"), F.lit(True))
    is_present = (F.col("step.incarnation") == F.col("incarnation")) & (F.col("step.member_epoch") >= 0)
    is_present &= _holds("step", "kafka_offset") & is_exact
    is_previous = F.col("at.is_ownership_known") & is_member & (is_classic | F.col("is_complete"))
    attribution = (
        F.when(F.col("generation").isNull() | ~F.coalesce(is_single, F.lit(False)), Attribution.NONE)
        .when(~is_classic & ~F.coalesce(is_present, F.lit(False)), Attribution.NONE)
        .when(_holds("last", "kafka_offset"), Attribution.ASSIGNED)
        .when(is_previous, Attribution.PREVIOUS_OWNER)
        .otherwise(Attribution.NONE)
    )
    is_owned = F.col("owner_attribution") != Attribution.NONE
    is_at_one_epoch = F.col("last.taken_at_epoch") == F.col("step.member_epoch")
    # An older epoch is accepted only for partitions that the member still has; others it commits with the newest.
    has_one_epoch = ~F.col("step.names_assignment_epochs") | (F.col("owner_attribution") == Attribution.PREVIOUS_OWNER)
    is_modern_known = is_owned & (((F.col("at.group_type") == GroupType.CONSUMER) & has_one_epoch) | is_at_one_epoch)
    # Compaction keeps the last record of each key, so the record before is the true one unless a hole lies between.
    is_comparable = F.col("is_complete") & (F.col("before.kafka_offset") >= F.col("known_from"))
    is_comparable &= F.coalesce(F.col("topic_id") == F.col("before.topic_id"), F.lit(True))
    went_back = F.greatest(F.col("before.committed_offset") - F.col("committed_offset"), F.lit(0))
    return (
        log.withColumn("owner_attribution", attribution)
        .withColumn("owner", F.when(is_owned, F.col("last.member_id")))
        .withColumn(
            "committer_generation",
            F.when(is_classic, F.col("generation")).when(is_modern_known, F.col("step.member_epoch")),
        )
        # greatest() passes over nulls, which here mean that there is nothing to compare.
        .withColumn(
            "regression",
            F.when(
                is_comparable & F.col("before.committed_offset").isNotNull() & F.col("committed_offset").isNotNull(),
                went_back,
            ),
        )
    )


def _holds(row: str, offset: str) -> Column:
    """Returns whether a struct is there and had not ended at an offset."""
    return F.col(row).isNotNull() & (F.col(f"{row}.to_offset").isNull() | (F.col(offset) < F.col(f"{row}.to_offset")))

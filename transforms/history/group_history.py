"""Runs the rules of `transforms.history.rules` in Spark, over rows of `coordinator_records`.

    group_events(records, open_groups, marks)          returns the new events of each group, with its commits summed up
    fold_groups(events, marks, names, ...)             calls the fold for each group; returns the rows to upsert
    by_log(events, marks, names, rule, schema, ...)    calls another rule with the log of each group

All records of a group are in one partition of `__consumer_offsets`, and are ordered by `kafka_offset`. The state of a
group is read from `open_groups` and written there again. A group is folded if it has new records, or if a hole in
coverage begins after its last known record. A group that was set aside is not folded. `marks` has, by partition of
`__consumer_offsets`, the starts of the stretches of coverage that were read, in order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import length_hint, or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from groupledger.schemas.instants import INT64_MAX
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.connect_assignments import CONNECT_ASSIGNMENTS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS, SET_ASIDE_BY
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.share_assignments import SHARE_ASSIGNMENTS
from groupledger.schemas.tables.stream_tasks import STREAM_TASKS
from groupledger.schemas.tables.stream_topologies import STREAM_TOPOLOGIES
from groupledger.schemas.tables.table import IS_CARRIED_OVER, IS_OPEN
from groupledger.schemas.words import GroupType
from groupledger.transforms.by_group import by_group
from groupledger.transforms.history.rules.content import content_of
from groupledger.transforms.history.rules.events import (
    CommitSums,
    Coverage,
    GroupTombstone,
    OtherGroupType,
    group_record,
)
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.numbers import record_ms
from groupledger.transforms.troubles import RULE_ERRORS, AtRecordError, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from groupledger.transforms.history.rules.events import Event, GroupRecord
    from groupledger.transforms.history.rules.modern_records import TopicNames
    from groupledger.transforms.troubles import Report

    Marks = Mapping[int, Sequence[Coverage]]
    RecordEvent = GroupRecord | GroupTombstone | OtherGroupType | CommitSums

HELD_TABLES = (MEMBER_EPOCHS, ASSIGNMENTS, CONNECT_ASSIGNMENTS, SHARE_ASSIGNMENTS, STREAM_TASKS, STREAM_TOPOLOGIES)
"""The tables of what members had, and when. Each row has the offset at which it began, and the offset at which it
ended."""

DERIVED_TABLES = (GENERATIONS, MEMBERS, *HELD_TABLES, REBALANCES, GROUPS)
"""The tables that the fold writes, before `open_groups`."""


OF_THE_JOB = ("cluster", IS_CARRIED_OVER.name, IS_OPEN.name, SET_ASIDE_BY.name)
"""Columns that the job fills, and not the fold."""


FOLDED = StructType([StructField(table.name, table.without(*OF_THE_JOB)) for table in (*DERIVED_TABLES, OPEN_GROUPS)])
"""The schema of the fold's result: one struct for each table, without the columns that the job fills. Each row fills
one of the structs."""
_NO_ROWS = dict.fromkeys(FOLDED.names)

GROUP_METADATA = "group_metadata"
_OTHER_TYPES = (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)
# The other types of group, by the prefix of their record types; the group's own metadata record has its epoch.
OTHER_GROUP_TYPES = {f"{group_type}_group_": group_type for group_type in _OTHER_TYPES}


def group_events(records: DataFrame, open_groups: DataFrame, marks: Marks, *, is_end: bool = False) -> DataFrame:
    """Returns the rows from which `by_log` makes the events of each group that has something new: its open state, its
    records, and summaries of its commits.

    `records` are rows of `coordinator_records` of one cluster, which for an offset commit also have `topic`,
    `partition` and `committed_offset`. A record that could not be decoded belongs to no group, and a record of an
    unknown type is no event. With `is_end` a group without records also has something new if there is any mark that it
    has not met, as it would have if the whole log were folded at once.
    """
    is_aside = F.col(SET_ASIDE_BY.name).isNotNull()
    folded_to = F.when(is_aside, F.lit(INT64_MAX)).otherwise(F.col("last_kafka_offset"))
    guard = open_groups.select("group_id", folded_to.alias("folded_to"))
    open_groups = open_groups.where(~is_aside)
    new = (
        records.where(F.col("decode_error").isNull())
        .join(guard, "group_id", "left")
        .where(F.col("kafka_offset") > F.coalesce("folded_to", F.lit(-1)))
        .withColumn("timestamp_ms", record_ms())
    )
    record_type = F.col("record_type")
    is_of_group = [record_type == GROUP_METADATA, *(record_type.startswith(start) for start in OTHER_GROUP_TYPES)]
    found = new.where(F.col("topic").isNull() & reduce(or_, is_of_group)).select(
        "group_id", "kafka_partition", "kafka_offset", "timestamp_ms", "record_type", "is_tombstone", "record_json"
    )
    found = found.unionByName(_commit_summaries(new, marks), allowMissingColumns=True)
    touched = found.select("group_id").union(open_groups.where(_is_behind(marks, is_end=is_end)).select("group_id"))
    states = open_groups.join(touched.distinct(), "group_id", "left_semi").select(
        "group_id", "kafka_partition", F.lit(-1).cast("long").alias("kafka_offset"), "state"
    )
    return found.unionByName(states, allowMissingColumns=True)


def _commit_summaries(new: DataFrame, marks: Marks) -> DataFrame:
    """Returns a row for the commits of a partition between two events of its group, within one stretch of coverage. A
    commit after a removal of an offset begins others, so that the last removal of several is reported."""
    log = Window.partitionBy("kafka_partition", "group_id").orderBy("kafka_offset")
    is_commit, has_value = F.col("topic").isNotNull(), ~F.col("is_tombstone")
    is_behind_removal = F.coalesce(F.lag(is_commit & ~has_value).over(log), F.lit(False))
    cut = new.withColumn("is_behind_removal", is_behind_removal)
    is_cut = ~is_commit | (has_value & F.col("is_behind_removal"))
    cut = cut.withColumn("segment", F.count_if(is_cut).over(log)).withColumn("stretch", _stretch(marks))

    def first(value: str) -> Column:
        return F.min_by(value, F.when(has_value, F.col("kafka_offset")))

    def last(value: str) -> Column:
        return F.max_by(value, F.when(has_value, F.col("kafka_offset")))

    keys = ("group_id", "kafka_partition", "segment", "stretch", "topic", "partition")
    return (
        cut.where(is_commit)
        .groupBy(*keys)
        .agg(
            F.min("kafka_offset").alias("first_kafka_offset"),
            F.max("kafka_offset").alias("kafka_offset"),
            F.count_if(has_value).alias("commit_count"),
            first("timestamp_ms").alias("first_commit_timestamp_ms"),
            last("timestamp_ms").alias("last_commit_timestamp_ms"),
            first("committed_offset").alias("first_committed_offset"),
            last("committed_offset").alias("last_committed_offset"),
            F.max_by("is_tombstone", "kafka_offset").alias("is_tombstone"),
        )
        .drop("segment", "stretch")
    )


def _stretch(marks: Marks) -> Column:
    """Returns the number of the stretch that a row lies in, counted from 0."""
    number = F.lit(0)
    for partition, starts in marks.items():
        for mark in starts[1:]:
            is_behind = (F.col("kafka_partition") == partition) & (F.col("kafka_offset") >= mark.from_offset)
            number += F.when(is_behind, 1).otherwise(0)
    return number


def _is_behind(marks: Marks, *, is_end: bool) -> Column:
    """Returns whether the log has been read past a hole that the open group's state does not know, and that may hide
    the group's end; with `is_end`, past any mark."""
    found = F.lit(False)
    for partition, starts in marks.items():
        for mark in starts:
            if is_end or mark.hides_ends:
                is_before = F.col("coverage_offset") < mark.from_offset
                found |= (F.col("kafka_partition") == partition) & is_before
    return found


def fold_groups(
    events: DataFrame, marks: Marks, names: TopicNames, report: Report = stop, *, consumer_session_timeout_ms: int
) -> DataFrame:
    """Returns the rows to upsert, in the schema `FOLDED`. A task raises UnknownStateError if a newer version of
    groupledger has written a state. The result may have rows of a group that was reported to `report`; the caller must
    not write them."""

    def fold_group(log: GroupLog) -> Iterator[dict[str, Any]]:
        folded = fold(
            *(log.group_id, log.kafka_partition, log.state, log.events, names),
            consumer_session_timeout_ms=consumer_session_timeout_ms,
        )
        for table, rows in {**folded.rows, OPEN_GROUPS.name: [folded.open_group]}.items():
            yield from ({**_NO_ROWS, table: row} for row in rows)

    return by_log(events, marks, names, fold_group, FOLDED, report)


@dataclass(frozen=True)
class GroupLog:
    """Holds the new events of one group. `state` is its open state as text; None if it has no open state yet."""

    group_id: str
    kafka_partition: int
    state: str | None
    events: Iterator[Event]


def by_log(
    events: DataFrame,
    marks: Marks,
    names: TopicNames,
    rule: Callable[[GroupLog], Iterable[dict[str, Any]]],
    schema: StructType,
    report: Report = stop,
) -> DataFrame:
    """Returns the rows that `rule` yields for the log of each group. `events` is the result of `group_events`, and
    `names` are the names of topics by id. A group on which the rule fails is reported with the record on which it
    failed."""

    def of_group(group_id: str, group: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        rows = list(group)
        kafka_partition = rows[0]["kafka_partition"]
        state = rows.pop(0)["state"] if rows[0]["state"] is not None else None
        waiting = iter(rows)
        events = _events(waiting, marks.get(kafka_partition, ()), names)
        try:
            yield from rule(GroupLog(group_id, kafka_partition, state, events))
        except RULE_ERRORS as error:
            read = len(rows) - length_hint(waiting)
            raise AtRecordError(kafka_partition, rows[read - 1]["kafka_offset"] if read else None) from error

    return by_group(events, ["group_id"], ["kafka_offset", "topic", "partition"], of_group, schema, report)


def _events(rows: Iterable[dict[str, Any]], marks: Sequence[Coverage], names: TopicNames) -> Iterator[Event]:
    """Yields the events of a group, each after the marks up to it, and then the marks after the last event."""
    waiting = list(marks)
    for row in rows:
        event = _event(row, names)
        while waiting and waiting[0].from_offset <= event.first_kafka_offset:
            yield waiting.pop(0)
        yield event
    yield from waiting


def _event(row: dict[str, Any], names: TopicNames) -> RecordEvent:
    offset, timestamp_ms, record_type = row["kafka_offset"], row["timestamp_ms"], row["record_type"]
    if record_type is None:
        return CommitSums(
            topic=row["topic"],
            partition=row["partition"],
            first_kafka_offset=row["first_kafka_offset"],
            last_kafka_offset=offset,
            commit_count=row["commit_count"],
            first_commit_timestamp_ms=row["first_commit_timestamp_ms"],
            last_commit_timestamp_ms=row["last_commit_timestamp_ms"],
            first_committed_offset=row["first_committed_offset"],
            last_committed_offset=row["last_committed_offset"],
            is_removed=row["is_tombstone"],
        )
    if record_type == GROUP_METADATA:
        if row["is_tombstone"]:
            return GroupTombstone(offset, timestamp_ms)
        return group_record(offset, timestamp_ms, row["record_json"])
    (group_type,) = (name for start, name in OTHER_GROUP_TYPES.items() if record_type.startswith(start))
    is_tombstone, is_group_metadata = row["is_tombstone"], record_type == f"{group_type}_{GROUP_METADATA}"
    has_epoch = is_group_metadata and not is_tombstone
    fields = json.loads(row["record_json"])
    return OtherGroupType(
        offset,
        timestamp_ms,
        group_type,
        fields["epoch"] if has_epoch else None,
        is_group_metadata and is_tombstone,
        is_tombstone,
        content_of(record_type, fields, names, is_tombstone=is_tombstone),
    )

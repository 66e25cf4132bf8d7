"""`groupledger rebalances`, `idle`, `readers` and `committers`: what the groups of a cluster are up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.ask.spark_answers import commits, no_group, rebalances_told, within
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.history.expiring_offsets import expiring_offsets
from groupledger.transforms.history.group_activity import (
    commit_counts,
    rebalance_counts,
    topic_readers,
    true_rebalances,
)

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables

COUNT_COLUMNS = (
    *("group_id", "rebalances", "increments_without_record", "partitions_moved", "longest_pause_upper_ms"),
    *("most_frequent_trigger", "last_rebalance_at"),
)
REBALANCE_COLUMNS = (
    *("happened_at", "from_generation", "to_generation", "protocol_kind", "trigger", "inferred_trigger"),
    *("inferred_trigger_confidence", "member_count", "partitions_moved", "pause_upper_ms", "hole_cause"),
)
IDLE_COLUMNS = (
    *("group_id", "group_type", "is_simple", "cause", "topic", "committed_partition_count"),
    *("last_commit_at", "idle_since", "offsets_expire_at"),
)
READER_COLUMNS = (
    *("group_id", "group_type", "partitions_owned", "members_subscribed", "partitions_committed", "last_commit_at"),
    "is_simple",
)
COMMITTER_COLUMNS = ("group_id", "commits", "partitions", "first_commit_at", "last_commit_at")


def most_rebalancing(tables: ClusterTables, since: datetime | None, until: datetime | None, top: int) -> list[Answer]:
    counts = rebalance_counts(within(rebalances_told(tables), "happened_at", since, until))
    return collect(counts.drop("cluster").orderBy(F.desc("rebalances"), "group_id").limit(top))


def rebalances_of(
    tables: ClusterTables, name: str, since: datetime | None, until: datetime | None, top: int
) -> list[Answer]:
    """Returns the newest rebalances of a group, in the order of the log."""
    if not collect(tables.rows_of_group(GROUPS, name).select("group_id")):
        raise no_group(tables.cluster, name)
    found = true_rebalances(within(rebalances_told(tables, name), "happened_at", since, until))
    return collect(found.drop("cluster").orderBy(F.desc("kafka_offset")).limit(top))[::-1]


def idle(tables: ClusterTables, as_of: datetime, retention: timedelta, fraction: float) -> list[Answer]:
    """Returns the groups whose offsets will expire; what expires first comes first."""
    found = expiring_offsets(
        groups=tables.rows(GROUPS),
        generations=tables.rows(GENERATIONS),
        members=tables.rows(MEMBERS),
        coordinator_records=tables.rows(COORDINATOR_RECORDS),
        as_of=as_of,
        idle_for=retention * fraction,
        retention=retention,
    )
    return collect(found.drop("cluster").orderBy("offsets_expire_at", "group_id", "cause", "topic"))


def readers(tables: ClusterTables, topic: str) -> list[Answer]:
    """Returns the groups that read a topic, owners first."""
    found = topic_readers(tables.rows(GROUPS), tables.rows(ASSIGNMENTS), tables.rows(MEMBERS), commits(tables), topic)
    return collect(found.drop("cluster").orderBy(F.desc("partitions_owned"), F.desc("members_subscribed"), "group_id"))


def committers(tables: ClusterTables, since: datetime | None, until: datetime | None, top: int) -> list[Answer]:
    counts = commit_counts(within(commits(tables), "kafka_timestamp", since, until))
    return collect(counts.drop("cluster").orderBy(F.desc("commits"), "group_id").limit(top))

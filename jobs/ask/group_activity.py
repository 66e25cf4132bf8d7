"""`groupledger rebalances`, `readers` and `committers`: the activity of the groups of a cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import group_row, of_groups, within
from groupledger.jobs.ask.commits import commit_log, commits_now
from groupledger.jobs.ask.owner import unseen_in
from groupledger.jobs.ask.rebalances import is_birth, is_within, rebalances_with_triggers
from groupledger.schemas.kinds.changes import GROUP_STARTED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COUNT_COLUMNS = (
    *("group_id", "rebalances", "increments_without_record", "partitions_moved", "longest_pause_lower_ms"),
    *("longest_pause_upper_ms", "most_frequent_trigger", "last_rebalance_at"),
)
COUNT_OPTIONAL = (
    *("increments_without_record", "longest_pause_lower_ms", "partitions_moved", "longest_pause_upper_ms"),
    *("last_rebalance_at", "most_frequent_trigger"),
)
"""Columns that a narrow terminal can leave out, in this order."""
REBALANCE_COLUMNS = (
    *("happened_at", "from_generation", "to_generation", "protocol_kind", "trigger", "inferred_trigger"),
    *("inferred_trigger_confidence", "member_count", "partitions_moved", "pause_lower_ms", "pause_upper_ms"),
    "hole_cause",
)
REBALANCE_OPTIONAL = (
    *("inferred_trigger_confidence", "protocol_kind", "hole_cause", "pause_lower_ms", "from_generation"),
    *("partitions_moved", "member_count", "pause_upper_ms", "inferred_trigger"),
)
READER_COLUMNS = (
    *("group_id", "group_type", "partitions_owned", "members_subscribed", "partitions_committed", "last_commit_at"),
    "is_simple",
)
READER_OPTIONAL = ("is_simple", "group_type", "partitions_committed", "members_subscribed")
COMMITTER_COLUMNS = ("group_id", "commits", "partitions", "first_commit_at", "last_commit_at")

# Increments of the generation without a record are counted apart, and an unknown cost is left out.
COUNTS = """
SELECT
    group_id,
    count(*) AS rebalances,
    coalesce(sum(generation_gap), 0) AS increments_without_record,
    sum(partitions_moved) AS partitions_moved,
    max(happened_at) AS last_rebalance_at
FROM rebalances
WHERE NOT coalesce(list_contains(list_transform(changes, lambda change: change.kind), $birth), false)
GROUP BY group_id
ORDER BY rebalances DESC, group_id
LIMIT $top
"""
READERS = """
WITH known AS MATERIALIZED (FROM groups),
hidden AS (SELECT group_id FROM known WHERE is_alive IS NULL),
newest AS (
    SELECT group_id, partition, max_by({is_tombstone: is_tombstone, committed_offset: committed_offset,
        kafka_timestamp: kafka_timestamp}, kafka_offset) AS of_commit
    FROM commit_log
    WHERE topic = $topic
    GROUP BY group_id, partition
),
owned AS (
    SELECT group_id, count(DISTINCT partition) AS partitions_owned
    FROM (FROM assignments UNION ALL FROM share_assignments)
    GROUP BY group_id
),
subscribed AS (
    SELECT group_id, count(*) AS members_subscribed
    FROM members ANTI JOIN hidden USING (group_id)
    WHERE list_contains(subscribed_topics, $topic)
    GROUP BY group_id
),
committed AS (
    SELECT group_id, count(*) AS partitions_committed, max(of_commit.kafka_timestamp) AS last_commit_at
    FROM newest
    WHERE NOT of_commit.is_tombstone AND of_commit.committed_offset IS NOT NULL
    GROUP BY group_id
)
SELECT
    group_id,
    coalesce(partitions_owned, 0) AS partitions_owned,
    coalesce(members_subscribed, 0) AS members_subscribed,
    coalesce(partitions_committed, 0) AS partitions_committed,
    last_commit_at,
    group_type,
    is_simple
FROM owned
FULL JOIN subscribed USING (group_id)
FULL JOIN committed USING (group_id)
LEFT JOIN known USING (group_id)
ORDER BY partitions_owned DESC, members_subscribed DESC, group_id
"""
COMMITTERS = """
SELECT
    group_id,
    count(*) AS commits,
    count(DISTINCT (topic, partition)) AS partitions,
    min(kafka_timestamp) AS first_commit_at,
    max(kafka_timestamp) AS last_commit_at
FROM commit_log
WHERE NOT is_tombstone
GROUP BY group_id
ORDER BY commits DESC, group_id
LIMIT $top
"""


def most_rebalancing(
    tables: ClusterRows, since: datetime | None, until: datetime | None, top: int, names: Sequence[str] = ()
) -> list[Answer]:
    """Returns the `top` groups that rebalanced most in [since, until): of all, or of those in `names`. A row has the
    longest pause by its lower and by its upper bound, and the most frequent trigger. The trigger of a rebalance is the
    one in the server log or, if the log has none, the inferred one."""
    of_names: list[Filter] = [("group_id", "in", names)] if names else []
    columns = ("group_id", "generation_gap", "partitions_moved", "happened_at", "changes")
    rows = tables.scan("rebalances", *of_names, *within("happened_at", since, until), columns=columns)
    found = tables.query(COUNTS, {"birth": GROUP_STARTED.name, "top": top}, rebalances=rows)
    rebalances: defaultdict[str, list[Answer]] = defaultdict(list)
    for row in true_rebalances(tables, [each["group_id"] for each in found], since, until):
        rebalances[row["group_id"]].append(row)
    for row in found:
        of_group = rebalances[row["group_id"]]
        triggers = Counter(each["trigger"] or each["inferred_trigger"] for each in of_group)
        named = [name for name in triggers if name is not None]
        row["most_frequent_trigger"] = min(named, key=lambda name: (-triggers[name], name), default=None)
        for bound in ("pause_lower_ms", "pause_upper_ms"):
            known = [each[bound] for each in of_group if each[bound] is not None]
            row[f"longest_{bound}"] = max(known, default=None)
    return found


def rebalances_of(
    tables: ClusterRows, name: str, since: datetime | None, until: datetime | None, top: int
) -> list[Answer]:
    """Returns the last `top` rebalances of a group in [since, until), in the order of the log. Raises UnknownNameError
    for an unknown group."""
    group_row(tables, name)
    return true_rebalances(tables, [name], since, until)[-top:]


def true_rebalances(
    tables: ClusterRows, names: Sequence[str], since: datetime | None, until: datetime | None
) -> list[Answer]:
    """Returns the rebalances of groups in the order of their logs. The group's creation does not count as a
    rebalance."""
    return [
        row
        for row in rebalances_with_triggers(tables, names)
        if not is_birth(row) and is_within(row["happened_at"], since, until)
    ]


def readers(tables: ClusterRows, topic: str) -> list[Answer]:
    """Returns the groups that own partitions of a topic now, have members that subscribe to it, or have committed
    offsets in it (a simple consumer, or a group that read the topic in the past); owners first."""
    is_open, place = ("is_open", "=", 1), ("group_id", "partition")
    return tables.query(
        READERS,
        {"topic": topic},
        groups=tables.scan("groups", columns=("group_id", "group_type", "is_simple", "is_alive")),
        assignments=tables.scan("assignments", is_open, ("topic", "=", topic), columns=place),
        share_assignments=tables.scan_if_any("share_assignments", is_open, ("topic", "=", topic), columns=place),
        members=tables.scan("members", is_open, columns=("group_id", "subscribed_topics")),
        commit_log=commits_now(tables),
    )


def nearest_topics(tables: ClusterRows, topic: str) -> list[str]:
    """Returns the topics with names similar to one that the ledger never saw; empty if it saw that topic."""
    unseen = unseen_in(tables, topic, 0)
    return [] if unseen is None else unseen.nearest_names


def committers(
    tables: ClusterRows, since: datetime | None, until: datetime | None, top: int, name: str | None = None
) -> list[Answer]:
    """Returns the `top` groups with the most commits in [since, until): of all, or only the group `name`."""
    named = [] if name is None else of_groups(tables, name)
    commits = commit_log(tables, *named, *within("kafka_timestamp", since, until))
    return tables.query(COMMITTERS, {"top": top}, commit_log=commits)

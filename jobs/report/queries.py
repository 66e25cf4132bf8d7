"""The queries that choose the rows of a page, for DuckDB over the rows of one cluster (`jobs.report.selection`).

A page must open on a phone, so everything in it has a limit (`Limits`), and what a limit leaves out is counted. The
rules, in the order in which they are applied:
- Groups: those with the gravest incidents, then those that rebalance most, then those seen last.
- Partitions of a group: those that changed hands most.
- Intervals, tenures, records and incidents of a group: the newest, and an interval without an end is newer than any
  other. So the page is complete from some instant on, which `transforms.report.rules.report_ownership` finds.
- Lag: the period is cut into `lag_points` equal parts, and each shows its worst round.

A period is [since, until). `of_group` says how many rows a group has, of which a query gives the first ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.kinds.changes import GROUP_STARTED
from groupledger.schemas.words import Completeness, Severity, words_of

SEVERITIES = words_of(Severity)[::-1]  # the gravest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits the rows of a page: `groups` is for the page, all others are for each group."""

    groups: int = 500
    partitions: int = 200
    intervals: int = 1_000
    records: int = 400
    members: int = 200
    incidents: int = 50
    lag_points: int = 240
    lag_partitions: int = 50


def _first_of_group(rows: str, order: str) -> str:
    """Returns a query for at most $limit rows of each group in an order, and in `of_group` how many rows it has."""
    return f"""
SELECT *, count(*) OVER (PARTITION BY group_id) AS of_group
FROM ({rows})
QUALIFY row_number() OVER (PARTITION BY group_id ORDER BY {order}) <= $limit
"""  # noqa: S608 - texts of ours


def _overlapping(begin: str, end: str) -> str:
    """Returns a condition for rows that hold at some instant of the period; a null end is open."""
    return f"{begin} < $until AND ({end} IS NULL OR {end} > $since)"


# A row for each group and sampling round. A partition whose lag is not known is counted, never as zero.
_ROUNDS = """
SELECT
    group_id,
    sampled_at,
    sum(lag) AS lag,
    max(lag_seconds) AS lag_seconds,
    max(lag_seconds_lower_bound) AS lag_seconds_lower_bound,
    count(*) AS lag_partitions,
    count(*) FILTER (lag IS NULL) AS lag_unknown_partitions,
    max(group_state) AS group_state
FROM lag
GROUP BY group_id, sampled_at
"""
# A row for each group of the page: its row in `groups`, its counts in the period, its lag in the cluster's newest round
# (a group that is gone by then has none), and in `all_groups` how many groups there are.
RANKED = f"""
WITH of_incidents AS (
    SELECT
        group_id,
        {", ".join(f"count(*) FILTER (severity = '{severity}') AS {severity}_incidents" for severity in SEVERITIES)}
    FROM incidents
    GROUP BY group_id
),
of_rebalances AS (
    SELECT
        group_id,
        count(*) AS rebalances,
        coalesce(sum(generation_gap), 0) AS increments_without_record,
        sum(partitions_moved) AS partitions_moved,
        max(pause_upper_ms) AS longest_pause_upper_ms,
        max(happened_at) AS last_rebalance_at
    FROM rebalances
    WHERE NOT coalesce(
        list_contains(list_transform(changes, lambda change: change.kind), '{GROUP_STARTED.name}'), false
    )
    GROUP BY group_id
),
rounds AS MATERIALIZED ({_ROUNDS}),
of_lag AS (SELECT * FROM rounds WHERE sampled_at = (SELECT max(sampled_at) FROM rounds))
SELECT
    groups.*,
    {", ".join(f"coalesce({severity}_incidents, 0) AS {severity}_incidents" for severity in SEVERITIES)},
    coalesce(rebalances, 0) AS rebalances,
    coalesce(increments_without_record, 0) AS increments_without_record,
    partitions_moved,
    longest_pause_upper_ms,
    last_rebalance_at,
    of_lag.* EXCLUDE (group_id),
    count(*) OVER () AS all_groups
FROM groups
LEFT JOIN of_rebalances USING (group_id)
LEFT JOIN of_incidents USING (group_id)
LEFT JOIN of_lag USING (group_id)
ORDER BY error_incidents DESC, warning_incidents DESC, rebalances DESC, last_seen_at DESC, group_id
LIMIT $limit
"""  # noqa: S608 - words of ours
# The newest intervals of the partitions that moved most; `partitions_left_out` counts the others. A connector is shown
# as a topic, its tasks as partitions, itself as -1.
INTERVALS = _first_of_group(
    f"""
    WITH every AS (
        SELECT * FROM assignments
        UNION ALL BY NAME
        SELECT * EXCLUDE (connector, task), connector AS topic, task AS partition FROM connect_assignments
        UNION ALL BY NAME
        SELECT * FROM held_otherwise
    ),
    counted AS (
        SELECT *, count(*) OVER (PARTITION BY group_id, topic, partition) AS owners
        FROM every
        WHERE {_overlapping("valid_from", "valid_to")}
    ),
    ranked AS (
        SELECT *, dense_rank() OVER (PARTITION BY group_id ORDER BY owners DESC, topic, partition) AS place
        FROM counted
    ),
    drawn AS (
        SELECT *, greatest(max(place) OVER (PARTITION BY group_id) - $partitions, 0) AS partitions_left_out
        FROM ranked
    )
    SELECT * EXCLUDE (owners, place) FROM drawn WHERE place <= $partitions
    """,  # noqa: S608 - texts of ours
    "valid_to DESC NULLS FIRST, from_offset DESC, topic, partition",
)
MEMBERS = _first_of_group(
    f"SELECT * FROM members WHERE {_overlapping('joined_at', 'left_at')}",  # noqa: S608 - a text of ours
    "left_at DESC NULLS FIRST, from_offset DESC, member_id",
)
# The generations of the period, and the last one before it, which was in force when it began.
GENERATIONS = _first_of_group(
    """
    SELECT * EXCLUDE (last_before)
    FROM (
        SELECT *, max(kafka_offset) FILTER (ended_at <= $since) OVER (PARTITION BY group_id) AS last_before
        FROM generations
        WHERE started_at < $until
    ) AS known
    WHERE ended_at IS NULL OR ended_at > $since OR kafka_offset = last_before
    """,
    "kafka_offset DESC",
)
# The gravest first.
INCIDENTS = _first_of_group(
    "SELECT * FROM incidents WHERE group_id IS NOT NULL",
    f"coalesce(list_position({list(SEVERITIES)!r}, severity), 0), last_seen_at DESC, incident_id",
)
# The worst round of each part of the period, by time and then by records.
LAG_POINTS = f"""
SELECT * FROM ({_ROUNDS})
QUALIFY row_number() OVER (
    PARTITION BY group_id, floor((floor(epoch(sampled_at)) - $since_s) / $part_s)
    ORDER BY lag_seconds DESC, lag DESC, sampled_at DESC
) = 1
ORDER BY group_id, sampled_at
"""  # noqa: S608 - a text of ours
LAG_PARTITIONS = _first_of_group(
    "SELECT * FROM lag", "coalesce(lag_seconds, lag_seconds_lower_bound) DESC, lag DESC, topic, partition"
)
# A row for each type of group, by whether groups are alive, simple, and have members.
GROUP_TOTALS = """
SELECT group_type, is_alive, coalesce(member_count > 0, false) AS has_members, is_simple, count(*) AS groups
FROM groups
GROUP BY ALL
ORDER BY ALL
"""
INCIDENT_TOTALS = """
SELECT
    severity,
    kind,
    evidence,
    count(*) AS incidents,
    count(DISTINCT group_id) AS groups,
    sum(occurrences) AS occurrences,
    max(last_seen_at) AS last_seen_at
FROM incidents
GROUP BY severity, kind, evidence
ORDER BY severity, kind, evidence
"""
# A row for each hour or day, over all groups.
REBALANCES_BY_WINDOW = """
SELECT
    window_start,
    sum(rebalances) AS rebalances,
    sum(increments_without_record) AS increments_without_record,
    sum(storms) AS storms,
    count(*) FILTER (rebalances > 0) AS groups
FROM rebalance_stats
GROUP BY window_start
ORDER BY window_start
"""
# A row for each partition of `__consumer_offsets`: how many seconds of the period the ledger has seen whole, and from
# when to when it has seen anything.
COVERAGE_TOTALS = f"""
SELECT
    kafka_partition,
    sum(greatest(epoch(least(to_time, $until)) - epoch(greatest(from_time, $since)), 0)) FILTER (is_complete)
        AS complete_seconds,
    min(from_time) FILTER (is_complete) AS complete_from,
    max(to_time) AS known_until,
    count(*) FILTER (completeness = '{Completeness.UNKNOWN}') AS holes,
    count(*) FILTER (completeness = '{Completeness.COMPACTED}') AS compacted_stretches
FROM (
    SELECT *, coalesce(completeness = '{Completeness.COMPLETE}' AND to_time > from_time, false) AS is_complete
    FROM coverage
) AS judged
GROUP BY kafka_partition
ORDER BY kafka_partition
"""  # noqa: S608 - words of ours

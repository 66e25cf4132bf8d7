"""Sums up the lag of groups by a query, for each sampling round: for thousands of groups, or for a day of rounds.

The sums are those of `transforms.lag.rules.rollup`, whose rules for statuses are used; a test compares the two.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import within
from groupledger.jobs.ask.rounds import of_round
from groupledger.schemas.instants import ms_of
from groupledger.schemas.words import LagFlag, LagStatus
from groupledger.transforms.lag.rules import Rollup, burrow, status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

# The sums of the table `lag`.
SUMMED_COLUMNS = (
    *("group_id", "sampled_at", "topic", "partition", "lag", "lag_seconds", "lag_seconds_lower_bound", "status"),
    *("burrow_status", "flags", "owner", "client_id", "group_state", "messages_lost", "lag_per_second"),
    *("committed_at", "commit_interval_ms"),
)
SUMS_PARAMETERS = {"unsubscribed": LagFlag.UNSUBSCRIBED}
# Partitions that the group no longer subscribes to are counted, and no more.
_SUMS = """
    first(group_state) AS group_state,
    count(*) AS partitions,
    count(*) FILTER (is_counted AND lag IS NULL) AS partitions_without_lag,
    count(*) FILTER (NOT is_counted) AS partitions_unsubscribed,
    sum(lag) FILTER (is_counted) AS lag_sum,
    max(lag) FILTER (is_counted) AS lag_max,
    first({topic: topic, partition: partition, owner: owner, client_id: client_id} ORDER BY lag DESC, topic, partition)
        FILTER (is_counted AND lag IS NOT NULL) AS worst,
    max(greatest(lag_seconds, lag_seconds_lower_bound)) FILTER (is_counted AND lag IS NOT NULL) AS lag_seconds_max,
    max(lag_seconds_lower_bound) FILTER (is_counted AND lag IS NOT NULL) AS lag_seconds_lower_bound,
    coalesce(sum(messages_lost) FILTER (is_counted), 0) AS messages_lost,
    sum(lag_per_second) FILTER (is_counted AND lag IS NOT NULL) AS lag_per_second,
    -- Of a null, greatest() would make a 0.
    max(epoch_ms(committed_at)) FILTER (is_counted) AS committed_at_ms,
    CASE WHEN committed_at_ms IS NOT NULL THEN greatest(epoch_ms(sampled_at) - committed_at_ms, 0) END AS commit_age_ms,
    quantile_disc(commit_interval_ms, 0.5) FILTER (is_counted) AS commit_interval_ms,
    coalesce(map_entries(histogram(status) FILTER (is_counted)), []) AS statuses,
    coalesce(list(DISTINCT burrow_status) FILTER (is_counted AND burrow_status IS NOT NULL), []) AS burrow_statuses
FROM (SELECT *, NOT coalesce(list_contains(flags, $unsubscribed), false) AS is_counted FROM lag) AS marked
"""
# In how many partitions records wait, if no member subscribes to any of the group's.
_WAITING = "CASE WHEN bool_or(is_counted) THEN 0 ELSE count(*) FILTER (status = $unsubscribed) END AS waiting"
# A row for each group and round of `lag`, and one for each topic of them.
LAG_SUMS = f"SELECT group_id, sampled_at, NULL AS of_topic, {_WAITING}, {_SUMS} GROUP BY group_id, sampled_at"
TOPIC_SUMS = (
    f"SELECT group_id, sampled_at, topic AS of_topic, 0 AS waiting, {_SUMS} GROUP BY group_id, sampled_at, topic"
)

# For each group and part of a period the round with the most lag. A group without any known lag has a null.
LAG_POINTS = """
SELECT
    group_id, sampled_at,
    sum(lag) FILTER (is_counted) AS lag_sum, count(*) FILTER (is_counted AND lag IS NULL) AS partitions_without_lag
FROM (SELECT *, NOT coalesce(list_contains(flags, $unsubscribed), false) AS is_counted FROM lag) AS marked
GROUP BY group_id, sampled_at
QUALIFY row_number() OVER (
    PARTITION BY group_id, floor((epoch(sampled_at) - $since_s) / $part_s) ORDER BY lag_sum DESC NULLS LAST, sampled_at
) = 1
ORDER BY sampled_at
"""


def with_statuses(row: Answer) -> Answer:
    """Returns a row of `LAG_SUMS` or `TOPIC_SUMS` with the worst status of its partitions, how many partitions have
    that status, and the partition with the most lag. All are null if the group was not in the round."""
    found, worst = dict(row), row["worst"] or {}
    counted, burrow_statuses = found.pop("statuses"), found.pop("burrow_statuses")
    waiting = found.pop("waiting")
    statuses = None if counted is None else {each["key"]: each["value"] for each in counted}
    if status.is_unsubscribed(waiting, row["group_state"]):
        statuses = {LagStatus.UNSUBSCRIBED: waiting}
    worst_status = None if statuses is None else status.worst(statuses)
    del found["worst"]
    return found | {
        "worst_topic": worst.get("topic"),
        "worst_partition": worst.get("partition"),
        "worst_owner": worst.get("owner"),
        "worst_client_id": worst.get("client_id"),
        "status": worst_status,
        "partitions_in_status": None if statuses is None else statuses.get(worst_status, 0),
        "burrow_status": None if burrow_statuses is None else burrow.group_status(burrow_statuses),
    }


def lag_rounds(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> list[Answer]:
    """Returns the sums of lag of one group for each round in [since, until), in the order of time."""
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sampled_at", ">=", since), ("group_id", "=", name)]
    if until is not None:
        filters.append(("sampled_at", "<", until))
    rows = tables.scan_if_any("lag", *filters, columns=SUMMED_COLUMNS)
    return [with_statuses(row) for row in tables.query(f"{LAG_SUMS} ORDER BY sampled_at", SUMS_PARAMETERS, lag=rows)]


def lag_points(tables: ClusterRows, names: Sequence[str], since: datetime, until: datetime, parts: int) -> list[Answer]:
    """Returns the sums of lag of groups in [since, until), in the order of time. The period is divided into `parts`
    parts; for each group and part, only the round with the most lag is returned."""
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sample_date", "<=", until.date())]
    filters += [*within("sampled_at", since, until), ("group_id", "in", names)]
    rows = tables.scan_if_any("lag", *filters, columns=("group_id", "sampled_at", "lag", "flags"))
    in_parts = {"since_s": since.timestamp(), "part_s": max((until - since).total_seconds() / parts, 1.0)}
    return tables.query(LAG_POINTS, SUMS_PARAMETERS | in_parts, lag=rows)


def sums_of_round(tables: ClusterRows, sampled_at: datetime, name: str | None, *, by_topic: bool) -> list[Answer]:
    """Returns the sums of lag in a round, of all groups or of the group `name`, with the most lag first; with
    `by_topic`, one row for each topic of a group."""
    of_group: list[Filter] = [] if name is None else [("group_id", "=", name)]
    rows = tables.scan("lag", *of_round(sampled_at), *of_group, columns=SUMMED_COLUMNS)
    found = tables.query(TOPIC_SUMS if by_topic else LAG_SUMS, SUMS_PARAMETERS, lag=rows)
    answers = [asdict(_rollup(with_statuses(row))) for row in found]
    return sorted(answers, key=lambda each: (-(each["lag_sum"] or 0), each["group_id"], each["topic"] or ""))


def _rollup(row: Answer) -> Rollup:
    lag, slope = row["lag_sum"], row["lag_per_second"]
    is_shrinking = lag is not None and slope is not None and slope < 0
    return Rollup(
        **{name: row[name] for name in Rollup.__dataclass_fields__ if name in row and name != "topic"},
        sampled_at_ms=ms_of(row["sampled_at"]),
        topic=row["of_topic"],
        catch_up_seconds=lag / -slope if is_shrinking else None,
    )

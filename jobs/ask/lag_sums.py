"""Sums up the lag of groups by a query, for each sampling round: for thousands of groups, or for a day of rounds.

The sums are those of `transforms.lag.rules.rollup`, whose rules for statuses are used; a test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.words import LagFlag
from groupledger.transforms.lag.rules import burrow, status

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows, Filter
    from groupledger.jobs.process.output import Answer

# What of the table `lag` is summed up.
SUMMED_COLUMNS = (
    *("group_id", "sampled_at", "topic", "partition", "lag", "lag_seconds", "lag_seconds_lower_bound", "status"),
    *("burrow_status", "flags", "owner", "client_id"),
)
SUMS_PARAMETERS = {"unsubscribed": LagFlag.UNSUBSCRIBED}
# A row for each group and round of `lag`. Partitions that the group no longer subscribes to are counted, and no more.
LAG_SUMS = """
SELECT
    group_id,
    sampled_at,
    count(*) AS partitions,
    sum(lag) FILTER (is_counted) AS lag_sum,
    max(lag) FILTER (is_counted) AS lag_max,
    first({topic: topic, partition: partition, owner: owner, client_id: client_id} ORDER BY lag DESC, topic, partition)
        FILTER (is_counted AND lag IS NOT NULL) AS worst,
    max(lag_seconds) FILTER (is_counted AND lag IS NOT NULL) AS lag_seconds_max,
    max(lag_seconds_lower_bound) FILTER (is_counted AND lag IS NOT NULL) AS lag_seconds_lower_bound,
    coalesce(list(DISTINCT status) FILTER (is_counted), []) AS statuses,
    coalesce(list(DISTINCT burrow_status) FILTER (is_counted AND burrow_status IS NOT NULL), []) AS burrow_statuses
FROM (SELECT *, NOT coalesce(list_contains(flags, $unsubscribed), false) AS is_counted FROM lag) AS marked
GROUP BY group_id, sampled_at
"""


def with_statuses(row: Answer) -> Answer:
    """Returns a row of the query, or one joined with it, with the worst status of its partitions and the place of the
    most lag; all are null where the group was not in the round."""
    found, worst = dict(row), row["worst"] or {}
    statuses, burrow_statuses = found.pop("statuses"), found.pop("burrow_statuses")
    del found["worst"]
    return found | {
        "worst_topic": worst.get("topic"),
        "worst_partition": worst.get("partition"),
        "worst_owner": worst.get("owner"),
        "worst_client_id": worst.get("client_id"),
        "status": None if statuses is None else status.worst(statuses),
        "burrow_status": None if burrow_statuses is None else burrow.group_status(burrow_statuses),
    }


def lag_rounds(tables: ClusterRows, name: str, since: datetime, until: datetime | None) -> list[Answer]:
    """Returns the sums of one group for each round in [since, until), in the order of time."""
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sampled_at", ">=", since), ("group_id", "=", name)]
    if until is not None:
        filters.append(("sampled_at", "<", until))
    rows = tables.scan_if_any("lag", *filters, columns=SUMMED_COLUMNS)
    return [with_statuses(row) for row in tables.query(f"{LAG_SUMS} ORDER BY sampled_at", SUMS_PARAMETERS, lag=rows)]

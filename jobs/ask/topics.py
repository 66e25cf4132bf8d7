"""`groupledger topics`: the topics that the last sampling round has, with the lag of all groups that read them.

Lag comes from the newest round of `lag`, summed up as everywhere (`lag_sums`); a topic that no group reads is listed
with the ends of its partitions only.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from groupledger.jobs.ask.lag_sums import sums_of_round
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.ask.troubled import rank
from groupledger.transforms.lag.rules import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("topic", "partitions", "groups", "lag_sum", "partitions_without_lag", "lag_seconds_max", "status"),
    "worst_group",
)
# Columns that a narrow terminal can leave out, in this order.
OPTIONAL = ("partitions_without_lag", "lag_seconds_max", "partitions", "worst_group")
PARTITIONS = "SELECT topic, count(DISTINCT partition) AS partitions FROM watermarks GROUP BY topic"


def topics(tables: ClusterRows) -> list[Answer]:
    """Returns a row for each topic: the worst status first, then the most lag."""
    of_topics: defaultdict[str, list[Answer]] = defaultdict(list)
    sampled_at = last_round(tables, "lag") if tables.exists("lag") else None
    for row in [] if sampled_at is None else sums_of_round(tables, sampled_at, None, by_topic=True):
        of_topics[row["topic"]].append(row)
    partitions = _partitions(tables)
    rows = [_row(topic, partitions.get(topic), of_topics[topic]) for topic in {*partitions, *of_topics}]
    return sorted(rows, key=lambda row: rank(row, "topic"))


def _partitions(tables: ClusterRows) -> dict[str, int]:
    sampled_at = last_round(tables, "watermarks") if tables.exists("watermarks") else None
    if sampled_at is None:
        return {}
    ends = tables.scan("watermarks", *of_round(sampled_at), columns=("topic", "partition"))
    return {row["topic"]: row["partitions"] for row in tables.query(PARTITIONS, watermarks=ends)}


def _row(topic: str, partitions: int | None, groups: Sequence[Answer]) -> Answer:
    """Returns the sums of a topic over its groups, which come with the most lag first. Sums of nothing are null."""
    known = [row["lag_sum"] for row in groups if row["lag_sum"] is not None]
    seconds = [row["lag_seconds_max"] for row in groups if row["lag_seconds_max"] is not None]
    worst = status.worst([row["status"] for row in groups]) if groups else None
    return {
        "topic": topic,
        "partitions": partitions,
        "groups": len(groups),
        "lag_sum": sum(known) if known else None,
        "partitions_without_lag": sum(row["partitions_without_lag"] for row in groups),
        "lag_seconds_max": max(seconds, default=None),
        "status": worst,
        "worst_group": next((row["group_id"] for row in groups if row["status"] == worst), None),
    }

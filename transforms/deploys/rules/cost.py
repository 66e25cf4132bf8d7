"""Adds up the cost of a deployment, and compares it with earlier ones.

The rebalances of a deployment are those from its first departure or arrival to its last, and their cooperative
follow-ups. Partitions are stopped for longer than they have no owner: under the eager protocol all members stop first,
and then one record assigns all partitions at once. The peak of lag is the highest lag in the sampling rounds of the
deployment and in the first one after it.
"""

from __future__ import annotations

from datetime import timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

from groupledger.transforms.history.rules.what_if import observed_of
from groupledger.transforms.incidents.diagnosis.harm import unowned_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.transforms.history.rules.turnovers import Turnover

    Row = Mapping[str, Any]

NEAR = timedelta(minutes=15)
"""Sampling rounds that are further from a deployment than this are not compared with it."""
COMPARED_MAX = 10
COMPARED = ("lasted_seconds", "rebalances", "unowned_partition_seconds", "stopped_partition_seconds_min", "lag_peak")


def cost_of(
    turnover: Turnover, rebalances: Iterable[Row], assignments: Iterable[Row], rounds: Sequence[Row]
) -> dict[str, Any]:
    """Returns the columns of the cost of a deployment, from the rows of its group. `rounds` are the sampling rounds
    with the group's sum of lag, in the order of time. Unknown values are None."""
    began, ended = turnover.began_at, turnover.ended_at
    found = _with_follow_ups(rebalances, turnover)
    observed = observed_of(found)
    moved, stopped = observed["partitions_moved"], observed["stopped_partition_seconds"]
    before = [row for row in rounds if began - NEAR <= row["sampled_at"] < began]
    after = [row for row in rounds if ended < row["sampled_at"] <= ended + NEAR]
    inside = [row for row in rounds if began <= row["sampled_at"] <= ended] + after[:1]
    peak = max((row for row in inside if row["lag_sum"] is not None), key=lambda row: row["lag_sum"], default=None)
    return {
        "rebalances": len(found),
        "partitions_moved": None if moved is None else round(moved.low),
        "unowned_partition_seconds": unowned_seconds(assignments, began, ended),
        "stopped_partition_seconds_min": None if stopped is None else round(stopped.low),
        "stopped_partition_seconds_max": None if stopped is None else round(stopped.high),
        "lag_before": before[-1]["lag_sum"] if before else None,
        "lag_peak": peak and peak["lag_sum"],
        "lag_peak_at": peak and peak["sampled_at"],
    }


def _with_follow_ups(rebalances: Iterable[Row], turnover: Turnover) -> list[Row]:
    found: list[Row] = []
    for row in rebalances:
        caused_by = row["caused_by_generation"]
        is_within = turnover.began_at <= row["happened_at"] <= turnover.ended_at
        if is_within or (caused_by is not None and any(each["to_generation"] == caused_by for each in found)):
            found.append(row)
    return found


def compared(costs: Sequence[Row]) -> dict[str, Any] | None:
    """Returns the medians of the costs of the last COMPARED_MAX earlier deployments of a group; None if it has no
    earlier deployment. `costs` are in the order of time."""
    last = costs[-COMPARED_MAX:]
    if not last:
        return None
    known = {name: [row[name] for row in last if row[name] is not None] for name in COMPARED}
    return {"deploys": len(last), **{name: median(values) if values else None for name, values in known.items()}}

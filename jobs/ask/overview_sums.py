"""Summarizes many groups in parts of a window: the worst status of lag and the number of rebalances in each part.

A day of rounds of a large cluster is hundreds of millions of rows. Delta's log gives an upper bound of their number,
and above a limit the statuses are left out.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.ask.answers import within
from groupledger.jobs.process.arrow_values import scalar_of, value_of
from groupledger.schemas.kinds.changes import GROUP_STARTED
from groupledger.schemas.words import LagFlag
from groupledger.transforms.lag.rules import status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter

LAG_ROWS_MAX = 40_000_000
STATUSES = """
SELECT group_id, least(floor((epoch(sampled_at) - $since_s) / $part_s), $last)::INT AS part,
    list(DISTINCT status) AS statuses
FROM lag
WHERE status IS NOT NULL AND NOT coalesce(list_contains(flags, $unsubscribed), false)
GROUP BY ALL
"""
REBALANCES = """
SELECT {group_id} AS group_id, least(floor((epoch(happened_at) - $since_s) / $part_s), $last)::INT AS part,
    count(*) AS rebalances
FROM rebalances
WHERE NOT coalesce(list_contains(list_transform(changes, lambda change: change.kind), $birth), false)
GROUP BY ALL
"""
LAGS = """
SELECT topic, partition, least(floor((epoch(sampled_at) - $since_s) / $part_s), $last)::INT AS part, max(lag) AS lag
FROM lag
WHERE lag IS NOT NULL
GROUP BY ALL
"""
Bounds = tuple["datetime", "datetime"]


def statuses_in_parts(
    tables: ClusterRows, names: Sequence[str], bounds: Bounds, parts: int
) -> dict[str, dict[int, str]] | None:
    """Returns, by group and part of the window, the worst status of lag of the group's partitions; a part without a
    round of the group is missing. `bounds` are the window [since, until), which has `parts` parts, numbered from 0.
    Returns None if there are too many rows to read."""
    since, until = bounds
    if lag_rows_at_most(tables, bounds) > LAG_ROWS_MAX:
        return None
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sample_date", "<=", until.date())]
    filters += [*within("sampled_at", since, until), ("group_id", "in", names)]
    rows = tables.scan_if_any("lag", *filters, columns=("group_id", "sampled_at", "status", "flags"))
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    asked = {"unsubscribed": LagFlag.UNSUBSCRIBED, **_parts(bounds, parts)}
    for row in tables.query(STATUSES, asked, lag=rows):
        found[row["group_id"]][row["part"]] = status.worst(row["statuses"])
    return found


def rebalances_in_parts(
    tables: ClusterRows, bounds: Bounds, parts: int, names: Sequence[str] | None = None
) -> dict[str | None, dict[int, int]]:
    """Returns, by group and part of the window, how many rebalances of the groups `names` happened; without `names`,
    those of all groups together, under the key None."""
    of_names: list[Filter] = [] if names is None else [("group_id", "in", names)]
    columns = ("group_id", "happened_at", "changes")
    rows = tables.scan_if_any("rebalances", *of_names, *within("happened_at", *bounds), columns=columns)
    text = REBALANCES.format(group_id="NULL" if names is None else "group_id")
    found: defaultdict[str | None, dict[int, int]] = defaultdict(dict)
    for row in tables.query(text, {"birth": GROUP_STARTED.name, **_parts(bounds, parts)}, rebalances=rows):
        found[row["group_id"]][row["part"]] = row["rebalances"]
    return found


def lag_in_parts(
    tables: ClusterRows, name: str, units: AbstractSet[tuple[str, int]], bounds: Bounds, parts: int
) -> dict[tuple[str, int], dict[int, int]]:
    """Returns, for the partitions `units` of a group, the highest lag in each part of the window; a part in which no
    lag is known is missing."""
    since, until = bounds
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sample_date", "<=", until.date())]
    filters += [*within("sampled_at", since, until), ("group_id", "=", name)]
    filters += [("topic", "in", sorted({topic for topic, _ in units}))]
    filters += [("partition", "in", sorted({partition for _, partition in units}))]
    rows = tables.scan_if_any("lag", *filters, columns=("topic", "partition", "sampled_at", "lag"))
    found: defaultdict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for row in tables.query(LAGS, _parts(bounds, parts), lag=rows) if units else ():
        found[row["topic"], row["partition"]][row["part"]] = row["lag"]
    return {unit: of_unit for unit, of_unit in found.items() if unit in units}


def lag_rows_at_most(tables: ClusterRows, bounds: Bounds) -> int:
    """Returns an upper bound of the number of rows of lag in a window, from Delta's log."""
    if not tables.exists("lag"):
        return 0
    files = tables.files("lag")
    dates = "partition.sample_date"
    if dates not in files.column_names:
        return 0
    first, last = (scalar_of(at.date(), pa.date32()) for at in bounds)
    days = files[dates].cast(pa.date32())
    chosen = files.filter(pc.and_(pc.greater_equal(days, first), pc.less_equal(days, last)))
    found: Any = value_of(pc.sum(chosen["num_records"]))
    return found or 0


def _parts(bounds: Bounds, parts: int) -> dict[str, float]:
    since, until = bounds
    return {"since_s": since.timestamp(), "part_s": (until - since).total_seconds() / parts, "last": parts - 1}

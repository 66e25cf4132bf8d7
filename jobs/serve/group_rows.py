"""Reads what the picture of a group shows: for a page that is asked for one group, for the report many at a time.

A window without rows has a picture, too. What started before a window and goes on in it is part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.ask.group_activity import true_rebalances
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.lag_answers import rows_of_round
from groupledger.jobs.ask.lag_sums import lag_points
from groupledger.jobs.ask.owners import by_group
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.ask.what_if_kept import kept_of_groups
from groupledger.schemas.words import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.owners import GroupHistory
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.lag.rules import LagRow

LAG_PARTS = 464  # of two pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """Holds a group's rows: `incidents` and `rebalances` of a window in the order in which they began, the round of lag
    at an instant in it, and over the window `lag_points`. A connector of a Connect group stands as a topic, its tasks
    as partitions. `before` and `after` are the rebalances next to the instant."""

    history: GroupHistory
    connect_assignments: list[Answer]
    rebalances: list[Answer]
    before: datetime | None
    after: datetime | None
    incidents: list[Answer]
    sampled_at: datetime | None
    of_round: list[LagRow]
    lag_points: list[Answer]
    what_ifs: list[Answer]


def read_groups(
    tables: ClusterRows, histories: Sequence[GroupHistory], since: datetime, until: datetime, at: datetime
) -> Iterator[GroupRows]:
    """Yields the rows of each group by one read of each table."""
    names = [history.group["group_id"] for history in histories]
    connect = by_group(_connect_assignments(tables, names))
    rebalances = by_group(true_rebalances(tables, names, None, None) if tables.exists("rebalances") else ())
    has_incidents = tables.exists("incidents")
    incidents = by_group(
        row
        for row in (incidents_of(tables, names, since, None, Severity.WARNING) if has_incidents else ())
        if row["first_seen_at"] < until
    )
    sampled_at = last_round(tables, "lag", at) if tables.exists("lag") else None
    of_round: dict[str, list[LagRow]] = {}
    for row in [] if sampled_at is None else rows_of_round(tables, sampled_at, names):
        of_round.setdefault(row.group_id, []).append(row)
    points = by_group(lag_points(tables, names, since, until, LAG_PARTS))
    what_ifs = kept_of_groups(tables, names)
    for history, name in zip(histories, names, strict=True):
        every = rebalances[name]
        yield GroupRows(
            history=history,
            connect_assignments=connect[name],
            rebalances=[row for row in every if since <= row["happened_at"] < until],
            before=max((row["happened_at"] for row in every if row["happened_at"] < at), default=None),
            after=min((row["happened_at"] for row in every if row["happened_at"] > at), default=None),
            incidents=incidents[name],
            sampled_at=sampled_at,
            of_round=of_round.get(name, []),
            lag_points=points[name],
            what_ifs=what_ifs[name],
        )


def _connect_assignments(tables: ClusterRows, names: Sequence[str]) -> Iterator[Answer]:
    for row in tables.scan_if_any("connect_assignments", ("group_id", "in", names)).read_all().to_pylist():
        yield row | {"topic": row["connector"], "partition": row["task"]}

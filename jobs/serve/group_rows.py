"""Reads the rows for the pictures of groups: of one group for its page, of many at a time for the report.

A window without rows has a picture, too. An interval that began before the window and lasts into it is a part of it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.group_activity import true_rebalances
from groupledger.jobs.ask.incidents import incidents_of
from groupledger.jobs.ask.lag_answers import rows_of_round
from groupledger.jobs.ask.lag_sums import lag_points
from groupledger.jobs.ask.owners import by_group
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.ask.share import share_lag_rounds, share_standing
from groupledger.jobs.ask.stream_copies import copies_at
from groupledger.jobs.ask.troubles import open_troubles
from groupledger.jobs.ask.what_if_stored import stored_of_groups
from groupledger.schemas.words import GroupType, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.owners import GroupHistory
    from groupledger.jobs.process.output import Answer
LAG_PARTS = 464  # of two pixels
# The lag of a partition in stretches of the window: from when, until when, how much, and the most of any partition.
Heat = dict[tuple[str, int], list[tuple["datetime", "datetime", int, int]]]
Standing = dict[tuple[str, int], Any]  # rows of lag, or of where a share group stands


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRows:
    """Holds the rows of a group for a window and for an instant in it.

    `incidents` and `rebalances` are those of the window, in the order in which they began. `lag_points` are the sums of
    lag over the window. `standing` has the rows of lag of the round at `sampled_at`, by topic and partition; the rows
    of a share group have its start offset in place of a committed offset. `before` and `after` are the times of the
    rebalances next to the instant. `copies` has in words the tasks of a streams group that are not active, by member.
    In `connect_assignments`, a connector is the topic and its task the partition. `troubles` say which steps can't
    judge the group.
    """

    history: GroupHistory
    connect_assignments: list[Answer]
    rebalances: list[Answer]
    before: datetime | None
    after: datetime | None
    incidents: list[Answer]
    sampled_at: datetime | None
    standing: Standing
    lag_points: list[Answer]
    what_ifs: list[Answer]
    copies: dict[str, str]
    troubles: list[Answer]
    heat: Heat = field(default_factory=dict)


def read_groups(
    tables: ClusterRows, histories: Sequence[GroupHistory], since: datetime, until: datetime, at: datetime
) -> Iterator[GroupRows]:
    """Yields the rows of each group, for the window from `since` to `until` and the instant `at`. Each table is read
    once for all groups, except the tables that only share and streams groups have."""
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
    standing: defaultdict[str, Standing] = defaultdict(dict)
    for row in [] if sampled_at is None else rows_of_round(tables, sampled_at, names):
        standing[row.group_id][row.topic, row.partition] = row
    points = by_group(lag_points(tables, names, since, until, LAG_PARTS))
    what_ifs = stored_of_groups(tables, names)
    troubles = by_group(open_troubles(tables, names))
    for history, name in zip(histories, names, strict=True):
        every, lag_at, lag_rows, lags = rebalances[name], sampled_at, standing[name], points[name]
        group_type = history.group["group_type"]
        if group_type == GroupType.SHARE:
            lag_at, rows = share_standing(tables, name, at)
            lag_rows = {
                (row["topic"], row["partition"]): {
                    **row,
                    "committed_offset": row["start_offset"],
                    "commit_age_ms": None,
                    "status": None,
                }
                for row in rows
            }
            lags = share_lag_rounds(tables, name, since, until)
        yield GroupRows(
            history=history,
            connect_assignments=connect[name],
            rebalances=[row for row in every if since <= row["happened_at"] < until],
            before=max((row["happened_at"] for row in every if row["happened_at"] < at), default=None),
            after=min((row["happened_at"] for row in every if row["happened_at"] > at), default=None),
            incidents=incidents[name],
            sampled_at=lag_at,
            standing=lag_rows,
            lag_points=lags,
            what_ifs=what_ifs[name],
            copies=copies_at(tables, name, at) if group_type == GroupType.STREAMS else {},
            troubles=troubles[name],
        )


def _connect_assignments(tables: ClusterRows, names: Sequence[str]) -> Iterator[Answer]:
    for row in tables.rows_if_any("connect_assignments", ("group_id", "in", names)):
        yield row | {"topic": row["connector"], "partition": row["task"]}

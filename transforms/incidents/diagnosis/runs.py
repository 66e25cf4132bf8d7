"""Recognizes a group that is a job between two of its runs: it came at intervals, worked, and left in good order.

Such a group has no members for most of the time, and records wait for its next run. A job is overdue when it has been
away for longer than usual. A group is not a job if its last run made no progress, or if it is started again at once, as
a supervisor does with a process that fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.triggers import LEFT
from groupledger.transforms.history.rules.departures import has_left_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    Row = Mapping[str, Any]

RUNS_MIN = 3
RUNS_MAX = 10  # of what was longer ago nothing follows
LATE = 1.5  # times the longest pause
RESTS = 1.0  # times the run, at least: a supervisor starts sooner


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    began_at: datetime
    ended_at: datetime
    members: tuple[Row, ...]

    @property
    def lasted(self) -> timedelta:
        return self.ended_at - self.began_at


def is_between_runs(tenures: Sequence[Row], stands_since: Sequence[datetime | None], at: datetime) -> bool:
    """Returns whether a group is a job, and between two of its runs at the instant `at`. `stands_since` has, for each
    partition with lag, the time since which it makes no progress. Runs after the instant also count as evidence that
    the group is a job."""
    runs = _runs(tenures)[-RUNS_MAX:]
    before = [run for run in runs if run.ended_at <= at]
    if (
        len(runs) < RUNS_MIN
        or not before
        or not all(has_left_by(row, LEFT.name) for run in runs for row in run.members)
    ):
        return False
    last = before[-1]
    pauses = {one: other.began_at - one.ended_at for one, other in pairwise(runs)}
    return (
        all(pause >= RESTS * run.lasted for run, pause in pauses.items())
        and at - last.ended_at <= LATE * max(pause for run, pause in pauses.items() if run is not last)
        and all(since is None or since >= last.began_at for since in stands_since)
    )


def _runs(tenures: Iterable[Row]) -> list[Run]:
    """Returns the times in which the group had members, which have all left."""
    found: list[Run] = []
    for row in sorted((row for row in tenures if row["joined_at"] is not None), key=lambda row: row["joined_at"]):
        if row["left_at"] is None:
            return []
        before = found[-1] if found else None
        if before is not None and row["joined_at"] <= before.ended_at:
            found[-1] = Run(before.began_at, max(before.ended_at, row["left_at"]), (*before.members, row))
        else:
            found.append(Run(row["joined_at"], row["left_at"], (row,)))
    return found

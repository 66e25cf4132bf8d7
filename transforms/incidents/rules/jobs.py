"""Separates the runs of a job from a group that does not come to rest.

A job is a group whose processes start, work, leave in good order, and are gone until the next run. Each start and leave
rebalances the group, but stops no member that would have continued. A run of a group lasts from one empty generation to
the next. It was the run of a job if all its members left by themselves, none of them came twice, and there was at most
one rebalance for each arrival and each departure. A process that restarts beside members that stay, or whose session
expires, is not a job: the group is not empty in between, or its members did not leave. Nor is a process that is started
again at once, again and again: no schedule does that. It is a supervisor that restarts a process which fails at a
record and closes its consumer as it ends.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds import triggers
from groupledger.transforms.incidents.rules.facts import identity, milliseconds
from groupledger.transforms.incidents.rules.inferred import DOUBTFUL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

REBALANCES_PER_TENURE = 2
RESTART_MS = 10_000  # a supervisor starts a process again within this, a schedule rarely does
RESTARTED_MS_MAX = 60_000  # so short are the runs of a process that fails at a record
RESTARTED_RUNS = 3


@dataclass(frozen=True, slots=True)
class JobRuns:
    """Says which records of a group belong to runs of a job. `empty` are the offsets of its empty generations, in
    order, and `ends` are those of them that end a job's run."""

    empty: Sequence[int]
    ends: frozenset[int]

    def holds(self, kafka_offset: int) -> bool:
        """Returns whether a record belongs to the run of a job: the generations after an empty one, up to the next."""
        after = bisect_left(self.empty, kafka_offset)
        return after < len(self.empty) and self.empty[after] in self.ends


def job_runs(facts: GroupFacts) -> JobRuns:
    empty = sorted(row["kafka_offset"] for row in facts.generations if row["member_count"] == 0)
    tenures = _by_run(facts.members, "from_offset", empty)
    rebalances = _by_run(facts.rebalances, "kafka_offset", empty)
    ends = {end for end in empty if _is_job(tenures.get(end, []), len(rebalances.get(end, [])), end)}
    return JobRuns(empty, frozenset(ends.difference(_restarted(tenures))))


def _by_run(rows: Sequence[Row], column: str, empty: Sequence[int]) -> dict[int, list[Row]]:
    """Returns rows by the empty generation that ends their run, without those of the run that has not ended."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        after = bisect_left(empty, row[column])
        if after < len(empty):
            found.setdefault(empty[after], []).append(row)
    return found


def _is_job(tenures: Sequence[Row], rebalances: int, end: int) -> bool:
    return (
        len({identity(row) for row in tenures}) == len(tenures)
        and rebalances <= REBALANCES_PER_TENURE * len(tenures)
        and all(_left_by_itself(row, end) for row in tenures)
    )


def _restarted(tenures: Mapping[int, Sequence[Row]]) -> Iterator[int]:
    """Yields the ends of short runs that followed one another at once."""
    chains: list[list[int]] = []
    before_ms = None
    for end, rows in sorted(tenures.items()):
        begin_ms = min(milliseconds(row["joined_at"]) for row in rows)
        end_ms = max(milliseconds(row["left_at"]) for row in rows)
        is_short = end_ms - begin_ms < RESTARTED_MS_MAX
        if before_ms is None or begin_ms - before_ms >= RESTART_MS:
            chains.append([])
        if is_short:
            chains[-1].append(end)
        before_ms = end_ms if is_short else None
    yield from (end for chain in chains if len(chain) >= RESTARTED_RUNS for end in chain)


def _left_by_itself(row: Row, end: int) -> bool:
    is_known = row["is_start_known"] and row["is_end_known"] and row["to_offset"] <= end
    is_left = row["leave_cause"] == triggers.LEFT.name and (row["leave_cause_confidence"] or 0) >= DOUBTFUL
    return bool(is_known and is_left)

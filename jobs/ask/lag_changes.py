"""`groupledger lag --since`: when the statuses changed, computed again from all rounds of a group.

The rounds are folded by the rules that compute the table `lag`, so that a trial always uses the same rules.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.lag_answers import changes
from groupledger.jobs.ask.lag_events import GroupEvents
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.instants import EPOCH, MILLISECOND, instant_of_ms, ms_of
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.lag.rules.of_group import RoundsToCompute, group_lag

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer
    from groupledger.transforms.lag.rules import LagRow, LagRules

LAST_MS = 2**47  # after every round


def status_changes(
    tables: ClusterRows, name: str, since: datetime, until: datetime | None, rules: LagRules
) -> list[Answer]:
    """Returns every change of a partition's status, ours or Burrow's, in [since, until), computed again by `rules`. The
    first row of a partition counts as a change."""
    return changes(rows_again(tables, name, since, until, rules))


def rows_again(
    tables: ClusterRows, name: str, since: datetime, until: datetime | None, rules: LagRules
) -> list[LagRow]:
    """Returns the rows of a group in [since, until), computed again by `rules`, in the order of their keys. Raises
    InputError if there is no sampling round from `since` on.

    The rules see the rounds of one window before `since`, so that they do not begin with empty windows.
    """
    events = GroupEvents(tables, name, group_row(tables, name)["kafka_partition"])
    since_ms = not_before_ms(since)
    warm_up_ms = max(since_ms - rules.status.window_ms - 1, 0)
    rounds = events.rounds(warm_up_ms + 1, LAST_MS if until is None else not_before_ms(until) - 1)
    if not rounds or rounds[-1][0] < since_ms:
        raise InputError(f"There is no sampling round from {iso(since)} on: ask for an earlier instant.")
    before = last_round(tables, "watermarks", instant_of_ms(warm_up_ms))
    last_ms = 0 if before is None else ms_of(before)
    to_compute = RoundsToCompute(rounds, events.end_before(last_ms), events.losses())
    found = group_lag(name, events.of(to_compute, last_ms, rules), to_compute, rules)
    wanted = (row for row in found if row.sampled_at_ms >= since_ms)
    return sorted(wanted, key=attrgetter("topic", "partition", "sampled_at_ms"))


def not_before_ms(at: datetime) -> int:
    """Returns the first whole millisecond, as rounds have them, that is not before an instant."""
    return -((EPOCH - at) // MILLISECOND)

"""Recognises deployments among the times in which members of a group come and go.

No record says that somebody deploys. Arrivals and departures with less than QUIET between them are one turnover. It is
a deployment under three conditions: every earlier member was replaced, most of these left by themselves, and hardly any
new member left again within the turnover. The first condition excludes scaling, the second failures, and the third
crash loops. Static members that are restarted within their session are replaced, too, without a rebalance.

The start of a group is a turnover of its own, however soon another one follows. It ends before the first departure, or
before the first pause that is longer than TOGETHER.

Arrivals and departures are in the order of the log; their times only show which are close together.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.schemas.kinds.triggers import LEFT_POLL_TIMEOUT, REBALANCE_TIMEOUT, SESSION_EXPIRED
from groupledger.schemas.words import TurnoverKind
from groupledger.transforms.history.rules.departures import has_left_by
from groupledger.transforms.lookups import InOrder, Spans, as_given

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]

QUIET = timedelta(minutes=5)
"""A deployment that waits longer between two members counts as two turnovers."""
TOGETHER = timedelta(seconds=30)
"""A group's first processes are started at most this long after one another."""
TOO_SLOW = (LEFT_POLL_TIMEOUT.name, REBALANCE_TIMEOUT.name)
IS_DEPLOY = {
    TurnoverKind.DEPLOY: True,
    **dict.fromkeys((TurnoverKind.SILENT, TurnoverKind.UNDER_WAY, TurnoverKind.HIDDEN)),
}
"""By kind of turnover: True if it is a deployment, None if that is not known. Kinds that are not listed are no
deployments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """Holds a time in which members came and went. `before` are the members at its beginning, and `after` those at its
    end. `gone` are those of `before` that left in this time, `came` those that joined in it, and `passing` those of
    `came` that left in it, too. All are rows of `members`."""

    kind: str
    began_at: datetime
    ended_at: datetime
    before: tuple[Row, ...]
    after: tuple[Row, ...]
    gone: tuple[Row, ...]
    came: tuple[Row, ...]
    passing: tuple[Row, ...]

    @property
    def is_deploy(self) -> bool | None:
        return IS_DEPLOY.get(self.kind, False)


class _Step(NamedTuple):
    """An arrival or a departure."""

    offset: int
    at: datetime
    is_departure: bool


class _Tenures:
    """The tenures of an incarnation, which are found by the offsets at which they begin and end."""

    def __init__(self, rows: Iterable[Row]) -> None:
        numbered = [*enumerate(rows)]
        self._spans = Spans(numbered, lambda each: each[1]["from_offset"], lambda each: each[1]["to_offset"])
        self._begun = InOrder(numbered, lambda each: each[1]["from_offset"])

    def before(self, offset: int) -> tuple[Row, ...]:
        """Returns the tenures that had begun before an offset, and ended there or later."""
        return tuple(as_given(self._spans.holding(offset - 1)))

    def begun(self, first: int, last: int) -> tuple[Row, ...]:
        """Returns the tenures that began between two offsets."""
        return tuple(as_given(self._begun.between(first, last)))


def turnovers(members: Iterable[Row], known_until: datetime) -> list[Turnover]:
    """Returns the turnovers of one group, from its rows of `members`, in the order of the log. `known_until` is the
    instant until which the log is known."""
    of_incarnations: defaultdict[int, list[Row]] = defaultdict(list)
    for row in members:
        of_incarnations[row["incarnation"]].append(row)
    found: list[Turnover] = []
    for _, rows in sorted(of_incarnations.items()):
        tenures = _Tenures(rows)
        for run in _close_together(rows):
            found += [_turnover(tenures, steps, known_until) for steps in _beginning_apart(tenures, run)]
    return found


def with_versions(turnover: Turnover, before: Collection[str], after: Collection[str]) -> Turnover:
    """Returns the turnover with its kind judged by the client versions before and after it. If its members fell silent,
    so that its kind was not certain, other versions show that it is a deployment. Without versions the kind stays."""
    is_changed = before and after and {*before} != {*after}
    is_known = turnover.kind == TurnoverKind.SILENT and is_changed
    return replace(turnover, kind=TurnoverKind.DEPLOY) if is_known else turnover


def _close_together(members: Sequence[Row]) -> Iterator[list[_Step]]:
    """Yields arrivals and departures that are close together."""
    ends = (("from_offset", "joined_at", False), ("to_offset", "left_at", True))
    steps = sorted(
        _Step(row[offset], row[at], is_departure)
        for row in members
        for offset, at, is_departure in ends
        if row[at] is not None
    )
    together: list[_Step] = []
    for step in steps:
        if together and step.at - together[-1].at > QUIET:
            yield together
            together = []
        together.append(step)
    if together:
        yield together


def _beginning_apart(tenures: _Tenures, steps: Sequence[_Step]) -> Iterator[Sequence[_Step]]:
    """Yields the steps with which the group begins, if nobody was there before, and those after them."""
    apart = (
        number
        for number, (one, other) in enumerate(pairwise(steps), 1)
        if other.is_departure or other.at - one.at > TOGETHER
    )
    end = len(steps) if tenures.before(steps[0].offset) else next(apart, len(steps))
    yield steps[:end]
    if steps[end:]:
        yield steps[end:]


def _turnover(tenures: _Tenures, steps: Sequence[_Step], known_until: datetime) -> Turnover:
    first, last, times = steps[0].offset, steps[-1].offset, [step.at for step in steps]
    before, came = tenures.before(first), tenures.begun(first, last)
    every = (*before, *came)
    is_gone = {id(row) for row in every if row["to_offset"] is not None and row["to_offset"] <= last}
    found = Turnover(
        kind=TurnoverKind.DEPLOY,
        began_at=min(times),
        ended_at=max(times),
        before=before,
        after=tuple(row for row in every if id(row) not in is_gone),
        gone=tuple(row for row in before if id(row) in is_gone),
        came=came,
        passing=tuple(row for row in came if id(row) in is_gone),
    )
    return replace(found, kind=_kind(found, known_until))


def _kind(found: Turnover, known_until: datetime) -> str:  # noqa: PLR0911 - one for each kind
    before, gone = found.before, found.gone
    if not before:
        return TurnoverKind.BEGAN
    if found.passing and 2 * len(found.passing) >= len(before):
        return TurnoverKind.RESTLESS
    if not gone or not found.came:
        return TurnoverKind.SCALED if found.after else TurnoverKind.ENDED
    if not found.after:
        return TurnoverKind.ENDED
    is_silent = _most(gone, (SESSION_EXPIRED.name,))
    if len(gone) < len(before):
        is_going_on = known_until - found.ended_at < QUIET and not is_silent and not _most(gone, TOO_SLOW)
        return TurnoverKind.UNDER_WAY if is_going_on else TurnoverKind.PARTLY
    if not all(row["is_end_known"] for row in gone) or not all(row["is_start_known"] for row in found.came):
        return TurnoverKind.HIDDEN
    if _most(gone, TOO_SLOW):
        return TurnoverKind.TOO_SLOW
    return TurnoverKind.SILENT if is_silent else TurnoverKind.DEPLOY


def _most(gone: Sequence[Row], causes: Collection[str]) -> bool:
    """Returns whether at least half of them are known to have left by one of these causes."""
    known = [row for row in gone if has_left_by(row, *causes)]
    return 2 * len(known) >= len(gone)

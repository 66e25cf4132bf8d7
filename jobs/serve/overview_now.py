"""Says which groups are in trouble now: by the lag of the last sampling round, and by open incidents.

They are those of `groupledger groups`. A group that has no episode in progress gets a diagnosis of its own
(`jobs.serve.diagnoses`). Until that is made, and if it finds nothing, a sentence says what is known without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from groupledger.jobs.ask.troubled import by_trouble, gravity, in_words, is_troubled
from groupledger.jobs.process.output import number_of
from groupledger.schemas.words import LagStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.episodes import ShownEpisode

SHOWN_MAX = 5
OLD = timedelta(minutes=30)  # a round that says little about now


@dataclass(frozen=True, slots=True, kw_only=True)
class InTrouble:
    """A group that is in trouble now. `what` says what is wrong. `episode` is the episode in progress, or the diagnosis
    of the group; None if it has neither."""

    row: Answer
    severity: str
    what: str
    episode: ShownEpisode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """Holds what is known of all groups that have not ended, as of the last round (None if there was none). `count` is
    their number, `groups` are the worst of those in trouble, the most severe first, and `others` is how many more are
    in trouble. `waiting` is the number of groups of the last round that the history does not have yet: nothing is known
    of them but their lag. `is_old` says that the round was too long ago to describe the present."""

    count: int
    waiting: int
    as_of: datetime | None
    is_old: bool
    groups: Sequence[InTrouble]
    others: int

    @property
    def severity(self) -> str:
        """Returns the severity of the worst group; `ok` without trouble, and `unknown` if nothing recent is known."""
        if self.groups:
            return self.groups[0].severity
        return "unknown" if self.as_of is None or self.is_old or self.waiting else LagStatus.OK

    @property
    def sentence(self) -> str:
        """Returns a sentence about how many groups are in trouble, or that this is not known."""
        if not self.waiting or self.as_of is None:
            return self._in_trouble()
        return f"{self._in_trouble()}; the history does not have {number_of(self.waiting, 'more group')} yet"

    def _in_trouble(self) -> str:
        if not self.groups:
            if self.as_of is None:
                return "Whether a group is in trouble is not known: their lag was never sampled"
            return f"None of {number_of(self.count, 'group')} {'was' if self.is_old else 'is'} in trouble"
        troubled = len(self.groups) + self.others
        are = "was" if troubled == 1 and self.is_old else "were" if self.is_old else "is" if troubled == 1 else "are"
        return f"{troubled:,} of {number_of(self.count, 'group')} {are} in trouble"


def in_trouble(rows: Sequence[Answer]) -> list[Answer]:
    """Returns the rows of groups that are in trouble now, the most severe trouble first. `rows` are groups that have
    not ended, as `every_group` returns them; `worst` of a row is its episode in progress, if it has one."""
    return sorted(
        filter(is_troubled, rows),
        key=lambda row: by_trouble(row, row["worst"].summary.severity if goes_on(row) else row["incident_severity"]),
    )


def goes_on(row: Answer) -> bool:
    return row["worst"] is not None and row["worst"].summary.until is None


def overview_now(
    count: int, troubled: Sequence[Answer], others: int, as_of: datetime | None, at: datetime, waiting: int = 0
) -> Now:
    """Returns what is known of now. `count` is the number of groups that have not ended, `troubled` are the worst of
    those in trouble, with diagnoses, and `others` is how many more are in trouble. `as_of` is the time of the last
    round, and `at` the present. `waiting` is the number of groups that the history does not have yet."""
    found = sorted(map(_in_words, troubled), key=lambda each: -gravity(each.severity))
    return Now(
        count=count,
        waiting=waiting,
        as_of=as_of,
        is_old=as_of is not None and at - as_of > OLD,
        groups=found,
        others=others,
    )


def _in_words(row: Answer) -> InTrouble:
    if goes_on(row):
        summary = row["worst"].summary
        return InTrouble(row=row, severity=summary.severity, what=summary.what, episode=row["worst"])
    severity, what = in_words(row)
    return InTrouble(row=row, severity=severity, what=what, episode=None)

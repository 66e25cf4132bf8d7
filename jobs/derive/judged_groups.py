"""Notes what incidents were computed from, so that the next pass judges only groups that may come out otherwise.

A small file, `_groupledger/<cluster>/judged_groups.json`, is written after the incidents: the version of each table
that was read, what of steps, stretches and rounds each group had, and which groups may change without new rows
(`transforms.incidents.rules.settling`). A pass judges again

- the groups of which a table has other rows than in that version (`jobs.warehouse.changed_rows`),
- those whose steps, stretches or rounds differ,
- those that time may change.

All groups are judged again if there is no such file, or if it can't be used: it is of another release or of other
settings, coordinators had other faults, the incidents were changed by somebody else (also by a pass that was killed
before it noted them), a table was made again, or its log does not show what changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.progress import note_progress
from groupledger.jobs.warehouse.storage import STATE_FOLDER
from groupledger.transforms.incidents.rules.settling import COMMITS as ANY_COMMIT
from groupledger.transforms.incidents.rules.settling import REQUESTS as ANY_REQUEST
from groupledger.transforms.incidents.rules.settling import TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.jobs.warehouse.ledger import Ledger

NAME = "judged_groups"
KNOWN_WITHIN_MS = 600_000


@dataclass
class Judged:
    """What the last pass had. `places` are the id and the version of each table; `words` are what groups had of steps
    and the like: a digest by source and group. Of groups: `met` had any facts, `waiting` may change until an instant,
    `by_time` in each pass, `by_commits` and `by_requests` by commits and requests that change no other group, and
    the records of `asked` were looked at."""

    fingerprint: str = ""
    as_of_ms: int = 0
    places: dict[str, list[Any]] = field(default_factory=dict)
    coverage: str = ""
    of_cluster: str = ""
    words: dict[str, dict[str, int]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    met: list[str] = field(default_factory=list)
    by_time: list[str] = field(default_factory=list)
    by_commits: list[str] = field(default_factory=list)
    by_requests: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def read_judged(ledger: Ledger) -> Judged | None:
    """Returns the note; None if there is none that can be read."""
    text = ledger.storage.read(f"{STATE_FOLDER}/{ledger.cluster}/{NAME}.json")
    try:
        return None if text is None else Judged(**json.loads(text))
    except (TypeError, ValueError):
        return None  # all groups are judged again


def note_judged_groups(ledger: Ledger, judged: Judged) -> None:
    note_progress(ledger, NAME, judged)


@dataclass(frozen=True)
class Changes:
    """The groups with `new` facts, and those that are only looked at again."""

    new: set[str]
    again: set[str]

    @property
    def every(self) -> list[str]:
        return sorted(self.new | self.again)


def after(
    before: Judged, words: Sequence[Mapping[str, Any]], changes: Changes | None, settled_ms: int, as_of_ms: int
) -> Judged:
    """Returns what to note of the groups that were judged, and of those that were not. `words` are those of the judged
    groups that had any facts (`judging.WORD`); without `changes` all groups were judged."""
    judged = None if changes is None else {*changes.every}

    def left(names: Iterable[str]) -> set[str]:
        return set() if judged is None else {*names} - judged

    def until_ms(word: Mapping[str, Any]) -> int:
        is_new = changes is None or word["group_id"] in changes.new
        # A record may have been read before it was known that none is missing before it.
        known_ms = as_of_ms + KNOWN_WITHIN_MS if is_new and ANY_COMMIT in word["waits_for"] else 0
        return max(word["may_change_until_ms"] or 0, known_ms)

    waiting = {name: before.waiting[name] for name in left(before.waiting)}
    waiting |= {word["group_id"]: at_ms for word in words if (at_ms := until_ms(word)) >= settled_ms}

    def those(reason: str, kept: Iterable[str]) -> list[str]:
        return sorted({word["group_id"] for word in words if reason in word["waits_for"]} | left(kept))

    return Judged(
        as_of_ms=as_of_ms,
        waiting=waiting,
        met=sorted({word["group_id"] for word in words} | left(before.met)),
        by_time=those(TIME, before.by_time),
        by_commits=those(ANY_COMMIT, before.by_commits),
        by_requests=those(ANY_REQUEST, before.by_requests),
    )

"""Notes what incidents were computed from, so that the next pass judges only groups that may have other incidents.

A small file, `_groupledger/<cluster>/judged_groups.json`, is written after the incidents. It has the version of each
table that was read, digests of the steps, stretches and rounds of each group, and the groups that time may change
(`transforms.incidents.rules.settling`). A pass judges

- the groups that have other rows in a table than in that version (`jobs.warehouse.changed_rows`),
- those whose steps, stretches or rounds differ,
- those that time may change.

It judges all groups if coordinators had other faults, or if the last pass over all groups is
`incidents.all_groups_interval_h` ago, by the time up to which the ledger knows everything: if these rules miss a group,
it is wrong for no longer than that. Of each group it judges what is not final yet (`jobs.derive.reach`).

It judges all groups by all of their past if there is no such file, or if the file can't be used: it is of another
release or of other settings, somebody else changed incidents that are not final (or a pass was killed before it wrote
the file), a table was made again, or its log does not show what changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.jobs.warehouse.progress import note_path, note_progress
from groupledger.schemas.instants import LATEST_MS
from groupledger.transforms.incidents.rules.settling import AWAY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from groupledger.jobs.warehouse.ledger import Ledger

NAME = "judged_groups"


@dataclass
class Judged:
    """Holds what the last pass had. It knew everything until `until_ms`, and `all_at_ms` is the instant as of which all
    groups were judged last. `places` has the id and the version of each table; `words` has digests of what groups had
    of steps and the like, by source and group. Of groups: `met` had any facts, `waiting` may change until an instant,
    `by_commits` with any commit, `away` have not come back for offsets that they lost (topic, partition, instant),
    `back` have, but what that means is not known yet, and the records of `asked` were read."""

    fingerprint: str = ""
    faults: list[list[Any]] = field(default_factory=list)
    until_ms: int = 0
    all_at_ms: int = 0
    places: dict[str, list[Any]] = field(default_factory=dict)
    coverage: str = ""
    of_cluster: str = ""
    words: dict[str, dict[str, int]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    met: list[str] = field(default_factory=list)
    by_commits: list[str] = field(default_factory=list)
    away: dict[str, list[list[Any]]] = field(default_factory=dict)
    back: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def read_judged(ledger: Ledger) -> Judged | None:
    """Returns the note; None if there is none that can be read."""
    text = ledger.storage.read(note_path(ledger.cluster, NAME))
    try:
        return None if text is None else Judged(**json.loads(text))
    except (TypeError, ValueError):
        return None  # all groups are judged again


def note_judged_groups(ledger: Ledger, judged: Judged) -> None:
    note_progress(ledger, NAME, judged)


def groups_after(
    before: Judged,
    words: Sequence[Mapping[str, Any]],
    judged: Collection[str] | None,
    silent_ms: int,
    since_ms: Mapping[str | None, int],
    back: Collection[str],
) -> dict[str, Any]:
    """Returns the fields of `Judged` about groups, after a pass that judged some groups, or all if `judged` is None.
    `words` are those of the judged groups that had any facts (`judging.WORD`). What time could change until
    `silent_ms` has changed by now. `since_ms` says what was read of each judged group, and `back` are those that came
    back."""

    def left(names: Iterable[str]) -> set[str]:
        return set() if judged is None else {*names} - {*judged}

    waiting = {name: before.waiting[name] for name in left(before.waiting)}
    waiting |= {word["group_id"]: word["may_change_until_ms"] for word in words}
    by_commits = {word["group_id"] for word in words if word["waits_for_commits"]}
    away = {word["group_id"]: [[each[name] for name in AWAY] for each in word["away"]] for word in words}
    for name, lost in before.away.items():
        first_ms = since_ms.get(name, since_ms.get(None, LATEST_MS)) if name not in left(before.away) else LATEST_MS
        away[name] = [each for each in lost if each[-1] < first_ms] + away.get(name, [])
    return {
        "waiting": {name: until_ms for name, until_ms in waiting.items() if until_ms >= silent_ms},
        "met": sorted({word["group_id"] for word in words} | left(before.met)),
        "by_commits": sorted(by_commits | left(before.by_commits)),
        "away": {name: lost for name, lost in away.items() if lost},
        "back": sorted(name for name in back if away.get(name) and waiting.get(name, 0) >= silent_ms),
    }

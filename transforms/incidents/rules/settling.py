"""Determines until when the incidents of a judged group may still change although no new rows of the group come.

A pass judges the groups that have new rows. Of all other groups it needs to know whether time alone changes something:
an incident is open, a client may still recover, or records may still contradict a log. A group is judged in every pass
for a while after its last fact (`_wait_ms`), and for as long as one of its incidents is open. That is often longer than
necessary, and never shorter.

New commits alone are no reason to judge a group, as every group has them all the time. They are a reason where the
first commit that comes decides: no commit has passed a refused one, or an offset was lost, and its partition is
committed again (`away`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.transforms.incidents.rules.confirmation import MARGIN_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.transforms.incidents.rules.facts import Rules
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

OF_REFUSALS = {kind.name for kind in INCIDENT_KINDS if kind.error_code is not None}
RECOVERS_WITHIN_MS = max(kind.recovers_within_ms or 0 for kind in INCIDENT_KINDS)
KNOWN_WITHIN_MS = 600_000  # in which samples and coverage come that belong to a record
ALWAYS_MS = 1 << 53
AWAY = ("topic", "partition", "at_ms")
_INSTANTS = {
    "generations": ("started_at", "current_state_at", "ended_at"),
    "rebalances": ("happened_at",),
    "members": ("joined_at", "left_at"),
}


def settling(facts: GroupFacts, rows: Sequence[Row], rules: Rules) -> Row:
    """Returns the last columns of `judging.JUDGED` for a group whose incidents are `rows`."""
    is_open = any(row["is_open"] for row in rows)
    until_ms = max(_facts_ms(facts), default=0) + _wait_ms(facts, rules)
    return {
        "may_change_until_ms": ALWAYS_MS if is_open else until_ms,
        "waits_for_commits": _waits_for_commits(rows),
        "away": [{name: each[name] for name in AWAY} for each in _away(facts)],
    }


def _facts_ms(facts: GroupFacts) -> Iterator[int]:
    """Yields the instants of the facts. Held partitions and rounds before retention are missing here: their groups are
    judged in every pass."""
    for name, columns in _INSTANTS.items():
        for row in getattr(facts, name):
            yield from (row[column] // 1_000 for column in columns if row.get(column) is not None)
    for lines in (facts.requests, facts.events):
        yield from (each.logged_at_ms for each in lines)
    for moves in (facts.commits, facts.offset_events):
        yield from (each.at_ms for each in moves)
    for places in (facts.steps, facts.returns):
        yield from (each.commit.at_ms for each in places)
    yield from (each.next_commit.at_ms for each in facts.steps if each.next_commit is not None)
    yield from (each.last_ms for each in facts.stretches)
    yield from (each.until_ms for each in facts.lag_stretches)


def _wait_ms(facts: GroupFacts, rules: Rules) -> int:
    """Returns how long rules may wait for what follows a fact. A member may be contradicted by a join phase that lasts
    as long as its timeout."""
    join_phase_ms = max((row.get("rebalance_timeout_ms") or 0 for row in facts.members), default=0)
    return 2 * max(RECOVERS_WITHIN_MS, MARGIN_MS, KNOWN_WITHIN_MS, rules.open_ms) + int(join_phase_ms)


def _waits_for_commits(rows: Sequence[Row]) -> bool:
    return any(row["kind"] in OF_REFUSALS and row["duplicates_min"] != row["duplicates_max"] for row in rows)


def _away(facts: GroupFacts) -> list[Row]:
    """Returns the lost offsets that the group has not come back for."""
    has_come_back = {each.row_key for each in facts.returns}
    return [each for each in facts.lost if each["row_key"] not in has_come_back]

"""Says of a group that was judged until when its incidents may still change though nothing new is read of it, and
what further facts may change them.

A pass judges the groups again of which it has new facts. Of all others it needs to know whether time alone changes
something: an incident is open, a client may still recover, or records may still contradict a log. `waits_for` has

    time       an incident is open
    commits    any commit may change a row: a lost offset did not come back, or no commit has passed a refused one
    requests   the group has a request without an answer: all its requests are replayed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.transforms.incidents.rules.confirmation import MARGIN_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.transforms.incidents.rules.facts import GroupFacts, Rules

    Row = dict[str, Any]

OF_REFUSALS = {kind.name for kind in INCIDENT_KINDS if kind.error_code is not None}
RECOVERS_WITHIN_MS = max(kind.recovers_within_ms or 0 for kind in INCIDENT_KINDS)
TIME, COMMITS, REQUESTS = "time", "commits", "requests"


def settling(facts: GroupFacts, rows: Sequence[Row], rules: Rules) -> dict[str, Any]:
    """Returns the word on a group (`judging.WORD`) whose incidents are `rows`."""
    return {
        "may_change_until_ms": _until_ms(facts, rules),
        "waits_for": [*_waits_for(facts, rows)],
    }


def _until_ms(facts: GroupFacts, rules: Rules) -> int | None:
    """Returns until when rules may wait for what follows upon a line of a log. A member may be contradicted by a join
    phase that lasts as long as its timeout."""
    lines_ms = [*(each.logged_at_ms for each in facts.requests), *(each.logged_at_ms for each in facts.events)]
    if not lines_ms:
        return None
    join_phase_ms = max((row.get("rebalance_timeout_ms") or 0 for row in facts.members), default=0)
    return max(lines_ms) + 2 * max(RECOVERS_WITHIN_MS, MARGIN_MS, rules.open_ms) + join_phase_ms


def _waits_for(facts: GroupFacts, rows: Sequence[Row]) -> Iterator[str]:
    if any(row["is_open"] for row in rows):
        yield TIME
    has_come_back = {each.row_key for each in facts.returns}
    is_away = any(each["row_key"] not in has_come_back for each in facts.lost)
    if is_away or any(row["kind"] in OF_REFUSALS and row["duplicates_min"] != row["duplicates_max"] for row in rows):
        yield COMMITS
    if any(request.body is not None or request.error_code is None for request in facts.requests):
        yield REQUESTS

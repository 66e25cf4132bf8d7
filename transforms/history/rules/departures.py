"""Finds why members left, from the lines of a server log, if the history could only infer it.

The records of a group show that a member was gone, never why. A line that names the member and its departure, near the
end of its tenure, states what the coordinator saw, and replaces the history's guess. Modern clients reuse their member
ids, so a line counts for the tenure whose end is nearest. A line of a coordinator that had lost the group may lie
there, too. Such a line does not count if a generation that still had the member began after it.

Many clients give no reason as they leave. Then a line says that they left but not why: a member that had been silent
before had probably not polled in time, since a client leaves by itself then. A static member does not leave when it
closes: one that is named by its instance id alone was removed by an administrator.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.triggers import (
    ADMIN_REMOVED,
    LEFT,
    LEFT_POLL_TIMEOUT,
    SESSION_EXPIRED,
    TRIGGERS,
    UNKNOWN,
    trigger_of_departure,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]

EVENT_COLUMNS = ("logged_at", "kind", "member_id", "member_ids", "reason", "client_reason")
# The line comes before the record: by a rebalance, at most. Clocks of two brokers differ a little.
BEFORE_RECORD_MAX = timedelta(minutes=10)
CLOCK_SKEW_MAX = timedelta(seconds=10)
DEPARTURES = frozenset(trigger.name for trigger in TRIGGERS if trigger.is_departure)
SILENT = {SESSION_EXPIRED.name, LEFT_POLL_TIMEOUT.name}
SILENT_BEFORE_IT_LEFT = 0.7
KNOWN_FROM = 0.8  # a guess below it leaves the other causes possible
SAME_STEP_MAX = timedelta(seconds=1)  # a line and the records of the same step


def is_cause_known(member: Row) -> bool:
    """Returns whether the confidence of a tenure's `leave_cause` is high enough (KNOWN_FROM) to take it as known."""
    return bool((member["leave_cause_confidence"] or 0.0) >= KNOWN_FROM)


def has_left_by(member: Row, *causes: str) -> bool:
    """Returns whether a tenure is known to have ended for one of these causes."""
    return member["leave_cause"] in causes and is_cause_known(member)


def with_logged_causes(
    members: Iterable[Row], events: Iterable[Row], generations: Iterable[Row] = ()
) -> list[dict[str, Any]]:
    """Returns the given rows of `members` of a group. If a line in `events` (rows of `coordinator_events`) states why a
    member left, `leave_cause` is taken from it. `generations` decide which lines come from a coordinator that had lost
    the group."""
    began = sorted(row["started_at"] for row in generations)
    departures = defaultdict(list)
    for event in events:
        trigger = trigger_of_departure(event["kind"], event["reason"], event["client_reason"])
        if trigger is None:
            continue
        says_why = trigger is not LEFT or event["client_reason"] is not None
        for member_id in (event["member_ids"] or ()) if event["member_id"] is None else (event["member_id"],):
            departures[member_id].append((event["logged_at"], trigger.name, says_why))
    found = []
    for row in members:
        lines = [
            (abs(row["left_at"] - at), cause, says_why)
            for at, cause, says_why in departures[row["member_id"]]
            if row["left_at"] is not None
            and -BEFORE_RECORD_MAX <= at - row["left_at"] <= CLOCK_SKEW_MAX
            and not _any_between(began, at + SAME_STEP_MAX, row["left_at"])
        ]
        found.append({**row, **(_as_logged(row, *min(lines)[1:]) if lines else {})})
    return found


def _as_logged(row: Row, cause: str, says_why: bool) -> dict[str, Any]:
    if not says_why and row["leave_cause"] in SILENT:
        return {"leave_cause": LEFT_POLL_TIMEOUT.name, "leave_cause_confidence": SILENT_BEFORE_IT_LEFT}
    if not says_why and row["leave_cause"] == ADMIN_REMOVED.name:
        return {"leave_cause": ADMIN_REMOVED.name, "leave_cause_confidence": 1.0}
    return {"leave_cause": cause, "leave_cause_confidence": 1.0}


def with_unknown_causes(members: Iterable[Row], faults: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns the given rows of `members` of a group. If a tenure ended during a fault of the group's coordinator, its
    inferred `leave_cause` becomes `unknown`; a cause that a line states stays. `faults` are rows of `incidents` about
    such faults."""
    spans = _spans(faults)
    found = []
    for row in members:
        is_guess = (row["leave_cause_confidence"] or 0.0) < 1.0 and row["leave_cause"] is not None
        is_then = row["left_at"] is not None and _is_within(row["left_at"], spans)
        unknown = {"leave_cause": UNKNOWN.name, "leave_cause_confidence": 0.0} if is_guess and is_then else {}
        found.append({**row, **unknown})
    return found


def with_unknown_triggers(rebalances: Iterable[Row], faults: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns the given rows of `rebalances` of a group. If a rebalance happened during a fault of the group's
    coordinator, and its inferred trigger is a departure, the trigger becomes `unknown`. `faults` are rows of
    `incidents`."""
    spans = _spans(faults)
    unknown = {"inferred_trigger": UNKNOWN.name, "inferred_trigger_confidence": 0.0}
    return [
        {**row, **unknown}
        if row["inferred_trigger"] in DEPARTURES and _is_within(row["happened_at"], spans)
        else {**row}
        for row in rebalances
    ]


def _spans(faults: Iterable[Row]) -> list[tuple[datetime, datetime]]:
    return [(row["first_seen_at"], row["last_seen_at"]) for row in faults]


def _is_within(at: datetime, spans: Iterable[tuple[datetime, datetime]]) -> bool:
    return any(begin <= at <= end for begin, end in spans)


def _any_between(ordered: Sequence[datetime], after: datetime, before: datetime) -> bool:
    place = bisect_right(ordered, after)
    return place < len(ordered) and ordered[place] < before

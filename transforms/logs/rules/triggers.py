"""Finds what started each rebalance of a group from the lines that its coordinators logged. Pure Python, one group at a
time.

A coordinator logs the reason when it begins to prepare a rebalance, and logs no further reasons until the next
generation is stable (or empty). So the logged reason is the first one. The line names the generation that ends, and the
rebalance leads to the next generation. A coordinator that takes over the group knows nothing of a rebalance in
progress, and begins its own: if several would lead to the same generation, the last one counts. Generation numbers
repeat in another incarnation of the group, so the line's time must fit, too: after the previous record, and not after
the record itself.

Before 2.1 a coordinator logged no reason. If a member had failed or left, it logged that in the previous line, which
then counts as the reason; otherwise only the beginning is reported.

A leave is distinguished by the reason that the client gave: the Scala coordinator logs it within its own reason, the
Java one in an earlier line. A leave that names no member, only an instance id, is an administrator's.

In a consumer group (KIP-848) the records state the cause of an epoch, except whether a member left or was fenced. One
line states that, and the next line of the same operation states the epoch that began. For share and streams groups a
departure is logged without its epoch, so nothing is reported for them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.triggers import ADMIN_REMOVED, UNKNOWN, trigger_of_departure, trigger_of_leave
from groupledger.schemas.kinds.triggers import LEFT as LEFT_BY_ITSELF
from groupledger.schemas.words import CoordinatorEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

PREPARING, LEFT = CoordinatorEventKind.PREPARING_REBALANCE, CoordinatorEventKind.MEMBER_LEFT
GONE = frozenset({LEFT, CoordinatorEventKind.MEMBER_FAILED})
BUMPED = CoordinatorEventKind.GROUP_EPOCH_BUMPED
DEPARTED = frozenset(
    {
        CoordinatorEventKind.CONSUMER_MEMBER_LEFT,
        CoordinatorEventKind.CONSUMER_STATIC_MEMBER_LEFT,
        CoordinatorEventKind.CONSUMER_MEMBER_FENCED,
        CoordinatorEventKind.CONSUMER_MEMBER_NOT_REVOKING,
    }
)
JOINED = frozenset(
    {
        CoordinatorEventKind.CONSUMER_MEMBER_JOINED,
        CoordinatorEventKind.CONSUMER_STATIC_MEMBER_JOINED,
        CoordinatorEventKind.CONSUMER_STATIC_MEMBER_REPLACED,
        CoordinatorEventKind.SHARE_MEMBER_JOINED,
    }
)
KINDS = frozenset({PREPARING, *GONE, BUMPED, *DEPARTED, *JOINED})
EVENT_COLUMNS = (
    *("source_file", "line_number", "logged_at", "kind", "generation", "previous_generation"),
    *("member_id", "member_ids", "reason", "client_reason", "trigger", "is_certain"),
)
# A record's timestamp and the time of a line come from the same clock, read one after the other.
TOLERANCE_US = 1_000_000
# Two lines of one step of a coordinator.
SAME_STEP_US = 100_000
TRIGGER_COLUMNS = (
    *("trigger", "trigger_at", "trigger_reason", "trigger_client_reason", "trigger_member_ids"),
    *("trigger_is_certain", "trigger_source_file", "trigger_line_number"),
)
NO_TRIGGER: dict[str, Any] = dict.fromkeys(TRIGGER_COLUMNS)
_BEGAN_AT = itemgetter("trigger_at")


def triggers(rebalances: Sequence[Row], events: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yields `TRIGGER_COLUMNS` for each row of `rebalances`, in log order; they are None if no line names the trigger.

    All rows are of one group. Times (`happened_at`, `logged_at`) are microseconds since the epoch.
    """
    by_previous: dict[int, _Starts] = {}
    for start in _starts(events):
        by_previous.setdefault(start.pop("previous_generation"), _Starts()).rows.append(start)
    before_us: int | None = None
    for row in rebalances:
        starts = by_previous.get(row["to_generation"] - 1)
        yield (starts and starts.take_last_fitting(before_us, row["happened_at"])) or NO_TRIGGER
        before_us = row["happened_at"]


@dataclass(slots=True)
class _Starts:
    """The rebalances that began in one generation, in order of time, each to be taken once: a group that starts and
    ends each minute has half a million of them in a year."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)

    def take_last_fitting(self, after_us: int | None, until_us: int) -> dict[str, Any] | None:
        """Removes and returns the last event between two instants; if there is none, one within the tolerance for
        clocks."""
        first = 0 if after_us is None else bisect_left(self.rows, after_us - TOLERANCE_US, key=_BEGAN_AT)
        in_time = bisect_right(self.rows, until_us, lo=first, key=_BEGAN_AT)
        end = bisect_right(self.rows, until_us + TOLERANCE_US, lo=in_time, key=_BEGAN_AT)
        places = chain(range(in_time - 1, first - 1, -1), range(end - 1, in_time - 1, -1))
        place = next((place for place in places if place not in self.taken), None)
        if place is None:
            return None
        self.taken.add(place)
        return self.rows[place]


def _starts(events: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yields every rebalance that a coordinator began."""
    left: Row | None = None
    gone: Row | None = None
    departed: list[Row] = []
    for event in sorted(events, key=itemgetter("logged_at", "source_file", "line_number")):
        kind = event["kind"]
        if kind in GONE:
            gone = event
            left = event if kind == LEFT else left
        elif kind == PREPARING:
            yield _start(event, left) if event["trigger"] is not None else _start_without_reason(event, gone)
            gone = None
        elif kind in DEPARTED:
            departed.append(event)
        else:  # a new epoch, or a member that joined: earlier lines are about something else
            if kind == BUMPED and departed and event["logged_at"] - departed[-1]["logged_at"] <= TOLERANCE_US:
                yield _epoch_start(event["generation"], departed)
            departed = []


def _start(event: Row, left: Row | None) -> dict[str, Any]:
    trigger, client_reason = event["trigger"], event["client_reason"]
    member_ids = list(event["member_ids"] or ())
    if trigger == LEFT_BY_ITSELF.name:
        is_the_leaver = left is not None and (left["member_id"] in member_ids or not any(member_ids))
        if client_reason is None and left is not None and is_the_leaver:
            client_reason = left["client_reason"]
        trigger = (trigger_of_leave(client_reason) if any(member_ids) else ADMIN_REMOVED).name
    return {
        **_began(event),
        "trigger": trigger,
        "trigger_reason": event["reason"],
        "trigger_client_reason": client_reason,
        "trigger_member_ids": member_ids,
    }


def _start_without_reason(event: Row, gone: Row | None) -> dict[str, Any]:
    """Returns the start of a rebalance whose line gives no reason; `gone` is the last line about a member that went
    since the rebalance before."""
    start = {**NO_TRIGGER, **_began(event), "trigger_member_ids": []}
    if gone is None or event["logged_at"] - gone["logged_at"] > SAME_STEP_US:
        return start
    trigger = trigger_of_departure(gone["kind"], gone["reason"], gone["client_reason"]) or UNKNOWN
    return {
        **start,
        "trigger": trigger.name,
        "trigger_member_ids": [gone["member_id"]],
        "trigger_is_certain": event["is_certain"] and gone["is_certain"],
    }


def _began(event: Row) -> dict[str, Any]:
    return {
        "previous_generation": event["previous_generation"],
        "trigger_at": event["logged_at"],
        "trigger_is_certain": event["is_certain"],
        "trigger_source_file": event["source_file"],
        "trigger_line_number": event["line_number"],
    }


def _epoch_start(epoch: int, departed: Sequence[Row]) -> dict[str, Any]:
    """Returns the start of an epoch by the lines about those that went in its operation."""
    first = departed[0]
    trigger = trigger_of_departure(first["kind"], first["reason"], first["client_reason"]) or UNKNOWN
    return {
        "previous_generation": epoch - 1,
        "trigger": trigger.name,
        "trigger_at": first["logged_at"],
        "trigger_reason": first["reason"],
        "trigger_client_reason": first["client_reason"],
        "trigger_member_ids": [event["member_id"] for event in departed],
        "trigger_is_certain": all(event["is_certain"] for event in departed),
        "trigger_source_file": first["source_file"],
        "trigger_line_number": first["line_number"],
    }

"""Checks a departure that a coordinator logged against the records.

A line of a server log says what one broker believed. A coordinator that stood still, or lost its partition, logs
removals whose records it can't write any more: the members stay. So a departure is confirmed by the end of the member's
tenure, if no generation in between still has the member. It is contradicted by a later generation that has the member,
or by a log in which no other generation follows for as long as a join phase may last. If the topic was not read for
that time, or if no generation ever had the member, the departure stays unconfirmed.
"""

from __future__ import annotations

from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import GroupType
from groupledger.transforms.history.rules.departures import BEFORE_RECORD_MAX, CLOCK_SKEW_MAX
from groupledger.transforms.incidents.rules.facts import milliseconds

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

BEFORE_RECORD_MS = BEFORE_RECORD_MAX.total_seconds() * 1_000
CLOCK_SKEW_MS = CLOCK_SKEW_MAX.total_seconds() * 1_000
SAME_STEP_MS = 1_000  # a line and the records of the same step
MARGIN_MS = 60_000  # for a busy coordinator, after the longest join phase


class Confirmation(Enum):
    """What the records say of a departure that a line states: confirmed, contradicted or unknown."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    UNKNOWN = "unknown"


class Records:
    """The tenures and generations of a group, by which departures are checked."""

    def __init__(self, facts: GroupFacts) -> None:
        self._until_ms = facts.as_of_ms if facts.topic_until_ms is None else facts.topic_until_ms
        self._lookups = facts.lookups
        self._join_phase_ms = max((row.get("rebalance_timeout_ms") or 0 for row in facts.members), default=0)

    def on_departure(self, member_id: str | None, at_ms: int) -> Confirmation:
        """Returns what the records say of a member's departure that a log line states for the instant `at_ms`."""
        words = [self._on_tenure(row, at_ms) for row in self._lookups.tenures.get(member_id, ())]
        return next(
            (word for word in (Confirmation.CONFIRMED, Confirmation.CONTRADICTED) if word in words),
            Confirmation.UNKNOWN,
        )

    def _on_tenure(self, tenure: Row, at_ms: int) -> Confirmation:
        left_ms = None if tenure["left_at"] is None else milliseconds(tenure["left_at"])
        if milliseconds(tenure["joined_at"]) > at_ms + CLOCK_SKEW_MS or not (left_ms is None or tenure["is_end_known"]):
            return Confirmation.UNKNOWN
        if self._was_there_later(tenure, at_ms):
            return Confirmation.CONTRADICTED if left_ms is None or left_ms > at_ms else Confirmation.UNKNOWN
        if left_ms is not None and -CLOCK_SKEW_MS <= left_ms - at_ms <= BEFORE_RECORD_MS:
            return Confirmation.CONFIRMED
        is_modern = tenure.get("group_type") in (GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS)
        wait_ms = MARGIN_MS + (0 if is_modern else self._join_phase_ms)
        stayed_until_ms = self._until_ms if left_ms is None else left_ms
        return Confirmation.CONTRADICTED if stayed_until_ms - at_ms > wait_ms else Confirmation.UNKNOWN

    def _was_there_later(self, tenure: Row, at_ms: int) -> bool:
        """Returns whether a generation that began after the line still had the member."""
        last = inf if tenure["to_offset"] is None else tenure["to_offset"] - 1
        return any(
            row["incarnation"] == tenure["incarnation"]
            and milliseconds(row["current_state_at"] or row["started_at"]) > at_ms + SAME_STEP_MS
            for row in reversed(self._lookups.generations_begun.between(tenure["from_offset"], last))
        )

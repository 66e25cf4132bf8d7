"""Reads from a broker's server log the generations of its classic groups, for comparison with the history.

This parser shares nothing with that of the product, neither code nor `schemas.kafka.coordinator_log`, so that a mistake
there can't hide one in the history. Its patterns are those of a 4.2 broker, which writes each of these lines once:

    Preparing to rebalance ... with old generation N (reason: R)   R starts the rebalance to N + 1
    Stabilized ... generation N with M members                     the join phase is over, and number N is used
    Assignment received from leader L ... for generation N         generation N has a record, with M members
    Group ... with generation N is now empty                       generation N has a record, without members
    Static member ... joins ... in Stable state ... Replacing      generation N has another record, with another member
    previously mapped member O                                     id, unless a rebalance follows
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

LINES = {
    kind: re.compile(pattern)
    for kind, pattern in {
        "preparing": r"Preparing to rebalance group (?P<group>\S+) in state \w+ with old generation (?P<generation>\d+)"
        r" \(reason: (?P<reason>.*)\)\. \(",
        "stabilized": r"Stabilized group (?P<group>\S+) generation (?P<generation>\d+) with (?P<members>\d+) members\.",
        "assigned": r"Assignment received from leader (?P<leader>\S+) for group (?P<group>\S+) for generation"
        r" (?P<generation>\d+)\. The group has (?P<members>\d+) members",
        "empty": r"Group (?P<group>\S+) with generation (?P<generation>\d+) is now empty\.",
        "replaced": r"unknown member id joins group (?P<group>\S+) in Stable state\. Replacing previously mapped member"
        r" (?P<old>\S+) with this groupInstanceId",
        "left": r"\[Group (?P<group>\S+)\] Member (?P<member>\S+) has left group through explicit `LeaveGroup` request;"
        r" client reason: (?P<reason>.*) \(",
    }.items()
}
REASONS = (
    (re.compile(r"Adding new member|Member \S+ is joining group during"), "joined"),
    (re.compile(r"Leader \S+ re-joining group"), "leader_rejoined"),
    (re.compile(r"Updating metadata for (static )?member"), "metadata_changed"),
    (re.compile(r"removing member \S+ on heartbeat expiration"), "session_expired"),
    (re.compile(r"Removing .* on pending sync request expiration"), "sync_expired"),
    (re.compile(r"Group's selectedProtocol will change"), "protocol_changed"),
)
LEAVE = re.compile(r"explicit `LeaveGroup` request for \((?P<member>[^,)]*)")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A generation, or a revision of a generation, that has a record. If a static leader was replaced, the log does not
    have its new member id: then `old_leader` is its former id, and `leader` is None. `leader` is also None if the group
    has no members."""

    generation: int
    revision: int
    leader: str | None
    member_count: int
    old_leader: str | None = None


class LoggedGroup:
    def __init__(self) -> None:
        self.recorded: list[Recorded] = []
        self.begun: set[int] = set()
        self.triggers: dict[int, str] = {}
        self.leave_reasons: dict[str, str] = {}
        self.leavers: dict[int, str] = {}
        self._replaced: str | None = None

    def take(self, kind: str, fields: dict[str, str]) -> None:
        if kind == "left":
            self.leave_reasons[fields["member"]] = fields["reason"]
        elif kind == "replaced":
            self.settle()
            self._replaced = fields["old"]
        elif kind == "preparing":
            self._prepare(int(fields["generation"]) + 1, fields["reason"])
        else:
            self.settle()
            generation = int(fields["generation"])
            self.begun.add(generation)
            if kind != "stabilized":
                self.recorded.append(Recorded(generation, 0, fields.get("leader"), int(fields.get("members", "0"))))

    def settle(self) -> None:
        """Records a replaced static member as a further revision of its generation, if no rebalance has followed."""
        if self._replaced is not None:
            again = replace(self.recorded[-1], revision=self.recorded[-1].revision + 1)
            if self._replaced == again.leader:
                again = replace(again, leader=None, old_leader=again.leader)
            self.recorded.append(again)
            self._replaced = None

    def _prepare(self, generation: int, reason: str) -> None:
        leave = LEAVE.match(reason)
        if leave is None:
            trigger = next(trigger for pattern, trigger in REASONS if pattern.match(reason))
        elif not leave["member"]:
            trigger = "admin_removed"  # by its instance id: no consumer does that for itself
        else:
            self.leavers[generation] = leave["member"]
            trigger = "left_poll_timeout" if "poll timeout" in self.leave_reasons[leave["member"]] else "left"
        self.triggers[generation] = trigger
        if trigger == "protocol_changed":
            self._replaced = None  # the rebalance has the record
        self.settle()


def logged_groups(lines: Iterable[str], groups: Iterable[str]) -> dict[str, LoggedGroup]:
    found = {group: LoggedGroup() for group in groups}
    for line in lines:
        for kind, pattern in LINES.items():
            match = pattern.search(line)
            if match and match["group"] in found:
                found[match["group"]].take(kind, match.groupdict())
    for logged in found.values():
        logged.settle()
    return found

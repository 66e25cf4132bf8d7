"""Distinguishes the rebalances of a group that grows from those of an unstable group.

A group that starts, is scaled out or is migrated to another protocol rebalances once for each process that is new to it
or to its protocol, and for the consequences (partitions of a share group that become ready). In such a rebalance no
member left, and every process that joined was new to the group or to its protocol. However many of these rebalances
there are, they are not a storm.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds import changes
from groupledger.transforms.incidents.rules.facts import identity

if TYPE_CHECKING:
    from groupledger.transforms.incidents.rules.group_facts import GroupFacts

    Row = dict[str, Any]

GROWS = {
    kind.name
    for kind in (
        changes.GROUP_STARTED,
        changes.MEMBER_JOINED,
        changes.LEADER_CHANGED,
        changes.COOPERATIVE_FOLLOW_UP,
        changes.PARTITIONS_INITIALIZED,
        changes.TOPOLOGY_READY,
    )
}
READY = {changes.PARTITIONS_INITIALIZED.name}


class Growth:
    """Knows which rebalances brought processes that were new to the group, and which brought processes that had been in
    it before."""

    def __init__(self, facts: GroupFacts) -> None:
        offsets = sorted(row["kafka_offset"] for row in facts.rebalances)
        seen: set[tuple[str | None, ...]] = set()
        self._new: set[int] = set()
        self._again: set[int] = set()
        for row in sorted(facts.members, key=lambda row: row["from_offset"]):
            process = (*identity(row), str(row.get("is_classic")))
            place = bisect_left(offsets, row["from_offset"])  # a modern member's record comes before that of the epoch
            if place < len(offsets):
                (self._again if process in seen else self._new).add(offsets[place])
            seen.add(process)

    def holds(self, rebalance: Row) -> bool:
        """Returns whether a rebalance only added processes that are new to the group."""
        kinds = {change["kind"] for change in rebalance["changes"] or ()}
        offset = rebalance["kafka_offset"]
        is_new = offset in self._new if changes.MEMBER_JOINED.name in kinds else kinds & READY
        return bool(is_new) and kinds <= GROWS and offset not in self._again

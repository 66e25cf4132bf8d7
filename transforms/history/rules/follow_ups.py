"""Separates the cooperative follow-ups that a rebalance causes from those of an endless chain.

A cooperative rebalance that takes a partition away is followed by one that assigns it again, and rarely by another one
(KAFKA-8767). Both belong to its cost, and are not counted as rebalances of their own. But assignors that keep moving
partitions, and members that miss their assignment each time (KAFKA-14382), cause follow-ups without an end. Then
`caused_by_generation` of all these rounds is the generation that the chain began with, and the distance from it
identifies them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.changes import COOPERATIVE_FOLLOW_UP, LEADER_CHANGED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FOLLOW_UPS_MAX = 2
_FOLLOW_UP_CHANGES = {COOPERATIVE_FOLLOW_UP.name, LEADER_CHANGED.name}


def is_price_of_another(rebalance: Mapping[str, Any]) -> bool:
    """Returns whether a row of `rebalances` is a follow-up that belongs to the cost of the rebalance that caused it."""
    cause = rebalance["caused_by_generation"]
    return cause is not None and rebalance["to_generation"] - cause <= FOLLOW_UPS_MAX


def is_mere_follow_up(change_kinds: Collection[str]) -> bool:
    """Returns whether a round that follows another one changed nothing else: no member came or left, and there is no
    other change."""
    return COOPERATIVE_FOLLOW_UP.name in change_kinds and _FOLLOW_UP_CHANGES.issuperset(change_kinds)

"""Computes from a row of `rebalances` how long it stopped the group, or the slowest of the partitions that moved.

An eager rebalance has its bounds in columns of its own. In a cooperative one, and in KIP-848, each partition has an
upper bound. The highest of them is the bound of the rebalance, once every partition that moved has one. If no partition
changed hands and none was taken from its owner, there was no pause. The lower bound is that of the record
(`cost.watch`); KIP-848 has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.schemas.words import PauseScope

if TYPE_CHECKING:
    from collections.abc import Mapping


class Pause(NamedTuple):
    """A lower and an upper bound in milliseconds, None where one is not known."""

    lower_ms: int | None
    upper_ms: int | None


UNKNOWN_PAUSE = Pause(None, None)
NO_PAUSE = Pause(0, 0)


def pause_of(rebalance: Mapping[str, Any]) -> Pause:
    scope = rebalance["pause_scope"]
    if scope is None:
        return UNKNOWN_PAUSE
    if scope == PauseScope.GROUP:
        return Pause(rebalance["pause_lower_ms"], rebalance["pause_upper_ms"])
    if rebalance["partitions_moved"] == rebalance["partitions_lost"] == 0:
        return NO_PAUSE
    uppers = [each["pause_upper_ms"] for each in rebalance["partition_pauses"] or ()]
    moved = rebalance["partitions_moved"]
    is_whole = None not in uppers and moved is not None and len(uppers) >= moved
    return Pause(rebalance["pause_lower_ms"], max(uppers, default=None) if is_whole else None)


def bounds_text(pause: Pause) -> str | None:
    """Returns `at least 12 ms and at most 340 ms`, or the part of it that is known; None if there was no pause, or if
    no bound is known."""
    if pause == NO_PAUSE:
        return None
    lower = f"at least {pause.lower_ms:,} ms" if pause.lower_ms else None
    upper = None if pause.upper_ms is None else f"at most {pause.upper_ms:,} ms"
    return " and ".join(each for each in (lower, upper) if each is not None) or None

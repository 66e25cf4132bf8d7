"""Goal: the cost of a rebalance is reported if a bound of it is known, and no bound is made up."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.schemas.words import PauseScope
from groupledger.transforms.history.rules.pause import NO_PAUSE, UNKNOWN_PAUSE, Pause, bounds_text, pause_of


def rebalance(scope: str | None, *uppers: int | None, moved: int | None = 0, **changed: Any) -> dict[str, Any]:
    row = {"pause_scope": scope, "pause_lower_ms": None, "pause_upper_ms": None, "partitions_moved": moved}
    return row | {"partitions_lost": 0, "partition_pauses": [{"pause_upper_ms": each} for each in uppers], **changed}


PARTITIONS = PauseScope.PARTITIONS


@pytest.mark.parametrize(
    ("row", "pause"),
    [
        (rebalance(None), UNKNOWN_PAUSE),
        (rebalance(PauseScope.GROUP, 9, pause_lower_ms=12, pause_upper_ms=340), Pause(12, 340)),
        (rebalance(PauseScope.GROUP, pause_lower_ms=12), Pause(12, None)),
        (rebalance(PARTITIONS, pause_lower_ms=0), NO_PAUSE),
        (rebalance(PARTITIONS, pause_lower_ms=0, partitions_lost=1), Pause(0, None)),  # it waits for the next round
        (rebalance(PARTITIONS, 700, 90_000, moved=2, pause_lower_ms=5), Pause(5, 90_000)),
        (rebalance(PARTITIONS, 700, 90_000, moved=2), Pause(None, 90_000)),  # KIP-848 writes no end of a join phase
        (rebalance(PARTITIONS, 700, None, moved=2, pause_lower_ms=5), Pause(5, None)),
        (rebalance(PARTITIONS, 700, moved=2, pause_lower_ms=5), Pause(5, None)),  # one was never committed
        (rebalance(PARTITIONS, 700, moved=None), UNKNOWN_PAUSE),
    ],
)
def test_bounds(row: dict[str, Any], pause: Pause) -> None:
    assert pause_of(row) == pause


@pytest.mark.parametrize(
    ("pause", "text"),
    [
        (Pause(12, 1_340), "at least 12 ms and at most 1,340 ms"),
        (Pause(12, None), "at least 12 ms"),
        (Pause(None, 340), "at most 340 ms"),
        (Pause(0, 340), "at most 340 ms"),
        (Pause(0, None), None),
        (UNKNOWN_PAUSE, None),
        (NO_PAUSE, None),
    ],
)
def test_words(pause: Pause, text: str | None) -> None:
    assert bounds_text(pause) == text

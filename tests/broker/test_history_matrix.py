"""Goal: the history of real groups of three clients agrees with the broker's server log and with their consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.kafka.matrix import SHORT
from lab.kafka.matrix_truth import Comparison, measure

if TYPE_CHECKING:
    from lab.kafka.local_broker import LocalBroker


@pytest.fixture(scope="module")
def comparison(broker: LocalBroker) -> Comparison:
    return measure(broker, SHORT)


def test_every_row_is_the_truth(comparison: Comparison) -> None:
    """Goal: no row is missing and none too many; owners, leaders and sizes are right; no replay contradicts a group."""
    assert comparison.wrong == []
    assert comparison.counts["generations"] > 10 * len(SHORT)
    assert comparison.counts["owners at an instant"] > 100 * len(SHORT)


def test_inferred_triggers(comparison: Comparison) -> None:
    """Goal: the guess of what started a rebalance is right in over 80 % of cases, and a guess with a confidence of 0.8
    or more in over 90 %."""
    right = [guessed.truth == guessed.guess for guessed in comparison.triggers]
    sure = [guessed.truth == guessed.guess for guessed in comparison.triggers if guessed.confidence >= 0.8]
    assert sum(right) > 0.8 * len(right)
    assert sum(sure) > 0.9 * len(sure) > 0

"""Goal: the history of KIP-848, share and streams groups is what the simulator's coordinator knew, whatever happens."""

from __future__ import annotations

import pytest

from lab.truth.modern_simulated import PLAYED, compare

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", PLAYED)
def test_history_is_the_truth(name: str) -> None:
    """Goal: who has what behind each operation, epochs with their causes, and members; `bench.modern_accuracy` has more
    seeds."""
    compared = compare(name, 1)
    assert {what: wrong for what, (_, wrong) in compared.items() if wrong} == {}
    assert all(count > 1 for count, _ in compared.values())

"""Goal: Kafka's cleaner thins a log between passes and during them; the ledger claims nothing wrong about it, and
reports all records of the parts from which nothing was removed.

An hour of ten very different groups is simulated; their records go into one partition, with a cleaner that works at
random. Passes read it at random instants, in pieces, and fold what they read. Each claim is held against the fold of
all records.
"""

from __future__ import annotations

import pytest

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from lab.truth.claims import false_claims, missing_rebalances
from lab.truth.thinned_passes import Passes

pytestmark = pytest.mark.slow

HOURS_SIMULATED = 2  # each with its own seed
CLEANINGS = 30  # of each hour


@pytest.mark.parametrize("seed", range(HOURS_SIMULATED))
@pytest.mark.parametrize("cleaning", range(CLEANINGS))
def test_every_claim_is_so(seed: int, cleaning: int) -> None:
    """Goal: no rebalance, interval, tenure, finding or owner is claimed that a ledger of the whole log does not have;
    a rebalance whose two records survive in a complete stretch is reported as it was."""
    passes = Passes(seed, cleaning)
    passes.run()
    found = passes.stretches(passes.known_until_ms)
    until_ms = (BEGAN_AT_MS, passes.cleaned.now_ms)
    for group_id, tables in passes.tables.items():
        truth = passes.truth[group_id]
        assert false_claims(tables, truth, found, until_ms, passes.random) == []
        assert missing_rebalances(tables, truth, found) == []


def test_the_cleaner_had_work() -> None:
    """Goal: the logs above are thinned in earnest: at least three of ten lose a tenth before it is read."""
    left = []
    for cleaning in range(10):
        passes = Passes(0, cleaning)
        passes.run()
        left.append(len(passes.read) / len(passes.log))
    assert sum(share < 0.9 for share in left) >= 3, left

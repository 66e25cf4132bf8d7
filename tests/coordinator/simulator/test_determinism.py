"""Goal: the seed decides everything, and nothing else does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def test_same_bytes_under_any_hash_seed() -> None:
    """Goal: processes that hash strings differently write the same records, lines, samples and truth."""
    runs = []
    for seed in ("0", "4711"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(HERE.parents[2])}
        command = [sys.executable, str(HERE / "digest.py")]
        runs.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert runs[0] == runs[1]
    assert len(runs[0]) == 64


def test_slices_do_not_matter_and_the_seed_does() -> None:
    """Goal: however the run is cut, the same comes out; another seed plays another run."""

    def run(seed: int, *stops_ms: int) -> list[object]:
        simulation = prepare(SCENARIOS["scale-in"], seed)
        began_at_ms = simulation.now_ms
        taken: list[object] = []
        for stop_ms in stops_ms:
            simulation.run(began_at_ms + stop_ms)
            outputs = simulation.take()
            taken += sorted((batch.partition, batch.base_offset, batch.timestamp_ms) for batch in outputs.batches)
        return taken

    assert run(7, 100_001, 100_002, 240_000) == run(7, 240_000)
    assert run(7, 240_000) != run(8, 240_000)

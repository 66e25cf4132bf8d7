"""Simulates an hour of very different groups, and cuts their log into pieces, as captures that grow.

Each piece is a folder with everything from the begin of the log up to the time of the piece: `capture/` (a file for
each piece so far, and the manifest), `watermarks/` and `group_states/` (the sampling rounds so far). A trial gives one
piece after the other to `pipeline --capture`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.simulator.described_groups import SimulatedGroupState
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.scenarios.day import at_pace_of_day
from groupledger.coordinator.simulator.scenarios.registry import Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, Settings, SimulatedWatermark, Simulation
from groupledger.jobs.demo.simulate import capture_table, table_of
from groupledger.jobs.ingest.capture import Manifest, write_manifest
from groupledger.jobs.warehouse.source import TopicIdentity
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from groupledger.coordinator.simulator.scenarios.script import Script

PLAYED = (
    *("scale-out", "crash", "transactional-commits", "flapping-member", "group-reborn", "leader-loss"),
    *("rolling-restart-static", "admin-reset", "coordinator-failover", "subscription-change"),
)
HOUR_MS = 3_600_000


def play(group: Script) -> None:
    at_pace_of_day(group)
    SCENARIOS[PLAYED[group.number]].play(group)


MIX = Scenario(
    name="mix", summary="One group of each kind.", play=play, hours=1, settings=Settings(Config()), groups=len(PLAYED)
)


def make_pieces(directory: Path, seed: int, count: int) -> list[Path]:
    """Simulates the log by `seed`, and returns the folders of its `count` pieces. Each folder has everything up to the
    time of its piece."""
    simulation = prepare(MIX, seed)
    files: dict[str, Any] = {}
    folders = []
    for number in range(1, count + 1):
        simulation.run(BEGAN_AT_MS + HOUR_MS * number // count)
        outputs = simulation.take(is_last=number == count)
        name = f"part-{number}.parquet"
        files |= {
            f"capture/{name}": capture_table(outputs.batches),
            f"watermarks/{name}": table_of(SimulatedWatermark, outputs.watermarks),
            f"group_states/{name}": table_of(SimulatedGroupState, outputs.group_states),
        }
        folders.append(directory / f"piece-{number}")
        write_piece(folders[-1], files, simulation)
    return folders


def write_piece(folder: Path, files: dict[str, Any], simulation: Simulation) -> None:
    for path, rows in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, folder / path)
    ends: Sequence[int] = [log.last_stable_offset for log in simulation.brokers.logs]
    manifest = Manifest(
        identity=TopicIdentity(simulation.cluster_id, simulation.offsets_topic_id, len(ends)),
        from_offsets=dict.fromkeys(range(len(ends)), 0),
        to_offsets=dict(enumerate(ends)),
        captured_at_ms=simulation.now_ms,
        completeness=Completeness.COMPLETE,
        began_at_ms=BEGAN_AT_MS,
    )
    write_manifest(LocalStorage(folder / "capture"), manifest)

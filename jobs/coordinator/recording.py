"""Writes the requests and records of a running coordinator into the same files as a simulation, so that the whole
pipeline can read them.

OUT/capture/        what `ingest --capture` reads
OUT/request-log/    a file for each node, of every request about a group and its answer
OUT/server-log/     a file for each node, of what its group coordinator logs
OUT/watermarks/     the ends of all topics, at each time that something was written
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from groupledger.jobs.demo.simulate import Files, write_capture_manifest
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.source import TopicIdentity
from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from groupledger.coordinator.simulator.simulation import Outputs
    from groupledger.jobs.coordinator.world import World


def check_empty(directory: Path) -> None:
    """Raises InputError if the directory is not empty."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"{directory} is not an empty directory: a recording needs one of its own.")


@contextmanager
def recording(directory: Path, world: World, stack: ExitStack) -> Iterator[Callable[[Outputs, int], None]]:
    """Yields a function that writes some outputs, with the time in milliseconds up to which they are complete. When the
    context ends, the capture's manifest is written, which says that the capture is complete up to the last of these
    times."""
    files = Files(directory, world.brokers.coordinators, stack)
    until_ms = world.began_at_ms

    def write(outputs: Outputs, now_ms: int) -> None:
        nonlocal until_ms
        until_ms = now_ms
        files.write(outputs)

    yield write
    identity = TopicIdentity(world.cluster_id, world.offsets_topic_id, len(world.brokers.logs))
    period_ms = (world.began_at_ms, until_ms)
    write_capture_manifest(directory / "capture", identity, world.brokers.logs, period_ms, Completeness.COMPLETE)

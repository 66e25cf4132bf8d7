"""Runs the coordinator until it is stopped, and writes its requests and records into files if asked."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from groupledger.jobs.coordinator.server import Clock, Listen, running
from groupledger.jobs.process.terminal import escaped

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from groupledger.jobs.coordinator.service import Service


def run(
    service: Service,
    clock: Clock,
    listen: Listen,
    out: Path | None,
    stop: threading.Event,
    write_every_s: float,
    say: Callable[[str], None],
) -> None:
    """Runs the coordinator until `stop` is set. If `out` is given, writes its requests and records there, every
    `write_every_s` seconds. Raises InputError for an invalid address, OutsideError if it can't listen there."""
    with ExitStack() as stack:
        write = None
        if out is not None:
            # Only writing captures needs Spark's Python packages.
            from groupledger.jobs.coordinator.recording import recording

            write = stack.enter_context(recording(out, service.world, stack))
        coordinator = stack.enter_context(running(service, clock, listen, say))
        say(f"bootstrap.servers={escaped(coordinator.bootstrap_servers)} until Ctrl-C")
        while not stop.wait(write_every_s):
            if write is not None:
                write(coordinator.call(lambda each: each.take()), clock.now_ms())
        if write is not None:
            write(coordinator.call(lambda each: each.take()), clock.now_ms())
            say(f"recorded in {escaped(str(out))}: ingest it with --capture {escaped(str(out))}/capture")

"""Names the faults of an import of brokers' logs: the import is killed, or files are cut short while it reads them.

The logs are those of a simulated hour. At the end the files are whole again, and the import has to give the tables that
an undisturbed import gives in another warehouse.
"""

from __future__ import annotations

import gzip
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from groupledger.jobs.demo.simulate import simulate
from lab.faults.contents import contents, differences
from lab.faults.growing_log import MIX
from lab.faults.kinds import some_call
from lab.faults.shim import COUNT
from lab.faults.trials import REPAIRS_MAX, lay_out, no_remedy

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lab.faults.trials import Trial

TABLES = ("requests", "coordinator_events", "log_quarantine")


def import_is_killed(trial: Trial, command: Sequence[str], _: Sequence[Path]) -> None:
    """Sends SIGKILL to an import, at a random time or in the middle of a call that changes a file."""
    at_a_call = trial.random.random() < 0.5
    process = trial.start(*command, twist=some_call(trial, command[0], "hold") if at_a_call else COUNT)
    moment_s = trial.random.random() * trial.stage.seconds
    if process.wait_for_mark() if at_a_call else process.sleep(moment_s):
        trial.note("killed" if at_a_call else f"killed after {moment_s:.1f} s")
        process.kill(with_java=trial.random.random() < 0.5)
        process.shim.until.touch()
        trial.is_killed = True
    trial.finish(process)


def logs_are_cut_short(trial: Trial, command: Sequence[str], logs: Sequence[Path]) -> None:
    """Truncates some of the `logs`, which may be compressed, before an import or while it reads them, and restores them
    afterwards."""
    cut = {path: path.read_bytes() for path in trial.random.sample(logs, trial.random.randint(1, len(logs)))}
    moment_s = trial.random.choice([0, trial.random.random()]) * trial.stage.seconds
    trial.note(f"{len(cut)} of {len(logs)} files, after {moment_s:.1f} s")
    process = trial.start(*command)
    process.sleep(moment_s)
    for path, content in cut.items():
        path.write_bytes(content[: trial.random.choice([0, trial.random.randrange(len(content))])])
    trial.is_touched = True
    trial.finish(process)
    for path, content in cut.items():
        path.write_bytes(content)


def try_import(trial: Trial, fault: Callable[[Trial, Sequence[str], Sequence[Path]], None]) -> None:
    """Applies a fault to an import, runs the import again until it succeeds, and writes the differences from an
    undisturbed import into `trial.judged`."""
    folder = trial.launcher.folder
    lay_out(folder, None, trial.stage.inputs, trial.stage.cluster)
    simulate(MIX, trial.random.randrange(1_000), folder / "logs", None, None, lambda _: None)
    logs = [packed(trial, path) for path in sorted((folder / "logs").glob("*-log/*"))]
    command = ("import-logs", *(f"--{name}={folder}/logs/{name}" for name in ("request-log", "server-log")))
    expected = undisturbed(trial, command)
    fault(trial, command, logs)
    trial.disturbed = list(trial.ends)
    is_repaired = any(trial.run(*command).code == 0 for _ in range(REPAIRS_MAX))
    trial.judged = differences(imported(folder), expected) if is_repaired else [no_remedy(trial)]


def undisturbed(trial: Trial, command: Sequence[str]) -> dict[str, Counter[str]]:
    """Returns the tables of an undisturbed import into another warehouse. Stores its duration and its counts of calls
    in the trial's stage, because they decide when a fault may happen."""
    fresh = replace(trial.launcher, folder=trial.launcher.folder.with_name("fresh"), started=[])
    lay_out(fresh.folder, None, trial.stage.inputs, trial.stage.cluster)
    began = time.monotonic()
    process = fresh.start(*command)
    try:
        ended = process.finish()
    finally:
        fresh.end_all()
    assert ended.code == 0, ended.said
    trial.stage = replace(trial.stage, seconds=time.monotonic() - began, counts={command[0]: process.shim.counts()})
    return imported(fresh.folder)


def imported(folder: Path) -> dict[str, Counter[str]]:
    return {name: rows for name, rows in contents(folder / "warehouse").items() if name in TABLES}


def packed(trial: Trial, path: Path) -> Path:
    """Compresses some of the files, as brokers do when they roll them, and returns the path of the resulting file."""
    if trial.random.random() < 0.7:
        return path
    to = path.with_name(f"{path.name}.gz")
    to.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    return to


FAULTS: dict[str, Callable[[Trial], None]] = {
    "import-is-killed": partial(try_import, fault=import_is_killed),
    "logs-are-cut-short": partial(try_import, fault=logs_are_cut_short),
}

"""Measures how commands end behind a signal: how long it takes, with which exit code, and what is in the tables then.

    python -m bench.signals [--commands pipeline ...] [--moments python jvm session work] [--signals SIGINT SIGTERM]

Each trial starts a command on the same warehouse and a small simulated capture, and sends the signal at a moment:

    python     before it says anything: Python imports, and reads the settings
    jvm        a second after it says that it starts Spark: the JVM comes up
    session    three seconds after that: Spark's session is made, and the SparkContext takes SIGINT
    work       half a second after it says anything else

Then the same command runs to its end, and all tables have to equal those of a run that nobody disturbed. A line is
printed for each trial; the program ends with 1 if one took longer than 15 s, had another exit code than that of its
signal, printed a traceback, or left other tables. A command that was done before the signal came is told as such.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.jobs.demo.simulate import simulate
from groupledger.jobs.process.session import SHORT_LIVED
from groupledger.jobs.process.signals import ENDED_BY_A_SIGNAL
from lab.faults.contents import contents, differences
from lab.faults.processes import TRACEBACK

if TYPE_CHECKING:
    from collections import Counter

SECONDS_MAX = 15.0
SCENARIO, SEED, GROUPS = "rolling-restart", 1, 2
OF_JAVA = ("Picked up ", "WARNING: ", "OpenJDK ")
MOMENTS = {"python": (0, 0.3), "jvm": (1, 1.0), "session": (1, 4.0), "work": (2, 0.5)}
"""By moment: after how many sentences of ours, and how many seconds after the last of them."""
COMMANDS = {
    "pipeline": (None, "--capture {capture} --samples {samples}"),
    "ingest": (None, "--capture {capture}"),
    "history": ("ingest", ""),
    "history --rebuild": ("pipeline", "--rebuild"),
    "incidents --update": ("pipeline", "--update"),
    "maintain": ("pipeline", ""),
}
"""By command: the one that makes the warehouse that it works on, and its options."""


@dataclass(frozen=True)
class Lab:
    """A folder with inputs and one warehouse, always at the same path, since Spark's checkpoints name files by it."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def start(self, command: str) -> subprocess.Popen[str]:
        options = COMMANDS[command][1].format(capture=self.folder / "sim" / "capture", samples=self.folder / "sim")
        place = ["--warehouse", str(self.warehouse)]
        return subprocess.Popen(
            [sys.executable, "-m", "groupledger.jobs.cli.main", command.split(maxsplit=1)[0], *place, *options.split()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED},
        )

    def run(self, command: str) -> None:
        """Runs a command to its end. Raises CalledProcessError if that is no success."""
        process = self.start(command)
        _, said = process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said)

    def lay_out(self, command: str) -> None:
        """Puts the warehouse there that a command works on, made once."""
        before = COMMANDS[command][0]
        kept = self.folder / f"before-{before}"
        shutil.rmtree(self.warehouse, ignore_errors=True)
        if before is None:
            return
        if not kept.exists():
            self.lay_out(before)
            self.run(before)
            shutil.copytree(self.warehouse, kept)
        else:
            shutil.copytree(kept, self.warehouse)


def read_sentences(process: subprocess.Popen[str], count: int) -> list[str]:
    """Returns the lines up to so many sentences of ours, or all if it says fewer."""
    assert process.stderr is not None
    found: list[str] = []
    while sum(not line.startswith(OF_JAVA) for line in found) < count:
        line = process.stderr.readline()
        if not line:
            break
        found.append(line)
    return found


def trial(lab: Lab, command: str, moment: str, number: signal.Signals, expected: dict[str, Counter[str]]) -> list[str]:
    """Tries one signal at one moment, and prints how it went; returns what was wrong."""
    sentences, seconds = MOMENTS[moment]
    lab.lay_out(command)
    process = lab.start(command)
    said = read_sentences(process, sentences)
    time.sleep(seconds)
    is_over = process.poll() is not None
    sent_s = time.monotonic()
    process.send_signal(number)
    _, rest = process.communicate()
    took_s = time.monotonic() - sent_s
    shown = "".join(said) + rest
    wrong = [] if took_s <= SECONDS_MAX else [f"took {took_s:.1f} s"]
    if not is_over and process.returncode != ENDED_BY_A_SIGNAL + number:
        wrong.append(f"code {process.returncode}")
    if TRACEBACK in shown:
        wrong.append("a traceback")
    last = (rest.strip().splitlines() or [""])[-1]
    print(f"{command:20} {moment:8} {number.name:8} {took_s:5.1f} s  code {process.returncode:3}  ", end="", flush=True)
    found = contents(lab.warehouse)
    lab.run(command)
    wrong += differences(contents(lab.warehouse), expected)
    tables = f"{len(found)} tables then" if found else "no table then"
    print(wrong or f"{tables}; {'over before' if is_over else 'equal after the next run'}; {last}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--moments", nargs="+", choices=MOMENTS, default=list(MOMENTS))
    parser.add_argument("--signals", nargs="+", choices=["SIGINT", "SIGTERM"], default=["SIGINT", "SIGTERM"])
    given = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="groupledger-signals-") as folder:
        lab = Lab(Path(folder))
        simulate(SCENARIOS[SCENARIO], SEED, lab.folder / "sim", GROUPS, None, print)
        for command in given.commands:
            lab.lay_out(command)
            lab.run(command)
            expected = contents(lab.warehouse)
            for moment in given.moments:
                for name in given.signals:
                    failed |= bool(trial(lab, command, moment, signal.Signals[name], expected))
    sys.exit(failed)


if __name__ == "__main__":
    main()

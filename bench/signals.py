"""Tests every long command with every signal at every moment: how long it takes to end, its exit code, and whether the
tables are correct after the next run.

    python -m bench.signals [--commands pipeline ...] [--moments jvm commit ...] [--signals SIGINT SIGTERM twice]
    python -m bench.signals --rotate        # at each moment one of the signals, in turns

Each trial starts a command on the same warehouse and a small simulated capture, or a real broker, and sends the signal
at a moment:

    start      before its first message: Python imports, and reads the settings
    jvm        a second after its message that it starts Spark: the JVM starts
    session    four seconds after that message: Spark's session is made, and the SparkContext takes SIGINT
    ready      half a second after its first message, for commands that print one
    work       half a second after its second message
    later      six seconds after its start, for commands that print no message
    commit     while the call that makes a file of a Delta log is held (`lab.faults.shim`), in the middle of all
    end        while the last write is held: the lease is released

`twice` is SIGTERM, and again a second later. Then the command has to end at once, while the call is still held. With
the other signals a held call continues after a second. Then the same command runs to its end (or, if it would run for
ever, another command that has an end), and all tables have to equal those of an undisturbed run. The program prints a
line for each trial. It ends with 1 if a command took too long, had another exit code than that of its signal, printed a
traceback, or left other tables. The line says so if the command was done before the signal came.
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
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.jobs.demo.simulate import simulate
from groupledger.jobs.process.session import SHORT_LIVED
from groupledger.jobs.process.signals import ENDED_BY_A_SIGNAL
from lab.faults.contents import contents, differences
from lab.faults.processes import TRACEBACK
from lab.faults.shim import COUNT, Shim, Twist, build_shim
from lab.kafka.local_broker import LocalBroker
from tests.fault.topic import fill, make_topic

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

SECONDS_MAX = 15.0
# A JVM needs one or two to follow.
SECONDS_MAX_AT_ONCE = 5.0
SCENARIO, SEED, GROUPS = "rolling-restart", 1, 2
OF_JAVA = ("Picked up ", "WARNING: ", "OpenJDK ")
WAITS = {
    "start": (0, 0.3),
    "jvm": (1, 1.0),
    "session": (1, 4.0),
    "ready": (1, 0.5),
    "work": (2, 0.5),
    "later": (0, 6.0),
}
"""By moment: after how many sentences of ours, and how many seconds after the last of them."""
PLACES = {"commit": "_delta_log", "end": "_groupledger"}
"""By moment at which a call is held: the place of the shim."""
MOMENTS = (*WAITS, *PLACES)
SIGNALS = ("SIGINT", "SIGTERM", "twice")
CODES = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "twice": signal.SIGTERM}
HELD_S = 1.0
HEAD = "| command | moment | signal | seconds | code | tables | last line |\n|---|---|---|---|---|---|---|"
# For commands that go on for ever: a call in their first commits.
EARLY_CALL = 12
# Tables that follow from the topic alone, whenever it is read.
OF_THE_TOPIC = ("coordinator_records", "generations", "groups", "members", "open_groups")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A command, the one that makes its warehouse, and its moments. `then` is the command to run afterwards, if it is
    another one; empty if it changes no table. `tables` are compared, by default all."""

    options: str = "--warehouse {warehouse}"
    before: str | None = None
    moments: Sequence[str] = ("work", *PLACES)
    then: str | None = None
    tables: Sequence[str] | None = None
    needs_broker: bool = False


CAPTURE = "--warehouse {warehouse} --capture {sim}/capture"
BROKER = "--warehouse {warehouse} --bootstrap-servers {broker}"
LOGS = "--warehouse {warehouse} --request-log {sim}/request-log --server-log {sim}/server-log"
ON_BROKER = "ingest of a broker"
SUBJECTS = {
    "pipeline": Subject(options=f"{CAPTURE} --samples {{sim}}", moments=("start", "jvm", "session", "work", *PLACES)),
    "ingest": Subject(options=CAPTURE),
    "history": Subject(before="ingest"),
    "history --rebuild": Subject(before="pipeline"),
    "import-logs": Subject(options=LOGS, before="ingest"),
    "incidents --update": Subject(before="pipeline"),
    "validate": Subject(before="pipeline", moments=("session", *PLACES)),
    "maintain": Subject(before="pipeline"),
    "import-logs --continuous": Subject(
        options=LOGS, before="ingest", then="import-logs", moments=("session", "work", "commit")
    ),
    "monitor": Subject(
        options=f"{BROKER} --metrics-port 0 --interval 2s",
        moments=("start", "jvm", "session", "work", "commit"),
        then="history of a broker",
        tables=OF_THE_TOPIC,
        needs_broker=True,
    ),
    "ingest --continuous": Subject(
        options=BROKER,
        moments=("session", "work", "commit"),
        then=ON_BROKER,
        tables=("coordinator_records",),
        needs_broker=True,
    ),
    "serve": Subject(
        options="--warehouse {warehouse} --listen 127.0.0.1:0", before="pipeline", then="", moments=("start", "ready")
    ),
    "lag --watch": Subject(before="pipeline", then="", moments=("start", "later")),
    "coordinator": Subject(options="--listen 127.0.0.1:0 --topics orders:2", then="", moments=("start", "ready")),
    "demo": Subject(options="--directory {folder}/demo", then="", moments=("session", "work")),
}
# Commands that only make warehouses, or finish them.
OTHERS = {
    ON_BROKER: Subject(options=BROKER, needs_broker=True),
    "history of a broker": Subject(before=ON_BROKER, needs_broker=True),
}


@dataclass
class Lab:
    """A folder with inputs and one warehouse, always at the same path, since Spark's checkpoints name files by it."""

    folder: Path
    library: Path
    broker: str = ""
    started: int = field(default=0)

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    def start(self, command: str, twist: Twist = COUNT) -> tuple[subprocess.Popen[str], Shim]:
        self.started += 1
        own = self.folder / f"process-{self.started}"
        own.mkdir()
        shim = Shim(self.library, self.warehouse, own, twist)
        words = {"warehouse": self.warehouse, "sim": self.folder / "sim", "folder": self.folder, "broker": self.broker}
        options = (SUBJECTS | OTHERS)[command].options.format(**words)
        typed = command.split(" of ", maxsplit=1)[0]
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "groupledger.jobs.cli.script",
                *typed.split(),
                *options.split(),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=own,
            env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED, **shim.environment},
        )
        return process, shim

    def run(self, command: str) -> dict[str, int]:
        """Runs a command to its end; returns the calls that the shim counted, by place. Raises CalledProcessError if it
        fails."""
        process, shim = self.start(command)
        _, said = process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, stderr=said)
        return shim.counts()

    def lay_out(self, command: str) -> None:
        """Puts a command's warehouse in place; it is made only once."""
        shutil.rmtree(self.folder / "demo", ignore_errors=True)
        shutil.rmtree(self.warehouse, ignore_errors=True)
        before = (SUBJECTS | OTHERS)[command].before
        if before is None:
            return
        kept = self.folder / f"before-{before}"
        if not kept.exists():
            self.lay_out(before)
            self.run(before)
            shutil.copytree(self.warehouse, kept)
        else:
            shutil.copytree(kept, self.warehouse)

    def finish(self, command: str) -> dict[str, int]:
        """Runs the rest of the command's work in the warehouse, and returns the calls that were counted."""
        then = SUBJECTS[command].then
        if then == "":
            return {}
        if then is None:
            return self.run(command)
        if then == "history of a broker":
            self.run(ON_BROKER)
        self.run(then)
        return dict.fromkeys(PLACES.values(), 2 * EARLY_CALL)

    def tables(self, command: str) -> dict[str, Counter[str]]:
        found, wanted = contents(self.warehouse), SUBJECTS[command].tables
        return {name: rows for name, rows in found.items() if wanted is None or name in wanted}


def read_sentences(process: subprocess.Popen[str], count: int) -> list[str]:
    """Returns the output lines up to the `count`-th message of ours, or all lines if there are fewer."""
    assert process.stderr is not None
    found: list[str] = []
    while sum(not line.startswith(OF_JAVA) for line in found) < count:
        line = process.stderr.readline()
        if not line:
            break
        found.append(line)
    return found


@dataclass(frozen=True)
class Trial:
    command: str
    moment: str
    sent: str

    def __call__(self, lab: Lab, counts: dict[str, int], expected: dict[str, Counter[str]]) -> list[str]:
        """Sends the signal at its moment, and prints the outcome; returns the problems."""
        place = PLACES.get(self.moment)
        calls = counts.get(place or "", 0)
        twist = Twist(act="hold", place=place, at=calls // 2 if place == "_delta_log" else calls) if place else COUNT
        lab.lay_out(self.command)
        process, shim = lab.start(self.command, twist)
        said = self.wait(process, shim)
        is_over = process.poll() is not None
        took_s, rest = self.signal(process, shim)
        # The code that a shell shows: when all is done Python gives its handlers back, and a signal kills it.
        code = process.returncode if process.returncode >= 0 else ENDED_BY_A_SIGNAL - process.returncode
        wrong = self.problems(code, took_s, "".join(said) + rest, is_over=is_over)
        found = lab.tables(self.command)
        lab.finish(self.command)
        wrong += differences(lab.tables(self.command), expected)
        last = (rest.strip().splitlines() or ["(nothing)"])[-1]
        after_next_run = "over before" if is_over else "equal after the next run" if expected else "none"
        print(
            f"| {self.command} | {self.moment} | {self.sent} | {took_s:.1f} | {code} |"
            f" {len(found)} then; {'; '.join(wrong) or after_next_run} | {last} |",
            flush=True,
        )
        return wrong

    def wait(self, process: subprocess.Popen[str], shim: Shim) -> list[str]:
        """Waits for the moment; returns the output until then."""
        if self.moment in PLACES:
            while not shim.mark.exists() and process.poll() is None:
                time.sleep(0.02)
            return []
        sentences, seconds = WAITS[self.moment]
        said = read_sentences(process, sentences)
        time.sleep(seconds)
        return said

    def signal(self, process: subprocess.Popen[str], shim: Shim) -> tuple[float, str]:
        """Sends the signal; returns the seconds until the command and its JVM were gone, and the output."""
        sent_s = time.monotonic()
        process.send_signal(CODES[self.sent])
        if self.moment in PLACES or self.sent == "twice":
            time.sleep(HELD_S)
        if self.sent == "twice":
            sent_s = time.monotonic()
            process.send_signal(CODES[self.sent])
            process.wait()
        shim.until.touch()
        _, rest = process.communicate()
        return time.monotonic() - sent_s, rest

    def problems(self, code: int, took_s: float, said: str, *, is_over: bool) -> list[str]:
        limit_s = SECONDS_MAX_AT_ONCE if self.sent == "twice" else SECONDS_MAX
        wrong = [f"took {took_s:.1f} s"] if took_s > limit_s else []
        if not is_over and code != ENDED_BY_A_SIGNAL + CODES[self.sent]:
            wrong.append(f"code {code}")
        if TRACEBACK in said:
            wrong.append("a traceback")
        return wrong


def trials(given: argparse.Namespace, command: str, turns: Iterator[str]) -> Iterator[Trial]:
    for moment in SUBJECTS[command].moments:
        if moment in given.moments:
            for sent in [next(turns)] if given.rotate else given.signals:
                yield Trial(command, moment, sent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--moments", nargs="+", choices=MOMENTS, default=list(MOMENTS))
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=list(SIGNALS))
    parser.add_argument("--rotate", action="store_true", help="At each moment one of the signals, in turns.")
    given = parser.parse_args()
    failed, turns = False, cycle(given.signals)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupledger-signals-")))
        lab = Lab(folder, build_shim(folder))
        simulate(SCENARIOS[SCENARIO], SEED, folder / "sim", GROUPS, None, lambda _: None)
        if any(SUBJECTS[command].needs_broker for command in given.commands):
            broker = stack.enter_context(
                LocalBroker(folder / "kafka", properties={"offsets.topic.num.partitions": "4"})
            )
            lab.broker = broker.bootstrap_servers
            make_topic(lab.broker)
            fill(lab.broker, 400)
        print(
            "| command | moment | signal | seconds | code | tables | last line |\n|---|---|---|---|---|---|---|",
            flush=True,
        )
        for command in given.commands:
            lab.lay_out(command)
            counts = lab.finish(command)
            expected = lab.tables(command)
            for trial in trials(given, command, turns):
                failed |= bool(trial(lab, counts, expected))
    sys.exit(failed)


if __name__ == "__main__":
    main()

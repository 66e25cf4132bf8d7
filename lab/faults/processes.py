"""Runs `groupledger` commands, and judges how they ended.

A command that is disturbed runs with the shim `system_calls.c`. If the fault kills it, it has a process of its own;
otherwise it runs in a warm process, which outlives the command (`warm`). Commands that nothing disturbs run in another
warm process.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.process.session import SHORT_LIVED
from lab.faults.shim import COUNT, Shim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.faults.shim import Twist
    from lab.faults.warm import WarmCommand, WarmProcess

TIMEOUT_S = 900
PAGE_BYTES, MIB = resource.getpagesize(), 1 << 20
CODES_OF_SENTENCES = (2, 3)
FINDINGS = 1  # of `validate`
CODES_EXPECTED = (0, FINDINGS, *CODES_OF_SENTENCES, 130, 143, -signal.SIGKILL)
WORKER = b"-m\0pyspark.daemon\0"
MESSAGE = "groupledger: "
LOGGED = re.compile(rf"^\S+Z ERROR (?:\S+ )?{MESSAGE}", re.MULTILINE)
TRACEBACK = "Traceback (most recent call last)"


def resident_mib(process: Path) -> int:
    """Returns the resident memory of a process in MiB. `process` is its folder in /proc. Raises OSError if the process
    has ended."""
    return int((process / "statm").read_text().split()[1]) * PAGE_BYTES // MIB


@dataclass(frozen=True)
class Ended:
    """A command that has ended, with its exit code and, in `said`, its standard error."""

    command: str
    code: int
    said: str

    @property
    def sentence(self) -> str:
        """Returns the last message of the command (a line that begins with `groupledger: `), or the last line of its
        standard error if it has no message. In the log line of a command that runs unattended, time and level are
        removed first."""
        lines = LOGGED.sub(MESSAGE, self.said.strip()).splitlines() or [""]
        return next((line for line in reversed(lines) if line.startswith(MESSAGE)), lines[-1])

    @property
    def is_clean(self) -> bool:
        """Returns whether the command ended as promised to users: with an expected exit code, without a traceback, and,
        if the code is 2 or 3, with a message."""
        has_sentence = self.code not in CODES_OF_SENTENCES or self.sentence.startswith(MESSAGE)
        return self.code in CODES_EXPECTED and TRACEBACK not in self.said and has_sentence


def processes_of(session: int) -> Iterator[Path]:
    """Yields the folders in /proc of the processes in a session. Each process can end at any time."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            # After the name, which may hold spaces: state, parent, group, session.
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[3]) == session:
                yield folder


class Victim(ABC):
    """A running command that a fault disturbs."""

    command: str
    shim: Shim

    @abstractmethod
    def sleep(self, seconds: float) -> bool:
        """Waits for `seconds` or until the command ends, and returns whether the command still runs."""

    @abstractmethod
    def finish(self) -> Ended:
        """Waits for the end of the command. A command that takes longer than `TIMEOUT_S` is killed, which is not a
        clean end."""

    @abstractmethod
    def signal_group(self, number: signal.Signals) -> None:
        """Sends a signal to the process of the command, its JVM and its workers."""

    @abstractmethod
    def workers(self) -> list[int]:
        """Returns the process ids of the Python workers that Spark runs for the command."""

    def wait_for_mark(self) -> bool:
        """Waits until the shim holds the process at its call. Returns False if the command ended before that call."""
        while not self.shim.mark.exists():
            if not self.sleep(0.02):
                return False
        return True


def workers_of(session: int) -> list[int]:
    """Returns the process ids of Spark's Python workers in a session."""
    found = []
    for folder in processes_of(session):
        with suppress(OSError):  # it has ended
            if WORKER in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


@dataclass
class Process(Victim):
    """A `groupledger` command in a process of its own, with its JVM and its workers in a process group."""

    command: str
    folder: Path
    process: subprocess.Popen[bytes]
    words: Path
    shim: Shim

    def is_running(self) -> bool:
        return self.process.poll() is None

    def signal_group(self, number: signal.Signals) -> None:
        signal_all(self.process.pid, number)

    def workers(self) -> list[int]:
        return workers_of(self.process.pid)

    def kill(self, *, with_java: bool) -> None:
        if with_java:
            self.signal_group(signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()

    def sleep(self, seconds: float) -> bool:
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def finish(self) -> Ended:
        code: int | None
        try:
            code = self.process.wait(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill(with_java=True)
            code = -signal.SIGALRM
        return Ended(self.command, code, self.words.read_text(errors="replace"))


def signal_all(group: int, number: signal.Signals) -> None:
    """Sends a signal to all processes of a process group, if there are any."""
    with suppress(ProcessLookupError):
        os.killpg(group, number)


@dataclass
class Launcher:
    """Starts commands with the warehouse and the settings in `folder`, and kills those that still run at the end.
    `shim` is the library; `warm` runs commands that nothing disturbs, and `victim` those that must outlive their
    fault."""

    folder: Path
    shim: Path
    warm: WarmProcess
    victim: WarmProcess
    started: list[Process] = field(default_factory=list)

    def start_warm(self, command: str, *arguments: str, twist: Twist = COUNT) -> WarmCommand:
        """Starts a command with a twist in the warm process `victim`. The twist must not end the process."""
        shim = self.victim.shim or Shim(self.shim, self.folder / "warehouse", new_folder(self.folder.parent / "victim"))
        self.victim.shim = shim
        shim.begin(twist)
        return self.victim.begin(" ".join([command, *arguments]), self._words(command, arguments))

    def start(
        self, command: str, *arguments: str, twist: Twist = COUNT, environment: Mapping[str, str] | None = None
    ) -> Process:
        own = self.folder / f"process-{len(self.started)}"
        own.mkdir()
        shim = Shim(self.shim, self.folder / "warehouse", own, twist)
        with (own / "words").open("wb") as words:
            process = subprocess.Popen(
                [sys.executable, "-m", "groupledger.jobs.cli.main", *self._words(command, arguments)],
                stdout=subprocess.DEVNULL,
                stderr=words,
                start_new_session=True,
                cwd=own,
                env={**os.environ, "JAVA_TOOL_OPTIONS": SHORT_LIVED, **shim.environment, **(environment or {})},
            )
        text = " ".join([command, *arguments])
        self.started.append(Process(text, own, process, own / "words", shim))
        return self.started[-1]

    def run(self, command: str, *arguments: str) -> Ended:
        """Runs a command to its end, with no fault."""
        return self.warm.run(" ".join([command, *arguments]), self._words(command, arguments))

    def _words(self, command: str, arguments: Sequence[str]) -> list[str]:
        place = ("--warehouse", str(self.folder / "warehouse"), "--conf", str(self.folder / "settings.yaml"))
        return [*command.split(), *place, *arguments]

    def end_all(self) -> None:
        """Kills all processes of this launcher that still run, including JVMs and workers."""
        for each in self.started:
            each.signal_group(signal.SIGKILL)
            each.process.wait()
        self.victim.close_if_busy()


def new_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder

"""Runs commands in processes that outlive them, whose JVMs are warm: a pass takes a third of the time there.

There are two such processes. One runs the repairs, and the undisturbed runs for comparison. The other has the shim, and
runs commands with a fault that does not end the process. So a trial also shows whether a process can continue after a
fault.

The process reads the arguments of a command from a line of JSON, and answers with the exit code and the standard error.
After each command Spark forgets the tables that it knows, because the next command may have another warehouse at the
same path.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lab.faults.processes import TIMEOUT_S, Ended, Victim, signal_all, workers_of
from lab.warehouses.sessions import OF_FEW_ROWS, forget_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.faults.shim import Shim


class WarmProcess:
    """A process that runs commands one after the other. It is started for the first command, and again after a command
    that ended it."""

    def __init__(self) -> None:
        self.shim: Shim | None = None
        self._process: subprocess.Popen[str] | None = None
        self._running: WarmCommand | None = None

    def begin(self, command: str, words: Sequence[str]) -> WarmCommand:
        """Starts a command whose arguments are `words`. The previous command must have ended."""
        assert self._running is None
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = _start({} if self.shim is None else self.shim.environment)
        print(json.dumps(words), file=self._process.stdin, flush=True)
        self._running = WarmCommand(command, self)
        return self._running

    def run(self, command: str, words: Sequence[str]) -> Ended:
        """Runs a command to its end."""
        return self.begin(command, words).finish()

    @property
    def group(self) -> int:
        assert self._process is not None
        return self._process.pid

    def answer(self, seconds: float) -> tuple[int, str] | None:
        """Returns the exit code of the running command and its standard error, or None if the command still runs after
        `seconds`. If the warm process itself has ended, returns -SIGALRM as the code."""
        assert self._process is not None
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], seconds)[0]:
            return None
        line = output.readline()
        self._running = None
        if not line:
            self.close()
            return -signal.SIGALRM, "the warm process has ended"
        code, said = json.loads(line)
        return code, said

    def close_if_busy(self) -> None:
        if self._running is not None:
            self.close()

    def close(self) -> None:
        """Kills the warm process with its JVM, if it runs."""
        self._running = None
        if self._process is not None:
            signal_all(self._process.pid, signal.SIGKILL)
            # The last command may not have reached it.
            with suppress(BrokenPipeError), self._process:
                pass
            self._process = None


@dataclass
class WarmCommand(Victim):
    """A command that runs in a warm process."""

    command: str
    warm: WarmProcess
    answer: tuple[int, str] | None = None

    @property
    def shim(self) -> Shim:  # type: ignore[override]  # nobody sets it
        assert self.warm.shim is not None
        return self.warm.shim

    def sleep(self, seconds: float) -> bool:
        self.answer = self.answer or self.warm.answer(seconds)
        return self.answer is None

    def finish(self) -> Ended:
        if self.sleep(TIMEOUT_S):
            self.warm.close()
        code, said = self.answer or (-signal.SIGALRM, "it took too long")
        return Ended(self.command, code, said)

    def signal_group(self, number: signal.Signals) -> None:
        signal_all(self.warm.group, number)

    def workers(self) -> list[int]:
        return workers_of(self.warm.group)


def _start(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def serve() -> None:
    """Runs the commands that arrive on standard input until it is closed."""
    from groupledger.jobs.process.session import SHORT_LIVED, spark_session

    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    with tempfile.TemporaryFile("w+", errors="replace") as said, Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
        os.dup2(said.fileno(), sys.stderr.fileno())
        spark = spark_session("groupledger faults", OF_FEW_ROWS, SHORT_LIVED)
        for line in sys.stdin:
            code = _run(json.loads(line))
            print(json.dumps([code, _said(said)]), file=answers, flush=True)
            spark.catalog.clearCache()
            forget_tables(spark)


def _run(words: Sequence[str]) -> int:
    from groupledger.jobs.cli.main import main

    try:
        main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _said(said: IO[str]) -> str:
    """Returns the output since the last call."""
    sys.stdout.flush()
    sys.stderr.flush()
    said.seek(0)
    found = said.read()
    said.seek(0)
    said.truncate()
    return found


if __name__ == "__main__":
    serve()

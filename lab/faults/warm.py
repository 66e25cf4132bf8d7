"""Runs commands that nothing disturbs in one process that stays, whose JVM is warm: a pass takes a third of the time
there. Most of a campaign is what repairs and what is compared with.

The process reads the words of a command, a line of JSON, and answers with its exit code and what it said. Between two
commands Spark forgets the tables it knows, since the warehouse is another one at the same path.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING

from lab.faults.processes import TIMEOUT_S
from lab.warehouses.sessions import OF_FEW_ROWS, forget_tables

if TYPE_CHECKING:
    from collections.abc import Sequence


class WarmProcess:
    """A process that runs commands one after the other. It starts with the first, and after one that took too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, words: Sequence[str]) -> tuple[int, str]:
        """Returns the exit code and what was said on standard error. A command that takes too long is no clean end."""
        if self._process is None:
            self._process = _start()
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        timer = Timer(TIMEOUT_S, os.killpg, (self._process.pid, signal.SIGKILL))
        timer.start()
        print(json.dumps(words), file=asked, flush=True)
        line = answered.readline()
        timer.cancel()
        if not line:
            self.close()
            return -signal.SIGALRM, "the warm process has ended"
        code, said = json.loads(line)
        return code, said

    def close(self) -> None:
        """Kills the process, with its JVM."""
        if self._process is not None:
            with self._process as process:
                os.killpg(process.pid, signal.SIGKILL)
            self._process = None


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def serve() -> None:
    """Answers commands until there are none."""
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
    """Returns what was said since the last time."""
    sys.stdout.flush()
    sys.stderr.flush()
    said.seek(0)
    found = said.read()
    said.seek(0)
    said.truncate()
    return found


if __name__ == "__main__":
    serve()

"""Starts Spark's JVM and, if it ends before it can be used, reports how it ended.

Pyspark only reports that the process exited, whether it lacked memory, was killed, or is the wrong Java. So the JVM's
standard error passes through this process, which copies it to its own and keeps the last line that says anything.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import suppress
from subprocess import Popen
from traceback import walk_tb
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

STANDARD_ERROR = 2
CHUNK_BYTES = 1 << 16
LINE_CHARACTERS_MAX = 300
JOIN_S = 5
# Lines that say nothing of their own: stack frames, and the closing words of Java's launcher.
EMPTY_LINE = re.compile(
    r"\s|$|\.\.\. \d+ more|Error: (Could not create the Java Virtual Machine|A fatal exception has occurred)"
)
NO_MEMORY = re.compile(r"errno=12|Cannot allocate memory|Not enough space|[Ii]nsufficient memory|OutOfMemoryError")
GIVE_MEMORY = "free memory, or give the process more, and run the command again."


class StandardError(threading.Thread):
    """Copies to our standard error what is written to the descriptor `writing`, until the last writer has closed it.
    `last` is the last line that says anything."""

    def __init__(self) -> None:
        super().__init__(name="standard error of Java", daemon=True)
        self.last = ""
        self._reading, self.writing = os.pipe()

    def run(self) -> None:
        begun = ""  # the line that has no end yet
        while chunk := os.read(self._reading, CHUNK_BYTES):
            with suppress(OSError):  # nobody may read ours any more
                os.write(STANDARD_ERROR, chunk)
            *lines, begun = (begun[-LINE_CHARACTERS_MAX:] + chunk.decode(errors="replace")).split("\n")
            self._keep(lines)
        self._keep([begun])
        os.close(self._reading)

    def _keep(self, lines: Iterable[str]) -> None:
        for line in lines:
            if not EMPTY_LINE.match(line):
                self.last = line.rstrip()[:LINE_CHARACTERS_MAX]


def launched(conf: SparkConf | None) -> JavaGateway:
    """Returns the gateway to a new JVM. Raises OutsideError if the JVM ends before it has opened its gateway."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch: Callable[..., JavaGateway] = launch_gateway
    said = StandardError()
    said.start()
    try:
        return launch(conf, {"stderr": said.writing})
    except PySparkRuntimeError as error:
        failure = error
    finally:
        os.close(said.writing)
    said.join(JOIN_S)
    raise OutsideError(why_it_ended(exit_code(failure), said.last)) from failure


def exit_code(failure: BaseException) -> int | None:
    """Returns the exit code of the process that pyspark started; below 0, it is the number of the signal that ended it.
    Pyspark keeps the process in a variable of the function that failed."""
    found = (frame.f_locals.get("proc") for frame, _ in walk_tb(failure.__traceback__))
    process = next((each for each in found if isinstance(each, Popen)), None)
    if process is None:
        return None
    if process.stdin is not None:
        process.stdin.close()
    return process.poll()


def why_it_ended(code: int | None, last: str) -> str:
    """Returns the sentence for a JVM that ended with an exit code after the line `last`."""
    begin = "Java could not be started: "
    if code == -signal.SIGKILL:
        return f"{begin}SIGKILL ended it, as the system does when memory is short: {GIVE_MEMORY}"
    by_signal = signal_name(code)
    ended = "it ended" if code is None else f"it ended with exit code {code}"
    how = ended if by_signal is None else f"{by_signal} ended it"
    wrote = f", and the last line that it wrote is: {printable(last)}" if last else " and wrote nothing"
    if NO_MEMORY.search(last):
        remedy = f"Memory was short: {GIVE_MEMORY}"
    elif by_signal is not None:
        remedy = "Find out who sent the signal, and run the command again."
    else:
        remedy = "Remove that cause and run the command again; `groupledger doctor` looks at Java, JARs and memory."
    return f"{begin}{how}{wrote}. {remedy}"


def signal_name(code: int | None) -> str | None:
    """Returns the name of the signal in an exit code; None if the process ended by itself."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

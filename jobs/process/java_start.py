"""Starts Spark's JVM and, if it ends before it can be used, reports how it ended.

Pyspark only reports that the process exited, whether it lacked memory, was killed, or is the wrong Java. What the JVM
writes goes to our own standard error: it is not read here, because the JVM outlives this process for a moment, and
whoever waits for the end of its output has to see that end (`jobs.process.class_archive`).
"""

from __future__ import annotations

import signal
from subprocess import Popen
from traceback import walk_tb
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable

    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf

GIVE_MEMORY = "free memory, or give the process more, and run the command again."


def launched(conf: SparkConf | None) -> JavaGateway:
    """Returns the gateway to a new JVM. Raises OutsideError if the JVM ends before it has opened its gateway."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch: Callable[..., JavaGateway] = launch_gateway
    try:
        return launch(conf)
    except PySparkRuntimeError as error:
        raise OutsideError(why_it_ended(exit_code(error))) from error


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


def why_it_ended(code: int | None) -> str:
    """Returns the sentence for a JVM that ended with an exit code."""
    begin = "Java could not be started: "
    if code == -signal.SIGKILL:
        return f"{begin}SIGKILL ended it, as the system does when memory is short: {GIVE_MEMORY}"
    by_signal = signal_name(code)
    if by_signal is not None:
        return f"{begin}{by_signal} ended it. Find out who sent the signal, and run the command again."
    ended = "it ended" if code is None else f"it ended with exit code {code}"
    return (
        f"{begin}{ended}, and what it wrote stands above. Where that is about memory, {GIVE_MEMORY}"
        " `groupledger doctor` looks at Java, JARs and memory."
    )


def signal_name(code: int | None) -> str | None:
    """Returns the name of the signal in an exit code; None if the process ended by itself."""
    if code is None or code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

"""Is the process from which Spark forks its Python workers on this machine: pyspark's own, without two of its waits.

Spark starts it by `spark.python.daemon.module`. Both waits are of Spark 4.0, and come with each task, which make up
most of ours have few rows and 10 ms of work:

- The archives `pyspark.zip`, `py4j-*-src.zip` and a JAR come before all else on the path of a worker. With each task it
  forgets what it knows of its path (`importlib.invalidate_caches`), and Python reads the directory of an archive again
  for each package that it has from it: 130 ms of processor time. The same modules lie beside the archives, as files.
- The JVM sends a task in two pieces. It keeps the second until the first is acknowledged (Nagle's algorithm), and the
  kernel lets an acknowledgement wait for 40 ms, in the hope of an answer that it can go with.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Work = Callable[[BinaryIO, BinaryIO], None]


def without_archives(path: Sequence[str], spark_home: Path) -> list[str]:
    """Returns a worker's path without what lies in Spark's folder, where that is the very package that pip installed,
    and is found without it."""
    is_installed = (spark_home / "__init__.py").is_file() and str(spark_home.parent) in path
    return [each for each in path if not (is_installed and spark_home in Path(each).parents)]


def answered_at_once(work: Work) -> Work:
    """Returns the work of a task, for which what arrives first is acknowledged without a wait. The kernel takes that
    for the next packets only, so that it is set for each task."""

    def work_at_once(told: BinaryIO, answers: BinaryIO) -> None:
        with socket.socket(fileno=os.dup(told.fileno())) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        work(told, answers)

    return work_at_once


def main() -> None:
    if "SPARK_HOME" in os.environ:
        sys.path[:] = without_archives(sys.path, Path(os.environ["SPARK_HOME"]))
        sys.path_importer_cache.clear()
    from pyspark import daemon

    if hasattr(socket, "TCP_QUICKACK"):  # Linux has it
        daemon.worker_main = answered_at_once(daemon.worker_main)
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()

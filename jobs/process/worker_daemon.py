"""Replaces Spark's daemon of Python workers, to print no traceback for a worker that ends because it was idle.

Spark (4.2) closes the socket of a worker that had nothing to do for a minute. The worker takes this for an error and
reports it to the JVM, which no longer listens. Over TCP that write succeeds; over a socket in a folder it fails, and
the daemon prints the failure. From Python 3.13 on, the file over the socket fails once more when it is dropped.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import daemon

if TYPE_CHECKING:
    import socket

_spark_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """Runs the tasks that come over a socket until the JVM closes it, and returns the exit code."""
    try:
        return _spark_worker(sock, authenticated)
    except BrokenPipeError:
        sys.unraisablehook = _report_all_but_broken_pipes
        return 1


def _report_all_but_broken_pipes(unraisable: sys.UnraisableHookArgs) -> None:
    if not isinstance(unraisable.exc_value, BrokenPipeError):
        sys.__unraisablehook__(unraisable)


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()

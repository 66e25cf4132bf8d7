"""Goal: a Python worker that Spark closes because it was idle ends without a word."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import socket, sys
from groupledger.jobs.process.worker_daemon import worker
ours, jvm = socket.socketpair()
jvm.close()
sys.exit(0 if worker(ours, True) else "the worker goes on")
"""


def test_an_idle_worker_that_is_closed() -> None:
    environment = {**os.environ, "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1"}  # Spark's default
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

"""Runs one query in a process of its own, which ends when its time is over, whatever it is doing.

DuckDB does not check for an interrupt while it parses, plans, or works within one call of a function, and thirty
kilobytes of text are enough for such a query. So the operating system ends this process: by an alarm that is not
handled here, and together with its parent (Linux). Its memory is limited, too, and a query that overflows the stack
ends only this process.

The question is one JSON object on standard input, the result an Arrow stream on standard output. The error, or null, is
JSON in a file that the caller holds open, since a stream may end anywhere. `query_client` is the caller.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.jobs.ask.engine import result_of
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.process.outside import explain

if TYPE_CHECKING:
    from collections.abc import Mapping

# The bytes that a pipe holds, with escapes, so that writing never waits for a reader.
TEXT_CHARACTERS_MAX = 4_000
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Runs the query, and ends with exit code 0 if it could report the outcome."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a terminal's Ctrl-C arrives here, too, and is reported by the parent
    question = json.load(sys.stdin)
    end_in_time(question["timeout_s"])
    limit_memory(question["memory_max_bytes"])
    with open(int(sys.argv[1]), "w", encoding="ascii") as said:  # noqa: PTH123 - a descriptor
        with open(apart_from_prints(), "wb") as out:
            failed = answer(question, out)
        json.dump(failed, said)


def apart_from_prints() -> int:
    """Returns a descriptor of the original standard output, and redirects standard output to standard error: libraries
    may print there, such as DuckDB's progress bar if it takes itself to be in a notebook."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


def end_in_time(timeout_s: float) -> None:
    """Makes the operating system end this process after some time, and together with its parent."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def limit_memory(memory_max_bytes: int) -> None:
    """Limits the memory of this process, on Linux only, to its present size and five quarters of `memory_max_bytes`
    beside that. Also turns off core dumps, which would contain the query's data."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    status = Path("/proc/self/status")
    match = re.search(r"VmData:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if match is None:
        return
    limit = int(match[1]) * 1024 + memory_max_bytes * 5 // 4
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def answer(question: Mapping[str, Any], out: IO[bytes]) -> dict[str, str] | None:
    """Runs the query and writes its result to `out` as it comes. Returns a description of the error that happened at
    any point, else None."""
    try:
        snapshots = Snapshots(question["warehouse"])
        limits = {name: question[name] for name in ("rows_max", "memory_max_bytes")}
        with result_of(snapshots, question["text"], question["parameters"], **limits) as batches:
            with pa.ipc.new_stream(out, batches.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            out.flush()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the asking process has to get it
        return what_failed(error)
    return None


def what_failed(error: BaseException) -> dict[str, str]:
    """Describes an error for the caller: a known error (`explain`) by its class and its sentence, a fault of
    groupledger by the exception's name and the traceback."""
    known = explain(error)
    if known is not None:
        return {"kind": type(known).__name__, "text": str(known)[:TEXT_CHARACTERS_MAX]}
    return {"kind": type(error).__name__, "text": traceback.format_exc()[-TEXT_CHARACTERS_MAX:]}

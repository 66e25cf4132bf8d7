"""Answers one query in a process of its own, which ends when its time is over, whatever it is doing.

DuckDB does not look at an interrupt while it parses, plans, or works within one call of a function, and such a query
takes thirty kilobytes of text. So the system itself ends this process: by an alarm that nothing here handles, and with
whoever asked (Linux). Its memory has a bound, too, and a query that overflows the stack ends nobody else.

A question is one object of JSON on standard input. The answer is a stream of Arrow on standard output. What went wrong,
or null, is JSON in a file that the caller holds open: a stream may break off anywhere. `apart` asks and reads.
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

from groupledger.jobs.ask.engine import asked
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.process.outside import explain

if TYPE_CHECKING:
    from collections.abc import Mapping

# So that nobody waits for it to be read: what a pipe holds, with escapes.
TEXT_CHARACTERS_MAX = 4_000
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def main() -> None:
    """Answers, and ends with exit code 0 if it could say what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a terminal's Ctrl-C arrives here, too, and is reported by the parent
    question = json.load(sys.stdin)
    end_in_time(question["timeout_s"])
    limit_memory(question["memory_max_bytes"])
    with open(int(sys.argv[1]), "w", encoding="ascii") as said:  # noqa: PTH123 - a descriptor
        with open(apart_from_prints(), "wb") as out:
            failed = answer(question, out)
        json.dump(failed, said)


def apart_from_prints() -> int:
    """Returns a descriptor of standard output, where from then on nothing else comes: libraries print there what they
    like, such as DuckDB the bar of its progress where it takes the program for a notebook."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return out


def end_in_time(timeout_s: float) -> None:
    """Lets the system end this process after some time, and with the one that started it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, timeout_s)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def limit_memory(memory_max_bytes: int) -> None:
    """Lets the system refuse this process more than a quarter above the memory of a query, beyond what it has, where
    the system can say how much memory it has (Linux). No file is left of what it held when it breaks down."""
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
    """Writes the answer as it comes. Returns what went wrong at any point of it."""
    try:
        snapshots = Snapshots(question["warehouse"])
        limits = {name: question[name] for name in ("rows_max", "memory_max_bytes")}
        with asked(snapshots, question["text"], question["parameters"], **limits) as batches:
            with pa.ipc.new_stream(out, batches.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            out.flush()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the asking process has to get it
        return what_failed(error)
    return None


def what_failed(error: BaseException) -> dict[str, str]:
    """Returns the class and the sentence of an error that has one; of a fault of ours its name and traceback."""
    known = explain(error)
    if known is not None:
        return {"kind": type(known).__name__, "text": str(known)[:TEXT_CHARACTERS_MAX]}
    return {"kind": type(error).__name__, "text": traceback.format_exc()[-TEXT_CHARACTERS_MAX:]}

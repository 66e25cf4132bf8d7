"""Runs a query in a process of its own (`query_process`), which ends together with this one.

The question goes through a pipe, because a process list shows the command line. Arrow is imported here while that
process starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.time_limit import too_late
from groupledger.jobs.process.errors import InputError, JobError, OutsideError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

MEMORY_MAX_BYTES = 2 << 30
# It imports groupledger from the same place as this process, and never from the working directory.
PROGRAM = (
    "import sys; sys.path[:] = filter(None, sys.path); from groupledger.jobs.ask.query_process import main; main()"
)
SENTENCES: dict[str, type[JobError]] = {each.__name__: each for each in (InputError, OutsideError, UnknownNameError)}


class QueryError(Exception):
    """A fault of groupledger in the process of a query; the text is the traceback from there."""


def ask(
    warehouse: str,
    text: str,
    parameters: Mapping[str, str],
    *,
    rows_max: int | None = None,
    timeout_s: float,
    memory_max_bytes: int = MEMORY_MAX_BYTES,
) -> pa.Table:
    """Returns the result of one statement, or its first `rows_max` rows.

    Raises InputError for a statement that does more than read, is wrong, lacks a parameter, or takes too much memory or
    time; OutsideError if the tables can't be read.
    """
    question = {
        "warehouse": warehouse,
        "text": text,
        "parameters": dict(parameters),
        "rows_max": rows_max,
        "timeout_s": timeout_s,
        "memory_max_bytes": memory_max_bytes,
    }
    reading, writing = os.pipe()
    with open(reading, encoding="ascii") as said:  # noqa: PTH123 - a descriptor
        try:
            process = begun(writing)
        finally:
            os.close(writing)
        with process:
            try:
                answer = answered(process, json.dumps(question).encode())
                error_text = said.read()  # its alarm bounds how long that takes
            finally:
                process.kill()
    failed = json.loads(error_text) if error_text else None
    if answer is not None and error_text and failed is None:
        return answer
    raise failure(failed, process.returncode, timeout_s)


def begun(writing: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(writing)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(writing,),
    )


def answered(process: subprocess.Popen[bytes], question: bytes) -> pa.Table | None:
    """Sends the question to the process and returns the result; None if the process ended before the result was
    complete."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    with suppress(BrokenPipeError), process.stdin as stream:  # it has ended, and says why, or its exit code does
        stream.write(question)
    import pyarrow as pa

    from groupledger.jobs.process.arrow_values import plain

    try:
        with process.stdout as stream:
            return plain(pa.ipc.open_stream(stream).read_all())
    except (pa.ArrowException, OSError):
        return None


def failure(failed: Mapping[str, Any] | None, code: int, timeout_s: float) -> Exception:
    """Returns the error for a query that failed, from the error that its process reported, or from how it ended."""
    if failed is not None:
        kind = SENTENCES.get(failed["kind"])
        return QueryError(failed["text"]) if kind is None else kind(failed["text"])
    if code == -signal.SIGALRM:
        return too_late(timeout_s)
    if code == -signal.SIGKILL:
        return OutsideError("The system ended the query, most likely because memory was short: ask for less.")
    if code >= 0:
        return OutsideError(f"The process of the query could not begin (exit code {code}), most likely without memory.")
    how = signal.Signals(-code).name
    return InputError(f"DuckDB broke down over the query ({how}): ask it in a simpler form, or for less.")

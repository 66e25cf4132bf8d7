"""Computes a what-if in a process of its own, so that a server can answer other requests meanwhile.

It plays the group's members ten times for each setting, which keeps a processor busy for seconds, and for a group that
rebalances all day far longer. So the process ends when its time is over, and its memory is limited, as for queries
(`query_process`). The question is JSON on its standard input, and the answer, or the error, JSON on its standard
output.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.query_client import SENTENCES
from groupledger.jobs.process.errors import InputError, OutsideError

if TYPE_CHECKING:
    from groupledger.jobs.ask.what_if import WhatIfQuestion
    from groupledger.jobs.process.output import Answer

MEMORY_MAX_BYTES = 1 << 30
# It imports groupledger from the same place as this process, and never from the working directory.
PROGRAM = (
    "import sys; sys.path[:] = filter(None, sys.path); from groupledger.jobs.ask.what_if_process import main; main()"
)


class WhatIfError(Exception):
    """A fault of groupledger in the process of a what-if; the text is the traceback from there."""


def ask(warehouse: str, cluster: str, name: str, question: WhatIfQuestion, timeout_s: float) -> list[Answer]:
    """Returns the answers for the group `name`. Raises InputError for unknown settings, and if it takes longer than
    `timeout_s` seconds; OutsideError if the tables can't be read."""
    asked = {"warehouse": warehouse, "cluster": cluster, "name": name, "question": asdict(question)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps({**asked, "timeout_s": timeout_s}, default=datetime.isoformat).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode == -signal.SIGALRM:
        raise InputError(f"The simulation of this time takes longer than {timeout_s:g} s: ask for a shorter one.")
    if done.returncode:
        raise OutsideError(f"The process of a what-if ended with {done.returncode}, most likely without memory.")
    result: dict[str, Any] = json.loads(done.stdout)
    if "answers" not in result:
        raise SENTENCES.get(result["kind"], WhatIfError)(result["text"])
    answers: list[Answer] = result["answers"]
    return answers


def main() -> None:
    from groupledger.jobs.ask.query_process import apart_from_prints, end_in_time, limit_memory, what_failed

    asked = json.load(sys.stdin)
    end_in_time(asked["timeout_s"])
    limit_memory(MEMORY_MAX_BYTES)
    with open(apart_from_prints(), "w", encoding="ascii") as out:  # noqa: PTH123 - a descriptor
        try:
            found: dict[str, Any] = {"answers": _answers(asked)}
        except BaseException as error:  # noqa: BLE001 - whatever it is, the asking process has to get it
            found = what_failed(error)
        json.dump(found, out)


def _answers(asked: dict[str, Any]) -> list[Answer]:
    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.what_if import WhatIfQuestion, what_if

    given = asked["question"]
    question = WhatIfQuestion(
        since=datetime.fromisoformat(given["since"]),
        until=datetime.fromisoformat(given["until"]),
        settings=tuple(map(tuple, given["settings"])),
        actual=tuple(given["actual"]),
        consumer_session_ms=given["consumer_session_ms"],
    )
    (answers,) = what_if(ClusterRows(asked["warehouse"], asked["cluster"]), [asked["name"]], question)
    return answers

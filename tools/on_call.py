"""Writes `docs/on_call.md`: `python -m tools.on_call`.

Each of the fourteen questions has a command, followed by its output for the demo's day (`jobs.demo.shipped`), which
ends at noon here. A test runs all of them again and compares.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from groupledger.jobs.cli.main import main as command_line
from groupledger.jobs.demo.shipped import unpack
from tools.setup import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "on_call.md"
END = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
WIDTH_MAX, TEXT_WIDTH_MAX = 260, 116
HEAD = """\
<!-- Made by `python -m tools.on_call`; a test runs every command again and compares the answers. -->

# On call: fourteen questions

Each has one command, what it answers, and the page that says more. The answers are real ones, of the day that comes with
groupledger. To ask the same yourself, make that day first; it takes some seconds, and neither Java nor Kafka:

    groupledger demo --packed --until 2026-11-25T12:00Z
    export GROUPLEDGER_WAREHOUSE=demo/warehouse

On your own warehouse you can write an age instead of an instant, which counts from now: `--since 2h` is two hours ago.
`--json` gives each answer with all that is known of it, and `groupledger serve` has the same as pages. Lines that are long
or many are cut here (`...`).
"""
TAIL = """\
## And then

If the answer is `unknown`, it says why; [troubleshoot](troubleshoot.md) has what helps. To know whether another setting
would have saved the group its rebalances, `groupledger what-if GROUP --setting static` plays its members again under that
setting ([what-if](what_if.md)).
"""


@dataclass(frozen=True)
class Question:
    title: str
    command: str
    reading: str
    """How to read the answer, with a link to the page that says more."""
    lines_max: int = 12
    width_max: int = WIDTH_MAX


QUESTIONS = (
    Question(
        "Which groups are in trouble?",
        "groups",
        "Those in trouble come first. `STATUS` is the worst of a group's partitions, and `OPEN-INCIDENTS` counts the"
        " incidents that are not over: a group whose trouble only its lag shows has none. `groups --why` says what is wrong"
        " with each. Here one group is stuck at noon. More: [lag](lag.md#status).",
        6,
    ),
    Question(
        "What is wrong with this group, since when, and who can fix it?",
        "why shipping-labels --since 2026-11-25T10:00Z --limit 3",
        "The diagnosis comes first: the cause if it is proved, else those that are left. Then what it cost, the setting to"
        " change, who has to act, and how it is known. If nobody of yours runs these clients, send those lines to whoever"
        " does. Below stands what happened, in the order of time. More: [causes](causes.md).",
        width_max=TEXT_WIDTH_MAX,
    ),
    Question(
        "How far behind is it, and is that a problem?",
        "lag --group shipping-labels --at 2026-11-25T11:10Z",
        "`stopped` is a problem: records wait and nobody commits. `ok` with a lag is no problem. More: [lag](lag.md).",
    ),
    Question(
        "Who owned this partition when it happened?",
        "owner shipping-labels orders.shipping-labels 2 --at 2026-11-25T11:10Z",
        "`unowned`, `reserved`, `not_born`, `ended` and `unknown` are five other answers. More: [concepts](concepts.md).",
        16,
    ),
    Question(
        "Who left, or was thrown out, and why?",
        "group shipping-labels --since 2026-11-25T11:00Z --until 2026-11-25T11:08Z",
        "A line `left` names the member and the reason, with a confidence below 1 where only the records suggest it."
        " More: [the request log](request_log.md) makes reasons sure.",
    ),
    Question(
        "What else went wrong at that time?",
        "incidents --since 2026-11-25T11:00Z",
        "The incidents of all groups, each in two sentences. A group whose trouble only its lag shows has none: if there are"
        " such groups, the last lines count them, and `groups --why` has those, too. Several groups at one instant point to"
        " the brokers, not to the clients. More: [causes](causes.md).",
        14,
    ),
    Question(
        "Was anything processed twice?",
        "sql --named processed-twice",
        "`RECORDS_MIN` and `RECORDS_MAX` bound it. `observed` was refused by a broker; `inferred` follows from the commits."
        " `groupledger sql --list` shows all ready queries. More: [in SQL](sql.md).",
    ),
    Question(
        "Did we lose anything?",
        "sql --named never-read",
        "Records that no member of a group ever read, at most `RECORDS_MAX`, with their offsets where these are known:"
        " passed by a reset, by retention, or by `auto.offset.reset`. Read them with another group; a reset of this one"
        " would read again all that it has read since. More: [undoing a bad reset](asking.md#undoing-a-bad-reset).",
    ),
    Question(
        "Who rebalances all the time?",
        "rebalances --top 5",
        "With `--group` each rebalance is a line, with its trigger and its pause. More: [concepts](concepts.md).",
    ),
    Question(
        "What is different from before?",
        "diff shipping-labels --from 2026-11-25T11:00Z --to 2026-11-25T11:15Z",
        "Members, owners, settings and lag at two instants. The member with a new id is the same process: its"
        " client id and host did not change. More: [asking](asking.md).",
    ),
    Question(
        "Did last night's deployment cost anything?",
        "deploy order-archive --at 2026-11-25T11:20Z",
        "The one of that instant, or the last one before it, beside those before. `deploys` lists them, of all groups, too."
        " More: [asking](asking.md#did-the-deployment-cost-anything).",
        4,
    ),
    Question(
        "Who reads this topic?",
        "readers orders.checkout",
        "Owners, members that subscribe to it, and whoever has committed offsets in it. Ask before you delete or reset a"
        " topic. More: [asking](asking.md).",
    ),
    Question(
        "Somebody reset the offsets. Who, and where were they before?",
        "audit seo-crawler",
        "With a request log it names principal, client and host. The packed day has no request log, so that it stays small."
        " `audit seo-crawler --undo 34/309` prints the file that undoes the deletion, for Kafka's own"
        " tool, and says beside it what the group would read again. Of the move back (`34/23`) nothing is left to undo,"
        " since the group has read up to its earlier offsets again. Do not execute the offsets of an earlier instant instead"
        " (`offsets NAME --at TIME`): they take the group back over all that it has read since. More: [undoing a bad"
        " reset](asking.md#undoing-a-bad-reset).",
    ),
    Question(
        "Which groups are about to lose their offsets?",
        "idle --fraction 0",
        "With `--fraction 0` all that could lose them, without it those that are half-way there. This one only keeps them"
        " while it has members. More: [alerts](alerts.md).",
    ),
)


def page() -> str:
    """Returns the text of the page."""
    with tempfile.TemporaryDirectory() as directory, in_utc():
        unpack(Path(directory), END)
        parts = [part for question in QUESTIONS for part in described(question, directory)]
    return "\n".join([HEAD, *parts, TAIL])


def described(question: Question, warehouse: str) -> Iterator[str]:
    yield f"## {question.title}\n"
    yield f"    $ groupledger {question.command}"
    lines = answer(question.command, warehouse)
    yield from (f"    {shortened(line, question.width_max)}".rstrip() for line in lines[: question.lines_max])
    if len(lines) > question.lines_max:
        yield "    ..."
    yield f"\n{question.reading}\n"


def answer(command: str, warehouse: str) -> list[str]:
    """Returns the lines that a command prints. Raises ValueError if it fails."""
    done = CliRunner().invoke(command_line, shlex.split(command), env={"GROUPLEDGER_WAREHOUSE": warehouse})
    if done.exit_code:
        raise ValueError(f"`groupledger {command}` ended with {done.exit_code}: {done.output}")
    return done.stdout.splitlines()


def shortened(line: str, width_max: int) -> str:
    return line if len(line) <= width_max else f"{line[: width_max - 4]} ..."


@contextmanager
def in_utc() -> Iterator[None]:
    """Removes the GROUPLEDGER_* variables for the block, so that neither the caller's time zone nor any other setting
    of the environment changes the answers."""
    kept = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("GROUPLEDGER_")}
    try:
        yield
    finally:
        os.environ.update(kept)


if __name__ == "__main__":
    PAGE.write_text(page())

"""The command that asks who reset, moved or removed committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import SINCE, UNTIL
from groupledger.jobs.cli.limits import LIMIT, last
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import print_answers, warn
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.question import Question


@click.command()
@group_name
@question(Source.HISTORY)
@SINCE
@UNTIL
@LIMIT
@click.option("--undo", metavar="RECORD", help="Print the file that undoes this operation, for Kafka's reset tool.")
def audit(
    job: Question,
    *,
    name: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    undo: str | None,
    as_json: bool,
) -> None:
    """Show who reset, moved or removed committed offsets: when, from which offset to which, which records are read
    again or never, and the file that undoes it.

    Principal, client and host come from a request log, where one was imported; else it says why they are unknown."""
    if undo is not None and as_json:
        raise click.UsageError("--undo prints a file: leave out --json.")
    tables = job.rows()
    from groupledger.jobs.ask.audit import COLUMNS, OPTIONAL, act_of, cells
    from groupledger.jobs.ask.audit import audit as find

    found = find(tables, name, since, until)
    if undo is not None:
        from groupledger.jobs.ask.undo import undo as undone

        plan = undone(tables, act_of(found, undo))
        if plan.lines:
            click.echo("\n".join(plan.lines))
        for note in plan.notes():
            warn(note)
        return
    shown = last(found, limit)
    title, optional = ("Audit", ()) if name is None else (f"Audit of {printable(name)}", ("group_id",))
    rows = shown if as_json else map(cells, shown)
    print_answers(title, COLUMNS, rows, as_json=as_json, optional=(*optional, *OPTIONAL))

"""The commands that list deployments, and show what one cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import AT_OR_LAST, SINCE, UNTIL
from groupledger.jobs.cli.limits import LIMIT, last
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answer, print_answers, print_json, say
from groupledger.jobs.process.terminal import escaped, fitted, printable
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
def deploys(
    job: Question, *, name: str | None, since: datetime | None, until: datetime | None, limit: int, as_json: bool
) -> None:
    """Show the deployments of a group or of all: every member was replaced within minutes, in good order. For each,
    show its cost (rebalances, standstill, peak of lag), and the cost of earlier ones.

    Possible deployments are listed, too, with the reason for the doubt."""
    tables = job.rows()
    from groupledger.jobs.ask.deploys import COLUMNS, OPTIONAL, cells
    from groupledger.jobs.ask.deploys import deploys as find

    found = find(tables, name, since, until)
    shown = last(found, limit)
    if not shown:
        job.say_none("no deployment is known of that time")
    title, optional = ("Deployments", ()) if name is None else (f"Deployments of {printable(name)}", ("group_id",))
    rows = shown if as_json else map(cells, shown)
    print_answers(title, COLUMNS, rows, as_json=as_json, optional=(*optional, *OPTIONAL))


@click.command()
@click.argument("name", shell_complete=group_names)
@question(Source.HISTORY)
@AT_OR_LAST
def deploy(job: Question, *, name: str, at: datetime | None, as_json: bool) -> None:
    """Show what a deployment of a group cost: the one that was going on at an instant, or the last one before it."""
    tables = job.rows()
    from groupledger.jobs.ask.deploys import deploy_at, sentences

    at = at or job.end()
    found, other = deploy_at(tables, name, at)
    if other is not None:
        say(f"what went on in {printable(name)} at {in_zone(at)} was no deployment: {other}")
    if found is None:
        say(f"no deployment of {printable(name)} is known that began by {in_zone(at)}")
        return
    if as_json:
        print_json([found])
        return
    first, *others = sentences(found)
    for sentence in (f"{name}, {in_zone(found['began_at'])}: {first}", *others):
        click.echo("\n".join(fitted(escaped(sentence))))
    lists = {name: ", ".join(found[name]) or None for name in ("versions_before", "versions_after")}
    print_answer(f"Deployment of {printable(name)}", {**found, **lists, "before": None})

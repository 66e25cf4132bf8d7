"""The command that compares a group at two instants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import instant
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answers, say
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.options import Job


@click.command()
@click.argument("name", shell_complete=group_names)
@question(Source.HISTORY)
@click.option("--from", "then", required=True, type=instant, metavar="TIME", help="The first instant, as 14:03 or 2h.")
@click.option(
    "--to", "now", type=instant, metavar="TIME", help="The second instant; the last that is known unless given."
)
def diff(job: Job, *, name: str, then: datetime, now: datetime | None, as_json: bool) -> None:
    """Show what is different about a group between two instants: generation, members, who owns what, and lag."""
    from groupledger.jobs.ask.group_diff import COLUMNS, group_diff

    now, found = group_diff(job.rows(), name, then, now)
    title = f"{printable(name)} at {in_zone(then)} and at {in_zone(now)}"
    if found:
        print_answers(title, COLUMNS, found, as_json=as_json, optional=())
    else:
        say(f"nothing is different of {title}")

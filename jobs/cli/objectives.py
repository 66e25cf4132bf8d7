"""The command that shows how groups stand by their objectives of lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import UNTIL
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answers, say
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.question import Question


@click.command()
@group_name
@question(Source.SAMPLES)
@UNTIL
def objectives(job: Question, *, name: str | None, until: datetime | None, as_json: bool) -> None:
    """Show how groups stand by their objectives of lag (`objectives` in the settings): attainment, what is left of the
    budget, and how fast it burns. What burns comes first."""
    tables = job.rows()
    from groupledger.jobs.ask.answers import group_row
    from groupledger.jobs.ask.objectives import COLUMNS, OPTIONAL
    from groupledger.jobs.ask.objectives import objectives as standings

    if name is not None:
        group_row(tables, name)
    end, found = standings(tables, job.settings, None if name is None else [name], until)
    say(f"minutes until {in_zone(end)}; those that were not sampled, or whose lag is not known, are unknown")
    print_answers("Objectives", COLUMNS, found, as_json=as_json, optional=OPTIONAL)
    if not found:
        job.say_none("no objective of the settings is about it" if name else "no group has an objective")

"""The command that shows whether groups meet their objectives of lag."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import SINCE, UNTIL
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answers, say
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.cli.question import Question

PERIOD = timedelta(days=30)


@click.command()
@group_name
@question(Source.SAMPLES)
@click.option(
    "--report",
    "is_report",
    is_flag=True,
    help="For each team of the settings: availability, minutes stopped by cause, records read twice, rebalances; of the"
    " last 30 days, or from --since on.",
)
@SINCE
@UNTIL
def objectives(
    job: Question, *, name: str | None, is_report: bool, since: datetime | None, until: datetime | None, as_json: bool
) -> None:
    """Show whether groups meet their objectives of lag (`objectives` in the settings): attainment, the budget that is
    left, and how fast it is used up. Groups that use it up come first."""
    if since is not None and not is_report:
        raise click.UsageError("--since needs --report: otherwise the windows are those of the settings.")
    if is_report and name is not None:
        raise click.UsageError("--report is about all groups: leave out NAME.")
    tables = job.rows()
    if is_report:
        end = until or job.end()
        print_report(tables, job.settings.team_patterns(), since or end - PERIOD, end, as_json=as_json)
        return
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


def print_report(
    tables: ClusterRows, teams: Mapping[str, str], since: datetime, until: datetime, *, as_json: bool
) -> None:
    from groupledger.jobs.ask.consumption import CAUSE_COLUMNS, COLUMNS, causes, report_by_team

    found = report_by_team(tables, teams, since, until)
    print_answers(f"From {in_zone(since)} to {in_zone(until)}", COLUMNS, found, as_json=as_json)
    if not as_json:
        print_answers("Minutes stopped, by cause", CAUSE_COLUMNS, causes(found), as_json=False)

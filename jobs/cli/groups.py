"""The command that lists groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import print_answers
from groupledger.schemas.words import GroupType, LagStatus, Source, words_of

if TYPE_CHECKING:
    from groupledger.jobs.cli.question import Question


@click.command()
@click.argument("pattern", required=False, shell_complete=group_names)
@question(Source.HISTORY)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(words_of(LagStatus)),
    help="Only groups with this status of lag.",
)
@click.option(
    "--type", "group_types", multiple=True, type=click.Choice(words_of(GroupType)), help="Only groups of this type."
)
@click.option("--team", metavar="TEAM", help="Only groups of this team (`teams` in the settings).")
@click.option("--all", "with_ended", is_flag=True, help="Also groups that have ended.")
def groups(
    job: Question,
    *,
    pattern: str | None,
    statuses: tuple[str, ...],
    group_types: tuple[str, ...],
    team: str | None,
    with_ended: bool,
    as_json: bool,
) -> None:
    """List the groups, those in trouble first: state, lag, status and open incidents.

    PATTERN is a part of the name or, with a * in it, the whole: 'pay', 'pay*'.
    """
    from groupledger.jobs.ask.group_list import COLUMNS, OPTIONAL, GroupFilter, group_list

    teams = {} if job.conf is None else job.settings.team_patterns()  # the shipped settings know none
    if team is not None and team not in teams:
        known = f"there are {', '.join(teams)}" if teams else "the settings name no teams"
        raise click.BadParameter(f"{team!r} is no team: {known}.", param_hint="--team")
    wanted = GroupFilter(pattern=pattern, statuses=statuses, group_types=group_types, team=team, with_ended=with_ended)
    tables = job.rows()
    found = group_list(tables, wanted, teams)
    columns = [name for name in COLUMNS if teams or name != "team"]
    print_answers("Groups", columns, found, as_json=as_json, optional=[name for name in OPTIONAL if name in columns])
    if not found:
        job.say_none("no matching group; --all shows those that have ended, too")

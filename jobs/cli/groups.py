"""The command that lists groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import number_of, print_answers, print_json, say
from groupledger.jobs.process.terminal import fitted
from groupledger.schemas.words import GroupType, LagStatus, Source, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.cli.question import Question
    from groupledger.jobs.process.output import Answer


DIAGNOSED_MAX = 20


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
@click.option(
    "--why",
    "with_why",
    is_flag=True,
    help="Only groups in trouble, with the present diagnosis of each, the most severe first.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=DIAGNOSED_MAX,
    show_default=True,
    help="With --why: diagnose only the N groups with the most severe trouble; each takes a moment.",
)
def groups(  # noqa: PLR0913 - one for each option
    job: Question,
    *,
    pattern: str | None,
    statuses: tuple[str, ...],
    group_types: tuple[str, ...],
    team: str | None,
    with_ended: bool,
    with_why: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the groups, those in trouble first: state, lag, status and open incidents.

    PATTERN is a part of the name or, with a * in it, the whole: 'pay', 'pay*'.

    First come groups with open incidents of severity error, then groups that are stopped, stalled or unsubscribed,
    then those with warnings and other troubled statuses. The status is the worst of the group's partitions. Open
    incidents are those of severity warning or error, and a group can have stopped without one: --why says what is
    wrong.
    """
    from groupledger.jobs.ask.group_list import COLUMNS, OPTIONAL, GroupFilter, group_list, groups_without_history
    from groupledger.jobs.ask.troubled import is_troubled

    teams = {} if job.conf is None else job.settings.team_patterns()  # the shipped settings know none
    if team is not None and team not in teams:
        known = f"there are {', '.join(teams)}" if teams else "the settings name no teams"
        raise click.BadParameter(f"{team!r} is no team: {known}.", param_hint="--team")
    wanted = GroupFilter(pattern=pattern, statuses=statuses, group_types=group_types, team=team, with_ended=with_ended)
    tables = job.rows()
    found = group_list(tables, wanted, teams)
    if with_why:
        _print_diagnoses(job, tables, found, limit, as_json=as_json)
        return
    columns = [name for name in COLUMNS if teams or name != "team"]
    print_answers("Groups", columns, found, as_json=as_json, optional=[name for name in OPTIONAL if name in columns])
    waiting = groups_without_history(tables)
    if waiting:
        say(f"the history does not have {number_of(waiting, 'more group')} yet; `groupledger lag` shows their lag")
    elif not found:
        job.say_none("no matching group; --all shows those that have ended, too")
    troubled = sum(map(is_troubled, found))
    if troubled and not as_json:
        say(f"in trouble: {number_of(troubled, 'group')}; `groupledger groups --why` says what is wrong with them")


def _print_diagnoses(job: Question, tables: ClusterRows, found: Sequence[Answer], limit: int, *, as_json: bool) -> None:
    from groupledger.jobs.ask.present import present_diagnoses, present_lines

    rows, others = present_diagnoses(tables, found, job.end(), limit)
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            for line in present_lines(row):
                click.echo("\n".join(fitted(line)))
    if others:
        say(f"{number_of(others, 'more group')} in trouble: see --limit")
    if not rows:
        job.say_none("no matching group is in trouble")

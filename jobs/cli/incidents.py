"""`groupledger incidents`: what went wrong, why, and what to change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import SINCE
from groupledger.jobs.cli.limits import last
from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import number_of, print_json, say
from groupledger.jobs.process.terminal import fitted
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.words import Severity, Source, words_of
from groupledger.transforms.coverage.rules.known import last_instant

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.cli.question import Question


DIAGNOSED_MAX = 20
"""How many episodes are diagnosed, the most harmful first: each takes a moment. `why` diagnoses all of a group."""


@click.command()
@group_name
@question(Source.INCIDENTS)
@SINCE
@click.option("--kind", type=click.Choice([kind.name for kind in INCIDENT_KINDS]), help="Only this kind.")
@click.option(
    "--severity",
    type=click.Choice(words_of(Severity)),
    default=Severity.WARNING,
    show_default=True,
    help="Only incidents of this severity or higher; info is for what belongs to normal operation.",
)
@click.option("--open", "open_only", is_flag=True, help="Only incidents that are open, for whoever looks at them now.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the last ones; all of them unless given.")
@click.option(
    "--update", is_flag=True, help="Look for incidents again first, for example after `groupledger import-logs`."
)
def incidents(  # noqa: PLR0913 - one for each option
    job: Question,
    *,
    name: str | None,
    since: datetime | None,
    kind: str | None,
    severity: str,
    open_only: bool,
    limit: int | None,
    as_json: bool,
    update: bool,
) -> bool:
    """Show incidents of all groups, or of the group NAME: who, why, what is processed twice, and what to change."""
    from groupledger.jobs.ask.answers import refuse_unknown
    from groupledger.jobs.ask.episode_diagnosis import diagnosed_lines, diagnoses_of_incidents
    from groupledger.jobs.ask.incidents import incidents_of, rows_not_judged

    judged_nobody = False
    if update:
        from groupledger.jobs.derive.incidents import update_incidents

        with replace(job, cluster=job.chosen_cluster).ledger() as ledger:
            update_incidents(ledger)
            judged_nobody = bool(ledger.judged_nobody)
    tables = job.rows()
    names = None if name is None else [name]
    found = incidents_of(tables, names, since, kind, severity, open_only=open_only)
    not_judged = rows_not_judged(tables)
    if name is not None and not found:
        refuse_unknown(tables, name)
    found = found if limit is None else [*last(found, limit)]
    if not_judged:
        say(
            f"{not_judged:,} rows of imported logs are not yet judged: `groupledger incidents --update` looks at them."
            " It starts Spark, takes the ledger's lease and writes the table incidents; a running monitor looks at them"
            " by itself in its next search"
        )
    if as_json:
        print_json(found)
        return judged_nobody
    diagnoses = diagnoses_of_incidents(tables, found, DIAGNOSED_MAX)
    as_of = last_instant(job.known, job.known)
    for incident in found:
        for line in diagnosed_lines(incident, diagnoses.get(incident["episode_id"]), as_of):
            click.echo("\n".join(fitted(line)))
    if not found:
        lesser = len(incidents_of(tables, names, since, kind, Severity.INFO, open_only=open_only))
        others = f" ({lesser:,} of less: --severity {Severity.INFO})" if lesser else ""
        job.say_none(f"no {'open ' if open_only else ''}incidents of severity {severity} or above{others}")
    if name is None:
        _say_others(tables)
    return judged_nobody


def _say_others(tables: ClusterRows) -> None:
    """Says how many groups are in trouble now, and have no open incident."""
    from groupledger.jobs.ask.group_list import GroupFilter, group_list
    from groupledger.jobs.ask.troubled import is_troubled

    if tables.exists("groups"):
        found = [row for row in group_list(tables, GroupFilter(), {}) if row["incident_severity"] is None]
        others = sum(map(is_troubled, found))
        if others:
            are = "is in trouble by its lag" if others == 1 else "are in trouble by their lag"
            say(
                f"{number_of(others, 'group')} {are}, without an open incident: `groupledger groups --why` has those,"
                " too"
            )

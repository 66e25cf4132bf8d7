"""`groupledger incidents`: what went wrong, why, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.options import say
from groupledger.jobs.cli.questions import SINCE, open_warehouse, question
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kinds.incidents import INCIDENT_KINDS
from groupledger.schemas.words import Severity, words_of

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@question
@click.option("--group", metavar="GROUP", help="Only this group.")
@SINCE
@click.option("--kind", type=click.Choice([kind.name for kind in INCIDENT_KINDS]), help="Only this kind.")
@click.option(
    "--severity",
    type=click.Choice(words_of(Severity)),
    default=Severity.WARNING,
    show_default=True,
    help="At least this; info is what belongs to the normal life of a group.",
)
@click.option("--update", is_flag=True, help="Look for them again first, as after `groupledger import-logs`.")
def incidents(
    *,
    group: str | None,
    since: datetime | None,
    kind: str | None,
    severity: str,
    as_json: bool,
    update: bool,
    **where: Any,
) -> None:
    """Show refused commits and what led to them: who, why, what is processed twice, and what to change."""
    from groupledger.jobs.ask.answers import print_json
    from groupledger.jobs.derive.incidents import incidents_of, lines, update_incidents
    from groupledger.jobs.warehouse.ledger import open_ledger

    if update:
        settings = load_settings(where["conf"], cluster=where["cluster"])
        with open_ledger(settings, where["warehouse"], "incidents", say) as ledger:
            update_incidents(ledger)
    found = incidents_of(open_warehouse(**where), group, since, kind, severity)
    if as_json:
        print_json(found)
        return
    for incident in found:
        click.echo("\n".join(lines(incident)))
    if not found:
        say(f"no incidents of severity {severity} or above")


INCIDENT_COMMANDS = (incidents,)

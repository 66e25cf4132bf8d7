"""The command that lists the clients of groups, and who can't move to KIP-848."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.names import group_name
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.output import print_answers, say
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from groupledger.jobs.cli.question import Question


@click.command()
@group_name
@question(Source.HISTORY)
def inventory(job: Question, *, name: str | None, as_json: bool) -> None:
    """List the present members of all groups, or of the group NAME, by library, version, protocol and assignor, and
    what keeps them from the protocol of KIP-848. Only the brokers' request log says which library a client is."""
    tables = job.rows()
    from groupledger.jobs.ask.inventory import COLUMNS, OPTIONAL, blocked_groups
    from groupledger.jobs.ask.inventory import inventory as clients

    found = clients(tables, name)
    shown = found if as_json else [{**row, "move_blockers": ", ".join(row["move_blockers"]) or None} for row in found]
    print_answers("Clients", COLUMNS, shown, as_json=as_json, optional=OPTIONAL)
    for blocker, groups in blocked_groups(found).items():
        count = "1 group" if len(groups) == 1 else f"{len(groups):,} groups"
        say(f"{count} could move to KIP-848" if not blocker else f"{count} kept from KIP-848 by {blocker}")
    if not found:
        job.say_none("no group has members now")

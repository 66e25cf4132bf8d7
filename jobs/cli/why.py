"""The command that tells why a group is in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import UNTIL, instant
from groupledger.jobs.cli.questions import question, say_known_until
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_json, say
from groupledger.jobs.process.terminal import escaped, printable

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.options import Job


@click.command()
@click.argument("name", shell_complete=group_names)
@question
@click.option(
    "--since", type=instant, default="2h", show_default=True, metavar="TIME", help="From then on: 14:03, 2h or a date."
)
@UNTIL
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Only the last so many.")
def why(job: Job, *, name: str, since: datetime, until: datetime | None, limit: int, as_json: bool) -> None:
    """Show why a group is in trouble: incidents, rebalances, owners, offsets and lag in one order, and what to
    change."""
    from groupledger.jobs.ask.why import why as reasons

    tables = job.rows()
    entries, verdict = reasons(tables, name, since, until)
    say_known_until(tables, name)
    if len(entries) > limit:
        say(f"{len(entries) - limit:,} before these are left out: see --limit")
    if as_json:
        print_json([*entries[-limit:], verdict])
        return
    for entry in entries[-limit:]:
        how = "" if entry["how"] is None else f" {printable(entry['how'])}"
        click.echo(f"{in_zone(entry['at'])}  {entry['what']:9}{how}: {escaped(entry['text'])}")
    if not entries:
        say(f"nothing happened to {printable(name)} since {in_zone(since)}: no rebalance, no incident, no round of lag")
    elif verdict["root"] is None:
        click.echo("Nothing names a root.")
    else:
        click.echo(f"Probable root: {verdict['root']}. {verdict['advice']}")
        if verdict["setting_to_change"] is not None:
            click.echo(f"Change: {verdict['setting_to_change']}")

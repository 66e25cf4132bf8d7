"""The command that asks what a failover to a mirrored cluster would repeat or skip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import AT_OR_LAST
from groupledger.jobs.cli.options import Job
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_answers, say
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.words import Source

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.question import Question


@click.command()
@click.argument("name", shell_complete=group_names)
@question(Source.TOPIC)
@AT_OR_LAST
@click.option("--to", "to", required=True, metavar="NAME", help="The cluster that the group would move to.")
@click.option("--alias", metavar="ALIAS", help="MirrorMaker's alias of the source: copies are named ALIAS.TOPIC.")
@click.option("--same-names", is_flag=True, help="Copies have the names of their sources (IdentityReplicationPolicy).")
def failover(
    job: Question,
    *,
    name: str,
    at: datetime | None,
    to: str,
    alias: str | None,
    same_names: bool,
    as_json: bool,
) -> None:
    """Show what a group would read again, or never, if it moved from --cluster to the cluster --to that MirrorMaker
    copies its topics to.

    It compares the committed offsets in both ledgers by MirrorMaker's offset syncs, which `pipeline` reads."""
    if alias is not None and same_names:
        raise click.UsageError("Give either --alias or --same-names.")
    source = job.rows()
    from groupledger.jobs.ask.failover import COLUMNS, OPTIONAL, Names, sentence
    from groupledger.jobs.ask.failover import failover as find

    target = Job(job.name, job.warehouse, to, job.conf).rows()
    instant, found = find(source, target, name, at, Names(alias, same_names))
    if not as_json:
        say(f"commits at {in_zone(instant)}")
        click.echo(sentence(name, source.cluster, target.cluster, found))
    print_answers(f"Failover of {printable(name)}", COLUMNS, found, as_json=as_json, optional=OPTIONAL)

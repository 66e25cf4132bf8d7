"""The command that shows the positions of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.completion import group_names
from groupledger.jobs.cli.instants import instant
from groupledger.jobs.cli.question import question
from groupledger.jobs.process.instants import in_zone
from groupledger.jobs.process.output import print_json, say
from groupledger.jobs.process.terminal import print_table

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.options import Job


@click.command()
@click.argument("name", shell_complete=group_names)
@question()
@click.option("--at", type=instant, metavar="TIME", help="Use the last pass at or before this time, as 14:03 or 2h.")
@click.option(
    "--deliveries",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Waiting records count as redelivered after N deliveries.",
)
def share(job: Job, *, name: str, at: datetime | None, deliveries: int, as_json: bool) -> None:
    """Show the state of a share group: start offsets, lag, and the records that are delivered repeatedly.

    The columns are those of kafka-share-groups --describe --offsets and more of the group's state, from the last pass
    of `pipeline`."""
    tables = job.rows()
    from groupledger.jobs.ask.share import COLUMNS, OPTIONAL, cells, share_partitions

    sampled_at, rows = share_partitions(tables, name, at, deliveries)
    if as_json:
        print_json(rows)
        return
    say(f"as of {in_zone(sampled_at)}")
    print_table("Share partitions", list(COLUMNS), map(cells, rows), OPTIONAL)

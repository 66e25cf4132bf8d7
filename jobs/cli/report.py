"""`groupledger report`: writes all pages of `serve` into one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.instants import SINCE, UNTIL
from groupledger.jobs.cli.options import on_warehouse
from groupledger.jobs.process.output import say

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.cli.options import Job


@click.command()
@on_warehouse
@click.option("--out", "file", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The HTML file.")
@click.option("--group", "names", multiple=True, metavar="NAME", help="Only this group; may be given several times.")
@SINCE
@UNTIL
def report(job: Job, *, file: Path, names: tuple[str, ...], since: datetime | None, until: datetime | None) -> None:
    """Write the pages of serve into one HTML file: what the groups did, who owned what, lag and incidents.

    Without --since it covers the seven days before --until, or the last seven days of the ledger. It never begins
    before the ledger does.
    """
    tables = job.rows()
    from groupledger.jobs.report.report import write_report

    write_report(tables, file, say, names, since, until, job.settings.team_patterns())

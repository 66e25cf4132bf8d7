"""The command that serves pages and their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import on_warehouse
from groupledger.jobs.process.output import say

if TYPE_CHECKING:
    from groupledger.jobs.cli.options import Job


@click.command()
@on_warehouse
@click.option("--listen", default="127.0.0.1:8080", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="Also answer to this name; may be given often.")
def serve(job: Job, *, listen: str, hosts: tuple[str, ...]) -> None:
    """Serve pages about every group at any instant, their JSON and Burrow's API. Read only, and without a password:
    put what keeps others out before it where it does not listen to this machine alone."""
    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.server import serve as run

    run(Warehouse(job.warehouse, job.settings), listen, hosts, say)

"""The command that serves pages and their JSON."""

from __future__ import annotations

from pathlib import Path
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
@click.option(
    "--auth-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Ask for a name and a password of this file, as `htpasswd -B` writes it.",
)
@click.option("--auth-header", metavar="NAME", help="Let in whom a proxy names in this header.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="The proxy of --auth-header: an address or a network; may be given often.",
)
def serve(
    job: Job,
    *,
    listen: str,
    hosts: tuple[str, ...],
    auth_file: Path | None,
    auth_header: str | None,
    trusted_proxies: tuple[str, ...],
) -> None:
    """Serve pages about every group at any instant, their JSON and Burrow's API. Read only.

    Whoever reaches the address reads everything, unless --auth-file or --auth-header asks who is there.
    """
    if bool(auth_header) != bool(trusted_proxies):
        raise click.UsageError("--auth-header goes with --trusted-proxy.")
    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.entrance import proxy_of
    from groupledger.jobs.serve.passwords import Passwords
    from groupledger.jobs.serve.server import serve as run

    passwords = None if auth_file is None else Passwords(auth_file)
    proxy = None if not auth_header else proxy_of(auth_header, trusted_proxies)
    run(Warehouse(job.warehouse, job.settings), listen, hosts, say, passwords=passwords, proxy=proxy)

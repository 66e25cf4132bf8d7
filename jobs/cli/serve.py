"""The commands that serve: pages and their JSON, and the Model Context Protocol."""

from __future__ import annotations

import tempfile
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.options import CLUSTER, CONF, WAREHOUSE_IF_ANY, Job
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.process.settings import OidcSettings
    from groupledger.jobs.serve.oidc import Oidc


def on_a_warehouse(command: Callable[..., object]) -> Callable[..., object]:
    """Does the same as `on_warehouse`, and adds --demo as an alternative to --warehouse."""

    @wraps(command)
    def run(*, warehouse: str | None, cluster: str | None, conf: Path | None, is_demo: bool, **others: Any) -> object:
        if not is_demo:
            if warehouse is None:
                raise click.UsageError("Give --warehouse, or --demo to see simulated tables.")
            return command(Job(command.__name__, warehouse, cluster, conf), **others)
        from groupledger.jobs.demo.shipped import ends_now, unpack

        with tempfile.TemporaryDirectory(prefix="groupledger-demo-") as directory:
            unpack(Path(directory), ends_now())
            return command(Job(command.__name__, directory, cluster, conf), **others)

    demo = click.option(
        "--demo", "is_demo", is_flag=True, help="Show a day of a simulated cluster, which has just ended."
    )
    for option in (demo, CONF, CLUSTER, WAREHOUSE_IF_ANY):
        run = option(run)
    return run


@click.command()
@on_a_warehouse
@click.option("--listen", default="127.0.0.1:8080", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Also answer to this name; may be given several times."
)
@click.option(
    "--auth-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Ask for a name and a password of this file, as `htpasswd -B` writes it.",
)
@click.option("--auth-header", metavar="NAME", help="Let users in whose name a proxy sends in this header.")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="The proxy of --auth-header: an address or a network; may be given several times.",
)
@click.option("--mcp", "with_mcp", is_flag=True, help="Also answer the Model Context Protocol, at /mcp.")
def serve(
    job: Job,
    *,
    listen: str,
    hosts: tuple[str, ...],
    auth_file: Path | None,
    auth_header: str | None,
    trusted_proxies: tuple[str, ...],
    with_mcp: bool,
) -> None:
    """Serve pages about every group at any instant, their JSON and Burrow's API. Read only.

    Anybody who reaches the address can read everything, unless --auth-file or --auth-header is given, or the settings
    have `serve.oidc`.
    """
    if bool(auth_header) != bool(trusted_proxies):
        raise click.UsageError("--auth-header and --trusted-proxy need each other: give both.")
    from groupledger.jobs.process.log_lines import log_lines
    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.entrance import proxy_of
    from groupledger.jobs.serve.passwords import Passwords
    from groupledger.jobs.serve.server import serve as run

    log_lines(job.settings.logging)
    oidc = login_of(job.settings.serve.oidc)
    if oidc is not None and (auth_file is not None or auth_header):
        raise click.UsageError("The settings have serve.oidc: leave out --auth-file and --auth-header.")
    passwords = None if auth_file is None else Passwords(auth_file)
    proxy = None if not auth_header else proxy_of(auth_header, trusted_proxies)
    warehouse = Warehouse(job.warehouse, job.settings)
    run(warehouse, listen, hosts, say, passwords=passwords, proxy=proxy, oidc=oidc, with_mcp=with_mcp)


def login_of(settings: OidcSettings | None) -> Oidc | None:
    """Returns the login by OpenID Connect, if the settings have one. Raises InputError if its extra is missing."""
    if settings is None:
        return None
    try:
        from groupledger.jobs.serve.oidc import oidc_of
    except ModuleNotFoundError as error:
        raise InputError("serve.oidc needs the extra: install it with `pip install 'groupledger[oidc]'`.") from error
    return oidc_of(settings)


@click.command()
@on_a_warehouse
def mcp(job: Job) -> None:
    """Answer a client of the Model Context Protocol on standard input and output, until it ends. Read only.

    A client starts this itself: docs/mcp.md says how. `serve --mcp` answers over HTTP.
    """
    from groupledger.jobs.process.log_lines import log_lines
    from groupledger.jobs.serve.answers import Warehouse
    from groupledger.jobs.serve.app import questions
    from groupledger.jobs.serve.mcp_server import serve_stdio

    log_lines(job.settings.logging)
    serve_stdio(questions(Warehouse(job.warehouse, job.settings)))

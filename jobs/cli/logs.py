"""The command that imports the brokers' logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import on_warehouse
from groupledger.jobs.process.output import say
from groupledger.jobs.process.signals import StopOnSignal

if TYPE_CHECKING:
    from groupledger.jobs.cli.options import Job

LOG_PATH = click.Path(path_type=Path)


@click.command("import-logs")
@on_warehouse
@click.option(
    "--request-log",
    "request_logs",
    type=LOG_PATH,
    multiple=True,
    metavar="PATH",
    help="A request log (JSON, of Kafka 2.8 or later), plain or compressed, or a directory of them. May be repeated.",
)
@click.option(
    "--server-log",
    "server_logs",
    type=LOG_PATH,
    multiple=True,
    metavar="PATH",
    help="A server log, or a directory of them. May be repeated.",
)
@click.argument("more", nargs=-1, type=LOG_PATH, metavar="[PATH]...")
@click.option("--continuous", is_flag=True, help="Look for new lines until stopped (SIGTERM, Ctrl-C).")
def import_logs(
    job: Job,
    *,
    request_logs: tuple[Path, ...],
    server_logs: tuple[Path, ...],
    more: tuple[Path, ...],
    continuous: bool,
) -> None:
    """Import brokers' logs: refused requests, committing clients, and reasons of rebalances.

    Lines may have the prefixes of containers, and may be JSON. A file that can't be read does not stop the others: it
    is reported at the end, with exit code 2. If only one of the options is given, further PATHs are of the same log, so
    that a shell's wildcard works.
    """
    if bool(request_logs) == bool(server_logs) and more:
        raise click.UsageError("Say which log each file is: --request-log or --server-log before each.")
    if not request_logs and not server_logs:
        raise click.UsageError("Give --request-log, --server-log, or both.")
    request_logs += more if request_logs else ()
    server_logs += more if server_logs else ()
    from groupledger.jobs.ingest.import_logs import LogSources, summary
    from groupledger.jobs.ingest.import_logs import import_logs as run_import
    from groupledger.jobs.warehouse.lease import logs_of

    sources = LogSources(request_logs, server_logs)
    with StopOnSignal() as stop, job.ledger(logs_of(job.settings.cluster)) as ledger:
        totals = run_import(ledger, ledger.settings.logs, sources, stop, is_continuous=continuous)
        say(summary(totals))

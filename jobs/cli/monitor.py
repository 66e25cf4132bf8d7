"""The commands that look at the brokers as they are now: `sample` and `monitor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import on_warehouse
from groupledger.jobs.monitor.rules import interval_seconds
from groupledger.jobs.process.signals import StopOnSignal

if TYPE_CHECKING:
    from groupledger.jobs.cli.options import Job

BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers", required=True, metavar="HOST:PORT", help="The cluster whose groups these are."
)

# Prometheus's list of ports (9100 to 9999) is full: 9308 there is kafka_exporter's, and 9464 OpenTelemetry's. This one
# stands neither there, nor among the exporters outside of that range, nor in IANA's registry, and is below the ports
# that systems hand out (32768 and up). It ends as Kafka's own 9092 does.
METRICS_PORT = 17_092


@click.command()
@BOOTSTRAP_SERVERS
@on_warehouse
def sample(job: Job, *, bootstrap_servers: str) -> None:
    """Ask the brokers once for the ends of the partitions and the states of the groups."""
    from groupledger.jobs.ingest.samples import sample as take_sample

    with job.ledger() as ledger:
        take_sample(ledger, bootstrap_servers)


def seconds_of(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    seconds = interval_seconds(text)
    if seconds is None:
        raise click.BadParameter("give whole seconds or minutes, such as 15s or 1m.")
    return seconds


@click.command()
@BOOTSTRAP_SERVERS
@on_warehouse
@click.option("--interval", callback=seconds_of, default="15s", show_default=True, help="How often lag is computed.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), default=METRICS_PORT, show_default=True, help="0 for a free one."
)
def monitor(job: Job, *, bootstrap_servers: str, interval: int, metrics_port: int) -> None:
    """Follow the topic and the brokers, compute lag, serve it as metrics and keep it, until told to stop."""
    from groupledger.jobs.monitor.monitor import MonitorRun, run_monitor

    with StopOnSignal() as stop, job.ledger() as ledger:
        run_monitor(ledger, MonitorRun(bootstrap_servers, interval, metrics_port), stop)

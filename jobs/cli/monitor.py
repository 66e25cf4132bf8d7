"""The commands that look at the brokers as they are now: `sample` and `monitor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.options import check_logs, on_warehouse, places_of, settings_of
from groupledger.jobs.monitor.rules import interval_seconds
from groupledger.jobs.process.signals import StopOnSignal

if TYPE_CHECKING:
    from groupledger.jobs.cli.options import Job

BOOTSTRAP_SERVERS = click.option(
    "--bootstrap-servers", required=True, metavar="HOST:PORT", help="The brokers of the cluster."
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
@click.option(
    "--bootstrap-servers",
    metavar="HOST:PORT",
    help="The brokers of the cluster; without it, --cluster or all `clusters` of the settings.",
)
@on_warehouse
@click.option(
    "--interval", callback=seconds_of, default="15s", show_default=True, help="The time between two sampling rounds."
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    default=METRICS_PORT,
    show_default=True,
    help="The port of the metrics; 0 for a free one.",
)
def monitor(job: Job, *, bootstrap_servers: str | None, interval: int, metrics_port: int) -> None:
    """Follow the topic and the brokers, compute lag, serve it as metrics and keep it, until stopped."""
    places = places_of(job.settings, job.cluster, bootstrap_servers)
    if not places:
        raise click.UsageError("Give --bootstrap-servers, or name the cluster and its brokers in `clusters` of --conf.")
    settings = {name: settings_of(job.conf, name) for name in places}
    check_logs(settings.values())
    from groupledger.jobs.gate.troubles import listen_to_kafka
    from groupledger.jobs.monitor.clusters import MonitoredCluster, run_monitor
    from groupledger.jobs.process.log_lines import log_lines

    log_lines(job.settings.logging)
    listen_to_kafka()
    clusters = [MonitoredCluster(settings[name], place) for name, place in places.items()]
    with StopOnSignal() as stop:
        run_monitor(job.warehouse, clusters, interval, metrics_port, stop)

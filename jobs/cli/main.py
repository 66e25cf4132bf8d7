"""The console script `groupledger`: arguments in, exit codes out. Everything it does lies in the jobs.

Errors are one sentence on standard error, a traceback only with `--debug`; what is asked for goes to standard output,
all talk about progress to standard error. Spark is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.incidents import INCIDENT_COMMANDS
from groupledger.jobs.cli.lag import LAG_COMMANDS
from groupledger.jobs.cli.logs import import_logs
from groupledger.jobs.cli.monitor import MONITOR_COMMANDS
from groupledger.jobs.cli.operations import OPERATIONS, check_quality
from groupledger.jobs.cli.options import CLUSTER, CONF, WAREHOUSE, say
from groupledger.jobs.cli.questions import QUESTIONS
from groupledger.jobs.cli.report import REPORT_COMMANDS
from groupledger.jobs.cli.sql import SQL_COMMANDS
from groupledger.jobs.process.errors import JobError
from groupledger.jobs.process.settings import load_settings

if TYPE_CHECKING:
    import threading

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.ledger import Ledger

BOOTSTRAP_SERVERS = click.option("--bootstrap-servers", metavar="HOST:PORT", help="Read the topic of this cluster.")
CAPTURE = click.option("--capture", "capture_directory", metavar="DIR", help="Read a capture instead.")
SAMPLES = click.option(
    "--samples", "samples_directory", metavar="DIR", help="With --capture: the sampling rounds that go with it."
)
RECOVER = click.option("--recover", is_flag=True, help="After a loss: go on behind the last row of the table.")


class Commands(click.Group):
    """Turns what a job raises on purpose into its sentence and its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except JobError as error:
            if ctx.params.get("debug"):
                raise
            click.echo(f"groupledger: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.version_option(package_name="groupledger")
def main(*, debug: bool) -> None:
    """The ledger of every Kafka consumer group, kept in Delta tables."""
    del debug  # read by Commands


@main.command()
@BOOTSTRAP_SERVERS
@CAPTURE
@WAREHOUSE
@CLUSTER
@CONF
@click.option("--continuous", is_flag=True, help="Go on until told to stop (SIGTERM, Ctrl-C).")
@RECOVER
def ingest(
    *,
    bootstrap_servers: str | None,
    capture_directory: str | None,
    warehouse: str,
    cluster: str | None,
    conf: Path | None,
    continuous: bool,
    recover: bool,
) -> None:
    """Decode __consumer_offsets into the table coordinator_records."""
    check_source(bootstrap_servers, capture_directory)
    if continuous and capture_directory is not None:
        raise click.UsageError("A capture has an end: --continuous goes with --bootstrap-servers.")
    settings = load_settings(conf, cluster=cluster)
    from groupledger.jobs.ingest.stream import StopOnSignal
    from groupledger.jobs.warehouse.ledger import open_ledger

    with StopOnSignal() as stop, open_ledger(settings, warehouse, "ingest", say) as ledger:
        run_ingest(ledger, settings, stop, bootstrap_servers, capture_directory, continuous=continuous, recover=recover)


@main.command()
@BOOTSTRAP_SERVERS
@CAPTURE
@SAMPLES
@WAREHOUSE
@CLUSTER
@CONF
@RECOVER
def pipeline(
    *,
    bootstrap_servers: str | None,
    capture_directory: str | None,
    samples_directory: str | None,
    warehouse: str,
    cluster: str | None,
    conf: Path | None,
    recover: bool,
) -> None:
    """Run every step once: ingest, then history, lag and incidents."""
    check_source(bootstrap_servers, capture_directory)
    if samples_directory is not None and capture_directory is None:
        raise click.UsageError("A cluster is sampled by itself: --samples goes with --capture.")
    settings = load_settings(conf, cluster=cluster)
    from groupledger.jobs.derive.pipeline import derive
    from groupledger.jobs.ingest.import_samples import import_samples
    from groupledger.jobs.ingest.samples import sample
    from groupledger.jobs.ingest.stream import StopOnSignal
    from groupledger.jobs.warehouse.ledger import open_ledger

    with StopOnSignal() as stop, open_ledger(settings, warehouse, "pipeline", say) as ledger:
        # Before the ingest, which then reads every commit below the round's ends.
        if bootstrap_servers is not None:
            sample(ledger, bootstrap_servers)
        elif samples_directory is not None:
            import_samples(ledger, samples_directory)
        run_ingest(ledger, settings, stop, bootstrap_servers, capture_directory, recover=recover)
        derive(ledger, stop)
        if not stop.is_set() and settings.quality.after_pipeline:
            check_quality(ledger)


@main.command()
@WAREHOUSE
@CLUSTER
@CONF
@click.option("--rebuild", is_flag=True, help="Fold everything again, instead of what is new.")
def history(*, warehouse: str, cluster: str | None, conf: Path | None, rebuild: bool) -> None:
    """Bring generations, members, assignments and rebalances up to coordinator_records."""
    settings = load_settings(conf, cluster=cluster)
    from groupledger.jobs.derive.history import rebuild_history, update_history
    from groupledger.jobs.ingest.stream import StopOnSignal
    from groupledger.jobs.warehouse.ledger import open_ledger

    with StopOnSignal() as stop, open_ledger(settings, warehouse, "history", say) as ledger:
        if rebuild:
            rebuild_history(ledger, stop)
        else:
            update_history(ledger, stop)


@main.command()
@WAREHOUSE
@CLUSTER
@CONF
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def validate(*, warehouse: str, cluster: str | None, conf: Path | None, as_json: bool) -> None:
    """Replay the history through the reference coordinator; exit code 1 if it can't be true."""
    settings = load_settings(conf, cluster=cluster)
    from groupledger.jobs.derive.validate import has_errors, print_findings
    from groupledger.jobs.derive.validate import validate as find
    from groupledger.jobs.warehouse.ledger import open_ledger

    with open_ledger(settings, warehouse, "validate", say) as ledger:
        findings = find(ledger)
    print_findings(findings, as_json=as_json)
    if has_errors(findings):
        click.get_current_context().exit(1)


@main.command()
@click.option("--bootstrap-servers", required=True, metavar="HOST:PORT", help="The cluster to copy from.")
@click.option("--out", "directory", required=True, metavar="DIR", help="A new or empty directory.")
@CONF
def capture(*, bootstrap_servers: str, directory: str, conf: Path | None) -> None:
    """Copy __consumer_offsets into Parquet files that `ingest --capture` reads."""
    from groupledger.jobs.ingest.capture import capture as copy_topic
    from groupledger.jobs.process.session import spark_session

    settings = load_settings(conf)
    count = copy_topic(spark_session("groupledger capture"), settings, bootstrap_servers, directory, say)
    say(f"{count:,} records are in {directory}")


@main.command()
@WAREHOUSE
@CLUSTER
@CONF
@click.option("--group", metavar="GROUP", help="Only the records of this group.")
@click.option("--limit", type=click.IntRange(min=1), help="Only the last records of the log's order.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as DumpLogSegments prints them.")
def records(
    *, warehouse: str, cluster: str | None, conf: Path | None, group: str | None, limit: int | None, as_json: bool
) -> None:
    """Show the decoded records in the order of the log."""
    from groupledger.jobs.ask.records import print_records
    from groupledger.jobs.process.session import spark_session

    settings = load_settings(conf, cluster=cluster)
    spark = spark_session("groupledger records")
    print_records(spark, warehouse, settings.cluster, group=group, limit=limit, as_json=as_json)


@main.command()
@click.option("--directory", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, metavar="DIR")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides what happens in the simulated day.")
@BOOTSTRAP_SERVERS
@CONF
def demo(*, directory: Path, seed: int, bootstrap_servers: str | None, conf: Path | None) -> None:
    """Play a day of forty groups, run every step on it, compare with the truth, and write the report."""
    from groupledger.jobs.demo.demo import run_demo, run_demo_on_cluster

    if bootstrap_servers is not None:
        run_demo_on_cluster(directory, load_settings(conf), bootstrap_servers, say)
    else:
        run_demo(directory, seed, say)


@main.command()
@click.option("--list", "is_list", is_flag=True, help="Show the scenarios, and do nothing else.")
@click.option("--scenario", metavar="NAME", help="What happens to the groups.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides everything that is left to chance.")
@click.option("--out", "directory", type=click.Path(path_type=Path), metavar="DIR", help="A new or empty directory.")
@click.option("--groups", type=click.IntRange(min=1), help="How many groups; one, or for a day one of each kind.")
@click.option("--hours", type=click.FloatRange(min=0), help="How long it goes on; at least the scenario's own length.")
def simulate(
    *, is_list: bool, scenario: str | None, seed: int, directory: Path | None, groups: int | None, hours: float | None
) -> None:
    """Simulate a cluster and its groups: a capture, the broker's logs, and the truth to compare with."""
    from groupledger.coordinator.simulator.scenarios import SCENARIOS

    if is_list:
        for each in SCENARIOS.values():
            click.echo(f"{each.name:24}{each.summary}")
        return
    if scenario is None or directory is None:
        raise click.UsageError("Give --scenario and --out, or --list.")
    from groupledger.jobs.demo.simulate import scenario_named
    from groupledger.jobs.demo.simulate import simulate as run_scenario

    counts = run_scenario(scenario_named(scenario), seed, directory, groups, hours, say)
    say(
        f"{counts.groups:,} groups, {counts.requests:,} requests; {counts.records:,} records are in {directory}/capture"
    )


def check_source(bootstrap_servers: str | None, capture_directory: str | None) -> None:
    if (bootstrap_servers is None) == (capture_directory is None):
        raise click.UsageError("Give either --bootstrap-servers or --capture.")


def run_ingest(
    ledger: Ledger,
    settings: Settings,
    stop: threading.Event,
    bootstrap_servers: str | None,
    capture_directory: str | None,
    *,
    recover: bool,
    continuous: bool = False,
) -> None:
    from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
    from groupledger.jobs.ingest.ingest_capture import ingest_capture

    if capture_directory is not None:
        totals = ingest_capture(ledger, capture_directory, stop, recover=recover)
    else:
        run = KafkaIngest(settings, bootstrap_servers or "", is_continuous=continuous, recover=recover)
        totals = ingest_kafka(ledger, run, stop)
    say(f"{totals.rows:,} records read, {totals.quarantined:,} of them kept undecoded")


for command in (
    *QUESTIONS,
    *INCIDENT_COMMANDS,
    *SQL_COMMANDS,
    *MONITOR_COMMANDS,
    *LAG_COMMANDS,
    *OPERATIONS,
    *REPORT_COMMANDS,
    import_logs,
):
    main.add_command(command)


if __name__ == "__main__":
    sys.exit(main())

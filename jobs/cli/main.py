"""Defines the command line `groupledger`: arguments in, exit codes out. All work is done in the jobs.

Errors are one sentence on standard error, a traceback only with `--debug`; answers go to standard output, progress to
standard error. Spark is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import logging
import os
import shlex
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.audit import audit
from groupledger.jobs.cli.capacity import capacity
from groupledger.jobs.cli.coordinator import coordinator
from groupledger.jobs.cli.deploys import deploy, deploys
from groupledger.jobs.cli.diff import diff
from groupledger.jobs.cli.failover import failover
from groupledger.jobs.cli.forecast import forecast
from groupledger.jobs.cli.forget import forget
from groupledger.jobs.cli.groups import groups
from groupledger.jobs.cli.incidents import incidents
from groupledger.jobs.cli.instants import instant
from groupledger.jobs.cli.inventory import inventory
from groupledger.jobs.cli.lag import lag
from groupledger.jobs.cli.logs import import_logs
from groupledger.jobs.cli.monitor import monitor, sample
from groupledger.jobs.cli.notify import notify
from groupledger.jobs.cli.objectives import objectives
from groupledger.jobs.cli.operations import check_quality, doctor, maintain, quality
from groupledger.jobs.cli.options import AS_JSON, CONF, NO_WAREHOUSE, absolute, on_warehouse, settings_of
from groupledger.jobs.cli.protocols import protocols
from groupledger.jobs.cli.questions import QUESTIONS
from groupledger.jobs.cli.report import report
from groupledger.jobs.cli.sections import SECTIONS
from groupledger.jobs.cli.serve import mcp, serve
from groupledger.jobs.cli.setup import setup
from groupledger.jobs.cli.share import share
from groupledger.jobs.cli.sql import register, sql
from groupledger.jobs.cli.what_if import what_if
from groupledger.jobs.cli.why import why
from groupledger.jobs.process.arrow_memory import give_back_what_is_free
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import FAULT, INTERRUPTED, UNREAD
from groupledger.jobs.process.output import is_unread, log_plainly, say
from groupledger.jobs.process.outside import explain
from groupledger.jobs.process.signals import StopOnSignal, ending_in_time

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from datetime import datetime

    from groupledger.jobs.cli.options import Job
    from groupledger.jobs.warehouse.ledger import Ledger

# Until a command has read its settings, which may say otherwise.
OWNER_ONLY = 0o077

BOOTSTRAP_SERVERS = click.option("--bootstrap-servers", metavar="HOST:PORT", help="Read the topic of this cluster.")
CAPTURE = click.option("--capture", "capture_directory", metavar="DIR", help="Read a capture instead.")
SAMPLES = click.option(
    "--samples", "samples_directory", metavar="DIR", help="With --capture: the sampling rounds that go with it."
)
RECOVER = click.option("--recover", is_flag=True, help="After a loss: continue after the last row of the table.")


class Commands(click.Group):
    """Turns any error of a command into a sentence and an exit code. A command that returns True has findings, which is
    exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        # Spark's client logs each error with a trace of its own, before it raises it.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        log_plainly()  # until the command says otherwise
        try:
            with ending_in_time(say):
                has_findings = super().invoke(ctx)
            sys.stdout.flush()  # here a full disk can still be reported
        except click.MissingParameter as error:
            if error.param is not None and error.param.name == "warehouse":
                raise click.UsageError(NO_WAREHOUSE, error.ctx) from None
            raise
        except (click.ClickException, click.Abort, click.exceptions.Exit, SystemExit):
            raise  # click's own, with exit codes of their own
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        # Errors that no job has foreseen end here: a traceback would not say what to do, and Python's exit
        # code for it is that of findings. What delta-rs raises when it panics is no Exception.
        except BaseException as found:  # noqa: BLE001
            one = alone(found)
            if isinstance(one, BrokenPipeError) and is_unread():
                ctx.exit(UNREAD)
            if ctx.params.get("debug"):
                traceback.print_exc()
            ctx.exit(report_error(one))
        if has_findings:
            ctx.exit(1)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parses the arguments, and answers `--help` and `--version`, whose output may have no reader, or a full
        disk."""
        try:
            return super().make_context(*args, **extra)
        except OSError as error:
            is_gone = isinstance(error, BrokenPipeError) and is_unread()
            raise click.exceptions.Exit(UNREAD if is_gone else report_error(error)) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands in sections, in the order in which users need them."""
        listed = {name for commands in SECTIONS.values() for name in commands}
        more = {
            name: self.commands[name].get_short_help_str() for name in self.list_commands(ctx) if name not in listed
        }
        for title, commands in [*SECTIONS.items(), ("More", more)]:
            if commands:
                with formatter.section(title):
                    formatter.write_dl([*commands.items()])

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Gives every option its environment variable, such as GROUPLEDGER_WAREHOUSE for --warehouse. An option for a
        directory or a URI is made absolute: delta-rs, Hadoop and Python resolve relative ones differently."""
        for option in cmd.params:
            if isinstance(option, click.Option) and option.expose_value:
                option.envvar = "GROUPLEDGER_" + option.opts[-1].lstrip("-").replace("-", "_").upper()
                if option.metavar == "DIR" and option.type is click.STRING:
                    option.callback = absolute
        super().add_command(cmd, name)


def alone(error: BaseException) -> BaseException:
    """Returns the error in a group of one, which is how tasks of anyio raise it."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return alone(inner[0]) if len(inner) == 1 else error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, envvar="GROUPLEDGER_DEBUG", help="Show a traceback with an error.")
@click.version_option(package_name="groupledger")
def main(*, debug: bool) -> None:
    """The ledger of every Kafka consumer group, kept in Delta tables."""
    del debug  # read by Commands
    os.umask(OWNER_ONLY)
    give_back_what_is_free()


@main.command()
@BOOTSTRAP_SERVERS
@CAPTURE
@on_warehouse
@click.option("--continuous", is_flag=True, help="Continue until stopped (SIGTERM, Ctrl-C).")
@RECOVER
def ingest(
    job: Job, *, bootstrap_servers: str | None, capture_directory: str | None, continuous: bool, recover: bool
) -> None:
    """Decode __consumer_offsets into the table coordinator_records."""
    check_source(bootstrap_servers, capture_directory)
    if continuous and capture_directory is not None:
        raise click.UsageError("A capture has an end: --continuous needs --bootstrap-servers.")
    with StopOnSignal() as stop, job.ledger() as ledger:
        run_ingest(ledger, stop, bootstrap_servers, capture_directory, continuous=continuous, recover=recover)


@main.command()
@BOOTSTRAP_SERVERS
@CAPTURE
@SAMPLES
@on_warehouse
@RECOVER
def pipeline(
    job: Job,
    *,
    bootstrap_servers: str | None,
    capture_directory: str | None,
    samples_directory: str | None,
    recover: bool,
) -> bool:
    """Run every step once: ingest, then history, lag, offset events, incidents, share partitions and offset syncs."""
    check_source(bootstrap_servers, capture_directory)
    if samples_directory is not None and capture_directory is None:
        raise click.UsageError("With --bootstrap-servers the brokers are sampled: give --samples only with --capture.")
    from groupledger.jobs.derive.pipeline import derive
    from groupledger.jobs.derive.share_partitions import update_share_partitions
    from groupledger.jobs.gate.troubles import listen_to_kafka
    from groupledger.jobs.ingest.import_samples import import_samples
    from groupledger.jobs.ingest.offset_syncs import read_offset_syncs
    from groupledger.jobs.ingest.samples import sample
    from groupledger.jobs.process.log_lines import log_lines

    log_lines(job.settings.logging, job.settings.cluster)
    listen_to_kafka()
    with StopOnSignal() as stop, job.ledger() as ledger:
        # Before the ingest, which then reads every commit below the round's ends.
        if bootstrap_servers is not None:
            sample(ledger, bootstrap_servers)
        elif samples_directory is not None:
            import_samples(ledger, samples_directory)
        run_ingest(ledger, stop, bootstrap_servers, capture_directory, recover=recover)
        derive(ledger, stop)
        if ledger.settings.notify.receivers and not stop.is_set():
            from groupledger.jobs.notify.notify import Notifier

            Notifier(ledger).look(now_ms())
        # Last, so that no message waits while share groups can't be read.
        if bootstrap_servers is not None and not stop.is_set():
            update_share_partitions(ledger, bootstrap_servers)
            read_offset_syncs(ledger, bootstrap_servers)
        has_findings = not stop.is_set() and job.settings.quality.after_pipeline and check_quality(ledger)
        return has_findings or bool(ledger.judged_nobody)


@main.command()
@on_warehouse
@click.option("--rebuild", is_flag=True, help="Fold all records again, not only new ones.")
def history(job: Job, *, rebuild: bool) -> bool:
    """Bring generations, members, assignments and rebalances up to date with coordinator_records."""
    from groupledger.jobs.derive.history import rebuild_history, update_history

    with StopOnSignal() as stop, job.ledger() as ledger:
        if rebuild:
            rebuild_history(ledger, stop)
        else:
            update_history(ledger, stop)
        return bool(ledger.judged_nobody)


@main.command()
@on_warehouse
@AS_JSON
def validate(job: Job, *, as_json: bool) -> bool:
    """Replay the history through the reference coordinator, and compare its tables with its records; exit code 1 if
    they can't be true, or if a group can't be judged."""
    from groupledger.jobs.derive.troubles import say_troubles
    from groupledger.jobs.derive.validate import damaged_groups, has_errors, print_findings, say_damage
    from groupledger.jobs.derive.validate import validate as find

    with job.ledger() as ledger:
        findings = find(ledger)
        damaged = damaged_groups(ledger)
        say_damage(ledger, damaged)
        has_troubles = say_troubles(ledger)
    print_findings(findings, as_json=as_json)
    return bool(damaged) or has_troubles or has_errors(findings)


@main.command()
@click.option("--bootstrap-servers", required=True, metavar="HOST:PORT", help="The cluster to copy from.")
@click.option("--out", "directory", required=True, metavar="DIR", help="A new or empty directory.")
@CONF
def capture(*, bootstrap_servers: str, directory: str, conf: Path | None) -> None:
    """Copy __consumer_offsets into Parquet files that `ingest --capture` reads."""
    from groupledger.jobs.ingest.capture import capture as copy_topic
    from groupledger.jobs.process.session import spark_session

    settings = settings_of(conf)
    count = copy_topic(spark_session("groupledger capture"), settings, bootstrap_servers, directory, say)
    say(f"{count:,} records are in {directory}")


@main.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    metavar="DIR",
    help="The folder for the simulated files, the tables and the report.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of the simulated day.")
@BOOTSTRAP_SERVERS
@CONF
@click.option("--packed", is_flag=True, help="Unpack the day that lies in the package: in seconds, without Java.")
@click.option("--until", type=instant, metavar="TIME", help="With --packed: when the day ends; now if left out.")
def demo(
    *,
    directory: Path,
    seed: int,
    bootstrap_servers: str | None,
    conf: Path | None,
    packed: bool,
    until: datetime | None,
) -> None:
    """Play a day of forty groups, run every step on it, compare with the truth, and write the report."""
    if until is not None and not packed:
        raise click.UsageError("--until needs --packed.")
    if packed:
        from groupledger.jobs.demo.directory import new_directory
        from groupledger.jobs.demo.shipped import ends_now, unpack

        new_directory(directory)
        unpack(directory / "warehouse", until or ends_now())
        warehouse = shlex.quote(str(directory / "warehouse"))
        say(f"a day of forty groups is in {warehouse}: `groupledger groups --warehouse {warehouse}` lists them")
        return
    from groupledger.jobs.demo.demo import run_demo, run_demo_on_cluster

    if bootstrap_servers is not None:
        run_demo_on_cluster(directory, settings_of(conf), bootstrap_servers, say)
    else:
        run_demo(directory, seed, say)


@main.command()
@click.option("--list", "is_list", is_flag=True, help="Show the scenarios, and do nothing else.")
@click.option("--scenario", metavar="NAME", help="What happens to the groups.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of everything that is random.")
@click.option("--out", "directory", type=click.Path(path_type=Path), metavar="DIR", help="A new or empty directory.")
@click.option(
    "--groups",
    type=click.IntRange(min=1),
    help="The number of groups; by default one, and for the scenario day one of each kind.",
)
@click.option(
    "--hours", type=click.FloatRange(min=0), help="The length of the simulation; at least that of the scenario."
)
@click.option(
    "--until",
    type=instant,
    metavar="TIME",
    help="When it ends, for example now; unless given, it begins on 2026-01-05.",
)
def simulate(
    *,
    is_list: bool,
    scenario: str | None,
    seed: int,
    directory: Path | None,
    groups: int | None,
    hours: float | None,
    until: datetime | None,
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

    until_ms = None if until is None else round(until.timestamp()) * 1_000
    counts = run_scenario(scenario_named(scenario), seed, directory, groups, hours, say, until_ms)
    say(
        f"{counts.groups:,} groups, {counts.requests:,} requests; {counts.records:,} records are in {directory}/capture"
    )


def report_error(error: BaseException) -> int:
    """Reports the error that ended a command, in one sentence, and returns its exit code."""
    known = explain(error)
    if known is not None:
        say(f"groupledger: {known}", logging.ERROR)
        return known.exit_code
    say(
        f"groupledger: This is a fault of groupledger ({type(error).__name__}): please report it to whoever runs this"
        " installation, with what `groupledger --debug` and the same command show, and what `groupledger doctor"
        " --report` prints.",
        logging.ERROR,
    )
    return FAULT


def check_source(bootstrap_servers: str | None, capture_directory: str | None) -> None:
    if (bootstrap_servers is None) == (capture_directory is None):
        raise click.UsageError("Give either --bootstrap-servers or --capture.")


def run_ingest(
    ledger: Ledger,
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
        run = KafkaIngest(ledger.settings, bootstrap_servers or "", is_continuous=continuous, recover=recover)
        totals = ingest_kafka(ledger, run, stop)
    say(f"{totals.rows:,} records read, {totals.quarantined:,} of them kept undecoded")


for command in (
    groups,
    diff,
    why,
    *QUESTIONS,
    incidents,
    sql,
    register,
    sample,
    monitor,
    lag,
    share,
    audit,
    deploys,
    deploy,
    failover,
    forecast,
    maintain,
    forget,
    quality,
    doctor,
    notify,
    objectives,
    capacity,
    inventory,
    protocols,
    what_if,
    coordinator,
    report,
    serve,
    mcp,
    import_logs,
    setup,
):
    main.add_command(command)


if __name__ == "__main__":
    sys.exit(main())

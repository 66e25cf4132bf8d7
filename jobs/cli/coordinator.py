"""The command that puts the reference coordinator on a socket."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import say
from groupledger.jobs.process.signals import StopOnSignal

if TYPE_CHECKING:
    from groupledger.coordinator.model.config import Config

NODES_MAX = 16
PARTITIONS_MAX = 10_000
_WRITE_EVERY_S = 1.0
_MIGRATION_POLICY = "group.consumer.migration.policy"


@click.command()
@click.option(
    "--listen", default="127.0.0.1:9092", show_default=True, metavar="HOST:PORT", help="The address of the first node."
)
@click.option("--advertise", metavar="HOST", help="The host that clients get, if it is not that of --listen.")
@click.option("--topics", required=True, metavar="T:N,...", help="Topics and their numbers of partitions.")
@click.option(
    "--rate",
    default=100.0,
    show_default=True,
    metavar="N",
    help="Records per second of each topic; with 0 producers write them.",
)
@click.option(
    "--nodes",
    default=2,
    show_default=True,
    type=click.IntRange(1, NODES_MAX),
    help="The number of nodes; each has a port of its own.",
)
@click.option(
    "--faults", "faults_file", type=click.Path(path_type=Path), metavar="FILE", help="A YAML script of faults."
)
@click.option("--seed", default=1, show_default=True, metavar="N", help="The seed of everything that is random.")
@click.option("--set", "broker_settings", multiple=True, metavar="NAME=N", help="A group setting of Kafka's brokers.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Record a capture and the logs here.")
def coordinator(  # noqa: PLR0913 - one for each option
    *,
    listen: str,
    advertise: str | None,
    topics: str,
    rate: float,
    nodes: int,
    faults_file: Path | None,
    seed: int,
    broker_settings: tuple[str, ...],
    out: Path | None,
) -> None:
    """Let real consumers of any language join the reference coordinator, without a broker: it speaks Kafka's protocol,
    creates the records that they read, and plays the script of faults (docs/coordinator.md)."""
    need_kafka_python()
    from groupledger.jobs.coordinator.faults import read_faults
    from groupledger.jobs.coordinator.run import run
    from groupledger.jobs.coordinator.server import Clock, Listen
    from groupledger.jobs.coordinator.service import Service
    from groupledger.jobs.coordinator.world import World

    faults = [] if faults_file is None else read_faults(faults_file)
    if out is not None:
        from groupledger.jobs.coordinator.recording import check_empty

        check_empty(out)
    if rate < 0:
        raise InputError("--rate must not be negative.")
    clock = Clock()
    config, partitions = config_of(broker_settings), topic_partitions(topics)
    world = World(config, seed, nodes, clock.now_ms(), partitions, rate, is_recorded=out is not None)
    service = Service(world, faults, say=say)
    with StopOnSignal() as stop:
        run(service, clock, Listen(listen, advertise), out, stop, _WRITE_EVERY_S, say)


def need_kafka_python() -> None:
    """Raises InputError if kafka-python is not installed. Of the extra `spark`, this command needs only that
    package."""
    try:
        import kafka
    except ModuleNotFoundError as error:
        if error.name != "kafka":
            raise
        raise InputError(
            "kafka-python, which this command needs, is not installed: run `pip install 'groupledger[coordinator]'`."
        ) from error
    del kafka


def topic_partitions(text: str) -> dict[str, int]:
    """Returns the number of partitions by topic in a text such as `orders:12,payments:3`. Raises InputError for any
    other form."""
    found = {}
    for each in text.split(","):
        name, colon, count = each.strip().rpartition(":")
        if not colon or not name or not count.isdecimal() or not 1 <= int(count) <= PARTITIONS_MAX:
            raise InputError(f"--topics needs names and numbers of partitions up to {PARTITIONS_MAX:,}: orders:12.")
        found[name] = int(count)
    return found


def config_of(broker_settings: tuple[str, ...]) -> Config:
    """Returns the coordinator's configuration with the settings in texts such as `group.min.session.timeout.ms=1000`.
    Raises InputError for an unknown setting, or an invalid value."""
    from groupledger.coordinator.model.config import MIGRATION_POLICIES, Config

    names = {field.name.replace("_", "."): field.name for field in fields(Config) if isinstance(field.default, int)}
    found: dict[str, Any] = {}
    for each in broker_settings:
        name, _, value = each.partition("=")
        if name == _MIGRATION_POLICY:
            if value not in MIGRATION_POLICIES:
                raise InputError(f"--set {_MIGRATION_POLICY} needs one of {', '.join(MIGRATION_POLICIES)}.")
            found["group_consumer_migration_policy"] = value
            continue
        if name not in names or not value.isdecimal():
            raise InputError(f"--set needs NAME=N with one of {', '.join(sorted(names))}, or {_MIGRATION_POLICY}.")
        found[names[name]] = int(value)
    return Config(**found)

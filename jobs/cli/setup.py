"""`groupledger setup`: fetches what the commands that write need beside Python's packages."""

from __future__ import annotations

from pathlib import Path

import click

from groupledger.jobs.process.output import say


@click.command()
@click.option(
    "--offline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Take the JARs from a folder, where another machine's setup has put them, and not from the network.",
)
@click.option("--with-broker", is_flag=True, help="Also a Kafka broker, for the tests of a checkout.")
def setup(*, offline: Path | None, with_broker: bool) -> None:
    """Fetch Delta Lake and the Kafka connector for Spark, and keep Spark's classes for its JVM.

    Once for each release, into a folder of the user's cache; GROUPLEDGER_JARS names another one. Questions and `serve`
    need none of it."""
    from groupledger.jobs.process.jars import jar_folder, set_up

    folder = jar_folder()
    set_up(folder, lambda text: say(f"setup: {text}"), offline=offline, with_broker=with_broker)

"""`groupledger setup`: fetches what the commands that write need beside Python's packages."""

from __future__ import annotations

import os
from pathlib import Path

import click

from groupledger.jobs.process.output import say

READ_BY_ALL = 0o022
NEXT = "`groupledger doctor --bootstrap-servers HOST:PORT --warehouse DIR`, which looks whether all is in place"


@click.command()
@click.option(
    "--offline",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Take the JARs from a folder, where another machine's setup has put them"
    " (for --with-s3 from the folder s3 in it), and not from the network.",
)
@click.option("--with-s3", is_flag=True, help="Also Hadoop's client for a warehouse at s3a://.")
@click.option("--with-broker", is_flag=True, help="Also Kafka brokers, for the tests of a checkout.")
@click.option(
    "--without-archive",
    is_flag=True,
    help="Do not store Spark's classes: storing them helps only where Spark is started often.",
)
def setup(*, offline: Path | None, with_s3: bool, with_broker: bool, without_archive: bool) -> None:
    """Fetch Delta Lake and the Kafka connector for Spark, and keep Spark's classes for its JVM.

    Run it once for each release. The files go into a folder of the user's cache, or into that of GROUPLEDGER_JARS.
    Questions and `serve` need none of them."""
    from groupledger.jobs.process.jars import BROKERS, S3, SPARK, jar_folder, set_up

    def report(text: str) -> None:
        say(f"setup: {text}")

    # Published files: who runs the service is seldom the user that installs it.
    os.umask(READ_BY_ALL)
    parts = [SPARK, *([S3] if with_s3 else []), *(BROKERS if with_broker else [])]
    with_archive = not without_archive
    set_up(jar_folder(), report, offline=offline, parts=parts, with_archive=with_archive)
    report(f"done, in {jar_folder()}; next: {NEXT}")

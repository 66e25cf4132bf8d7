"""Runs real consumers on a real broker for some seconds, and shows the resulting ledger.

python -m lab.kafka.demo [--directory demo] [--seconds 20]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.demo.demo import CLUSTER, REPORT, advise
from groupledger.jobs.demo.directory import new_directory
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.ingest.samples import sample
from groupledger.jobs.process.errors import JobError, OutsideError
from groupledger.jobs.process.output import say
from groupledger.jobs.process.session import SHORT_LIVED
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.process.signals import StopOnSignal
from groupledger.jobs.process.terminal import print_table
from groupledger.jobs.report.report import write_report
from groupledger.jobs.warehouse.ledger import open_ledger
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.rebalances import REBALANCES
from lab.kafka.local_broker import LocalBroker, LocalKafkaError
from lab.kafka.local_traffic import make_offsets_topic, run_demo_traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger


def run_demo_on_local_broker(directory: Path, seconds: int, say: Callable[[str], None]) -> None:
    """Runs the demo: writes a warehouse and a report into `directory`. Raises InputError if the directory has files
    that no demo wrote."""
    new_directory(directory)
    settings = load_settings(cluster=CLUSTER)
    warehouse = str(directory.resolve() / "warehouse")
    try:
        say("starting a Kafka broker")
        with LocalBroker(directory / "kafka") as broker:
            make_offsets_topic(broker.bootstrap_servers)
            ingest = KafkaIngest(settings, broker.bootstrap_servers)
            opened = open_ledger(settings, warehouse, "demo", say, java_options=SHORT_LIVED)
            with opened as ledger, StopOnSignal() as stop:
                # The ledger will have seen everything that is written from here on.
                ingest_kafka(ledger, ingest, stop)
                say(f"running consumers against the broker for about {seconds} seconds")
                run_demo_traffic(broker.bootstrap_servers, seconds)
                sample(ledger, broker.bootstrap_servers)
                ingest_kafka(ledger, ingest, stop)
                derive(ledger, stop)
                show(ledger)
                write_report(ClusterRows(ledger.warehouse, ledger.cluster), directory / REPORT, say)
        advise(directory, settings, say)
    except LocalKafkaError as error:
        raise OutsideError(str(error)) from error


def show(ledger: Ledger) -> None:
    records = ledger.rows(COORDINATOR_RECORDS)
    counts = (
        records.groupBy("record_type", "is_tombstone", "decode_error").count().orderBy("record_type", "is_tombstone")
    )
    print_table("Records of __consumer_offsets", ("record type", "tombstone", "error", "records"), counts.collect())
    columns = ("group", "incarnation", "generation", "what changed", "probable trigger", "moved", "members")
    print_table("Rebalances, in the order of the log", columns, rebalances(ledger.rows(REBALANCES)).collect())
    columns = ("group", "type", "alive", "generation", "protocol", "members", "partitions owned")
    print_table("Groups now", columns, groups(ledger.rows(GROUPS)).collect())
    print_table("Committed offsets", ("group", "topic", "partition", "offset"), committed_offsets(records).collect())


def rebalances(rows: DataFrame) -> DataFrame:
    changes = F.array_join(F.array_distinct("changes.kind"), ", ")
    rows = rows.orderBy("kafka_partition", "kafka_offset").withColumn("what", changes)
    return rows.select(
        "group_id", "incarnation", "to_generation", "what", "inferred_trigger", "partitions_moved", "member_count"
    )


def groups(rows: DataFrame) -> DataFrame:
    return rows.orderBy("group_id").select(
        "group_id", "group_type", "is_alive", "generation", "protocol", "member_count", "owned_count"
    )


def committed_offsets(records: DataFrame) -> DataFrame:
    """Returns the last committed offset of each group and partition. An offset whose last record is a tombstone is left
    out."""
    commits = records.where(F.col("offset_commit").isNotNull())
    last = keep_last(commits, ["group_id", "offset_commit.topic", "offset_commit.partition"])
    columns = ["group_id", "offset_commit.topic", "offset_commit.partition", "offset_commit.offset"]
    return last.where(~F.col("is_tombstone")).select(*columns).orderBy("group_id", "topic", "partition")


def keep_last(records: DataFrame, key: list[str]) -> DataFrame:
    newest_first = Window.partitionBy(*key).orderBy(F.desc("kafka_partition"), F.desc("kafka_offset"))
    return records.withColumn("rank", F.row_number().over(newest_first)).where("rank = 1").drop("rank")


@click.command()
@click.option("--directory", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, metavar="DIR")
@click.option(
    "--seconds", type=click.IntRange(min=5, max=600), default=20, show_default=True, help="How long they run."
)
def main(*, directory: Path, seconds: int) -> None:
    """Starts a broker, runs consumers, and shows the resulting ledger."""
    try:
        run_demo_on_local_broker(directory, seconds, say)
    except JobError as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

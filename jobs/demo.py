"""`groupledger demo`: a real broker, real consumers for some seconds, and what the ledger makes of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from jobs.errors import InputError, OutsideError
from jobs.history import update_history
from jobs.ingest import KafkaIngest, ingest_kafka
from jobs.ledger import open_ledger
from jobs.local_broker import LocalBroker, LocalKafkaError
from jobs.local_traffic import make_offsets_topic, run_demo_traffic
from jobs.settings import load_settings
from jobs.stream import StopOnSignal
from jobs.terminal import print_table
from schemas.tables.coordinator_records import COORDINATOR_RECORDS
from schemas.tables.groups import GROUPS
from schemas.tables.rebalances import REBALANCES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from jobs.ledger import Ledger

# A directory with this file in it is a demo's own, and may be replaced by the next.
MARK = ".groupledger-demo"


def run_demo(directory: Path, seconds: int, say: Callable[[str], None]) -> None:
    """Raises InputError if the directory holds something else."""
    if directory.exists() and not (directory / MARK).is_file():
        raise InputError(f"{directory} exists and is no demo's directory: give another one with --directory.")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / MARK).touch()
    settings = load_settings(cluster="demo")
    warehouse = str(directory.resolve() / "warehouse")
    try:
        say("starting a Kafka broker")
        with LocalBroker(directory / "kafka") as broker:
            make_offsets_topic(broker.bootstrap_servers)
            ingest = KafkaIngest(settings, broker.bootstrap_servers)
            with open_ledger(settings, warehouse, "demo", say) as ledger, StopOnSignal() as stop:
                # What is written from here on the ledger will have seen from its begin.
                ingest_kafka(ledger, ingest, stop)
                say(f"running consumers against the broker for about {seconds} seconds")
                run_demo_traffic(broker.bootstrap_servers, seconds)
                ingest_kafka(ledger, ingest, stop)
                update_history(ledger, stop)
                show(ledger)
    except LocalKafkaError as error:
        raise OutsideError(str(error)) from error
    say(f"the tables lie in {warehouse}; try: .venv/bin/groupledger records --warehouse {warehouse} --cluster demo")


def show(ledger: Ledger) -> None:
    records = ledger.rows(COORDINATOR_RECORDS)
    counts = (
        records.groupBy("record_type", "is_tombstone", "decode_error").count().orderBy("record_type", "is_tombstone")
    )
    print_table("Records of __consumer_offsets", ("record type", "tombstone", "error", "records"), counts.collect())
    columns = ("group", "life", "generation", "what changed", "probable trigger", "moved", "members")
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
    """The last commit of each group and partition, if it was not removed."""
    commits = records.where(F.col("offset_commit").isNotNull())
    last = keep_last(commits, ["group_id", "offset_commit.topic", "offset_commit.partition"])
    columns = ["group_id", "offset_commit.topic", "offset_commit.partition", "offset_commit.offset"]
    return last.where(~F.col("is_tombstone")).select(*columns).orderBy("group_id", "topic", "partition")


def keep_last(records: DataFrame, key: list[str]) -> DataFrame:
    newest_first = Window.partitionBy(*key).orderBy(F.desc("kafka_partition"), F.desc("kafka_offset"))
    return records.withColumn("rank", F.row_number().over(newest_first)).where("rank = 1").drop("rank")

"""`groupledger demo`: a real broker, real consumers for some seconds, and what the ledger makes of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from jobs.errors import InputError, OutsideError
from jobs.ingest import KafkaIngest, ingest_kafka
from jobs.ledger import open_ledger
from jobs.local_broker import LocalBroker, LocalKafkaError
from jobs.local_traffic import run_demo_traffic
from jobs.settings import load_settings
from jobs.stream import StopOnSignal
from jobs.terminal import print_table
from schemas.tables.coordinator_records import COORDINATOR_RECORDS
from transforms.record_structs import record_structs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

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
            say(f"running consumers against it for about {seconds} seconds")
            run_demo_traffic(broker.bootstrap_servers, seconds)
            with open_ledger(settings, warehouse, "demo", say) as ledger, StopOnSignal() as stop:
                ingest_kafka(ledger, KafkaIngest(settings, broker.bootstrap_servers), stop)
                show(ledger.rows(COORDINATOR_RECORDS))
    except LocalKafkaError as error:
        raise OutsideError(str(error)) from error
    say(f"the tables lie in {warehouse}; try: .venv/bin/groupledger records --warehouse {warehouse} --cluster demo")


def show(records: DataFrame) -> None:
    counts = (
        records.groupBy("record_type", "is_tombstone", "decode_error").count().orderBy("record_type", "is_tombstone")
    )
    print_table("Records of __consumer_offsets", ("record type", "tombstone", "error", "records"), counts.collect())
    columns = ("group", "generation", "protocol", "members", "client ids")
    print_table("Generations, in the order of the log", columns, generations(records).collect())
    print_table("Groups: the latest generation", columns, latest_generations(records).collect())
    print_table("Committed offsets", ("group", "topic", "partition", "offset"), committed_offsets(records).collect())


def generations(records: DataFrame) -> DataFrame:
    """Each metadata record of a classic group that is no tombstone."""
    metadata = record_structs(records, "group_metadata").where(~F.col("is_tombstone"))
    return metadata.orderBy("kafka_partition", "kafka_offset").select(
        "group_id",
        "group_metadata.generation",
        "group_metadata.protocol",
        F.size("group_metadata.members").alias("members"),
        F.array_join("group_metadata.members.client_id", ", ").alias("client_ids"),
    )


def latest_generations(records: DataFrame) -> DataFrame:
    """Each classic group's last metadata record, unless the group was removed."""
    last = keep_last(records.where(F.col("record_type") == "group_metadata"), ["group_id"])
    return generations(last).orderBy("group_id")


def committed_offsets(records: DataFrame) -> DataFrame:
    """The last commit of each group and partition, if it was not removed."""
    commits = records.where(F.col("offset_commit").isNotNull())
    last = keep_last(commits, ["group_id", "offset_commit.topic", "offset_commit.partition"])
    columns = ["group_id", "offset_commit.topic", "offset_commit.partition", "offset_commit.offset"]
    return last.where(~F.col("is_tombstone")).select(*columns).orderBy("group_id", "topic", "partition")


def keep_last(records: DataFrame, key: list[str]) -> DataFrame:
    newest_first = Window.partitionBy(*key).orderBy(F.desc("kafka_partition"), F.desc("kafka_offset"))
    return records.withColumn("rank", F.row_number().over(newest_first)).where("rank = 1").drop("rank")

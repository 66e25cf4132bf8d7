"""`groupledger demo --local-broker`: a real broker, real consumers for some seconds, what the ledger makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from groupledger.jobs.demo import CLUSTER, advise, new_directory, report
from groupledger.jobs.errors import OutsideError
from groupledger.jobs.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.ledger import open_ledger
from groupledger.jobs.local_broker import LocalBroker, LocalKafkaError
from groupledger.jobs.local_traffic import make_offsets_topic, run_demo_traffic
from groupledger.jobs.pipeline import derive
from groupledger.jobs.samples import sample
from groupledger.jobs.session import SHORT_LIVED
from groupledger.jobs.settings import load_settings
from groupledger.jobs.stream import StopOnSignal
from groupledger.jobs.terminal import print_table
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.rebalances import REBALANCES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from groupledger.jobs.ledger import Ledger


def run_demo_on_local_broker(directory: Path, seconds: int, say: Callable[[str], None]) -> None:
    """Raises InputError if the directory holds something that is no demo's."""
    new_directory(directory)
    settings = load_settings(cluster=CLUSTER)
    warehouse = str(directory.resolve() / "warehouse")
    try:
        say("starting a Kafka broker")
        with LocalBroker(directory / "kafka") as broker:
            make_offsets_topic(broker.bootstrap_servers)
            ingest = KafkaIngest(settings, broker.bootstrap_servers)
            with open_ledger(settings, warehouse, "demo", say, SHORT_LIVED) as ledger, StopOnSignal() as stop:
                # What is written from here on the ledger will have seen from its begin.
                ingest_kafka(ledger, ingest, stop)
                say(f"running consumers against the broker for about {seconds} seconds")
                run_demo_traffic(broker.bootstrap_servers, seconds)
                sample(ledger, broker.bootstrap_servers)
                ingest_kafka(ledger, ingest, stop)
                derive(ledger, stop)
                show(ledger)
                report(ledger, directory, say)
        advise(directory, settings, say)
    except LocalKafkaError as error:
        raise OutsideError(str(error)) from error


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

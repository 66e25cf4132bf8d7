"""Goal: the table that a real ingest writes equals, record by record, the output of Kafka's own tool for the topic."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.records import records
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.validate import validate
from groupledger.jobs.ingest.capture import capture
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS, RECORD_STRUCTS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.transforms.records.record_structs import record_structs
from lab.warehouses import ledgers
from tests.broker import history

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lab.kafka.local_broker import LocalBroker
    from tests.broker.conftest import Evidence


@pytest.fixture(scope="module")
def warehouse(
    spark: SparkSession, broker: LocalBroker, evidence: Evidence, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What `ingest` makes of the history that `evidence` is about."""
    directory = tmp_path_factory.mktemp("warehouse")
    with ledgers.open_test_ledger(spark, directory) as ledger:
        ingest_kafka(ledger, KafkaIngest(load_settings(), broker.bootstrap_servers), threading.Event())
    return directory


def is_witnessed(evidence: Evidence, position: tuple[int, int]) -> bool:
    """Whether a record was there when the evidence was taken; the broker may have written more since."""
    return position <= max((one for one in evidence.committed if one[0] == position[0]), default=(-1, -1))


def test_the_table_is_what_kafka_prints(warehouse: Path, evidence: Evidence) -> None:
    """Goal: `records --json` is DumpLogSegments' JSON for every committed record, and has no other row."""
    shown = {
        (record["partition"], record["offset"]): json.dumps({"key": record["key"], "value": record["value"]})
        for record in records(ClusterRows(str(warehouse), "test"), group=None, limit=None)
    }
    shown = {position: text for position, text in shown.items() if is_witnessed(evidence, position)}
    expected = {
        position: json.dumps({"key": evidence.printed[position].key, "value": evidence.printed[position].payload})
        for position in evidence.committed
    }
    lenient = {position for position in expected if is_lenient(expected[position])}
    assert shown.keys() == expected.keys()
    assert {position for position in expected if shown[position] != expected[position]} <= lenient


def is_lenient(printed: str) -> bool:
    """Members whose broken bytes Kafka's tool prints all the same; the codec's own test is about them."""
    return json.loads(printed)["key"]["data"].get("group") in history.LENIENTLY_PRINTED_MEMBERS


def test_positions_and_times_are_the_brokers(spark: SparkSession, warehouse: Path, evidence: Evidence) -> None:
    """Goal: each record once, with the broker's partition, offset and timestamp."""
    table = spark.read.format("delta").load(str(warehouse / COORDINATOR_RECORDS.name))
    rows = table.selectExpr("kafka_partition", "kafka_offset", "unix_millis(kafka_timestamp)").collect()
    found = sorted(tuple(row) for row in rows if is_witnessed(evidence, (row[0], row[1])))
    assert found == sorted((*position, stored.timestamp_ms) for position, stored in evidence.committed.items())


def test_every_type_has_its_struct(spark: SparkSession, warehouse: Path) -> None:
    """Goal: the JSON of every record type that a broker writes fits the type's struct, without a field lost."""
    table = spark.read.format("delta").load(str(warehouse / COORDINATOR_RECORDS.name)).where("not is_tombstone")
    seen = set()
    for record_type in RECORD_STRUCTS:
        structs = record_structs(table, record_type).select(F.to_json(record_type))
        texts = table.where(F.col("record_type") == record_type).select("record_json")
        found, expected = (sorted(canonical(row[0]) for row in rows.collect()) for rows in (structs, texts))
        assert found == expected
        seen |= {record_type} if found else set()
    assert seen >= {
        "group_metadata",
        "consumer_group_member_metadata",
        "share_group_metadata",
        "streams_group_topology",
    }


def canonical(text: str) -> str:
    """Absent and null are the same to a struct, and so are a struct of nulls and an empty one."""
    return json.dumps(without_nulls(json.loads(text)), sort_keys=True)


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def test_the_history_of_real_groups(spark: SparkSession, warehouse: Path) -> None:
    """Goal: groups of every type get their history, each stated generation is there, and no replay contradicts it."""
    with ledgers.open_test_ledger(spark, warehouse) as ledger:
        update_history(ledger, threading.Event())
        assert validate(ledger) == []
        records = ledger.rows(COORDINATOR_RECORDS).where("decode_error is null").persist()
        groups, generations = ledger.rows(GROUPS), ledger.rows(GENERATIONS)
        assert {row[0] for row in groups.select("group_id").collect()} == {
            row[0] for row in records.select("group_id").distinct().collect()
        }
        assert {row[0] for row in groups.select("group_type").collect()} == {"classic", "consumer", "share", "streams"}
        stated = record_structs(records, "group_metadata").where("not is_tombstone")
        facts = ("group_id", "group_metadata.generation", "group_metadata.leader", "group_metadata.protocol")
        found = generations.where("group_type = 'classic'").select("group_id", "generation", "leader", "protocol")
        assert_equal_sets(found, stated.select(*facts))
        epochs = record_structs(records, "consumer_group_metadata").where("not is_tombstone")
        found = generations.where("group_type = 'consumer'").select("group_id", "generation")
        assert_equal_sets(found, epochs.select("group_id", "consumer_group_metadata.epoch"))


def assert_equal_sets(found: DataFrame, expected: DataFrame) -> None:
    assert found.distinct().exceptAll(expected.distinct()).isEmpty()
    assert expected.distinct().exceptAll(found.distinct()).isEmpty()


def test_a_capture_gives_the_same_table(
    spark: SparkSession, warehouse: Path, broker: LocalBroker, evidence: Evidence, tmp_path: Path
) -> None:
    """Goal: captured and ingested from files, the topic gives the very rows that it gives when read directly."""
    capture(spark, load_settings(), broker.bootstrap_servers, str(tmp_path / "capture"), lambda _text: None)
    ledgers.ingest(spark, tmp_path / "warehouse", tmp_path / "capture")
    assert rows_of(spark, tmp_path / "warehouse", evidence) == rows_of(spark, warehouse, evidence)


def rows_of(spark: SparkSession, warehouse: Path, evidence: Evidence) -> list[str]:
    table = spark.read.format("delta").load(str(warehouse / COORDINATOR_RECORDS.name)).drop("ingest_date")
    rows = [json.loads(row["text"]) for row in table.select(F.to_json(F.struct("*")).alias("text")).collect()]
    return sorted(
        json.dumps(row) for row in rows if is_witnessed(evidence, (row["kafka_partition"], row["kafka_offset"]))
    )

"""Goal: whatever happens to the topic or to our state, rows are exact, or the ingest is refused with the reason."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from groupledger.jobs.derive.history import update_history
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.warehouses.ledgers import coverage, open_test_ledger, positions
from lab.warehouses.sessions import forget_tables
from tests.fault.topic import (
    PARTITIONS,
    commit_in_transaction,
    delete_all_records,
    delete_topic,
    fill,
    filled_broker,
    ingest,
    make_topic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """The broker of all tests that do not restart it."""
    with filled_broker(tmp_path_factory.mktemp("kafka") / "kafka") as started:
        yield started


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with filled_broker(tmp_path / "kafka") as started:
        yield started


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def refused(spark: SparkSession, warehouse: Path, broker: LocalBroker, sentence: str) -> None:
    before = positions(warehouse)
    with pytest.raises(InputError, match=sentence):
        ingest(spark, warehouse, broker.bootstrap_servers)
    assert positions(warehouse) == before


def test_the_topic_is_recreated(spark: SparkSession, warehouse: Path, own_broker: LocalBroker) -> None:
    """Goal: a topic of the same name with another id is refused, with --recover too, since its offsets start again."""
    ingest(spark, warehouse, own_broker.bootstrap_servers)
    delete_topic(own_broker.bootstrap_servers)
    own_broker.restart()
    make_topic(own_broker.bootstrap_servers)
    fill(own_broker.bootstrap_servers, 800)
    refused(spark, warehouse, own_broker, "The topic is another one")
    with pytest.raises(InputError, match="The topic is another one"):
        ingest(spark, warehouse, own_broker.bootstrap_servers, recover=True)


def test_the_topic_ends_below_our_position(spark: SparkSession, warehouse: Path, own_broker: LocalBroker) -> None:
    """Goal: a partition that was cut off gives old offsets to new records: refused, with --recover too. When it has
    grown beyond our position again, the leader's epochs show the cut: --recover goes on there, and the rows that were
    read stay."""
    ingest(spark, warehouse, own_broker.bootstrap_servers)
    own_broker.stop()
    shutil.rmtree(own_broker.data_directory / f"{OFFSETS_TOPIC}-2")
    own_broker.start()
    sentence = "Partition 2 of __consumer_offsets ends at offset 0"
    refused(spark, warehouse, own_broker, sentence)
    with pytest.raises(InputError, match=sentence):
        ingest(spark, warehouse, own_broker.bootstrap_servers, recover=True)
    # It grows again, beyond where we were.
    before = positions(warehouse)
    end = max(offset for partition, offset in before if partition == 2) + 1
    fill(own_broker.bootstrap_servers, (end + 10) * PARTITIONS)
    refused(spark, warehouse, own_broker, f"Partition 2 of __consumer_offsets was cut off at offset 0.* up to {end}")
    ingest(spark, warehouse, own_broker.bootstrap_servers, recover=True)
    found = positions(warehouse)
    assert {*before} < {*found}
    assert [row for row in coverage(warehouse) if row[0] == 2 and row[2] > end] == [
        (2, end, end + 10, "compacted"),
        (2, end + 10, end + 10, "complete"),
    ]
    assert ingest(spark, warehouse, own_broker.bootstrap_servers).rows == 0


# With one broker for all, in this order: its log comes to begin later, it gets one more partition, and is away at last.


def test_the_checkpoint_is_deleted(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: refused, since Delta's sink would repeat all; --recover goes on after the last row, none lost or twice."""
    first = ingest(spark, warehouse, broker.bootstrap_servers)
    assert first.rows == len(positions(warehouse)) == len(set(positions(warehouse)))
    shutil.rmtree(warehouse / "_checkpoints")
    fill(broker.bootstrap_servers, 40)
    refused(spark, warehouse, broker, "the checkpoint that goes with them is gone")
    assert ingest(spark, warehouse, broker.bootstrap_servers, recover=True).rows == 40
    fill(broker.bootstrap_servers, 4)
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == 4
    found = positions(warehouse)
    assert len(found) == len(set(found)) == first.rows + 44


def test_the_source_file_is_gone(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: refused, since nobody says which topic the rows are from; --recover takes the present one's word, goes on
    where it was and calls the log as complete as it was, so that the history goes on, too."""
    ingest(spark, warehouse, broker.bootstrap_servers)
    known = coverage(warehouse)
    (warehouse / "_groupledger/test/source.json").unlink()
    fill(broker.bootstrap_servers, 4 * PARTITIONS)
    refused(spark, warehouse, broker, "the file that says which topic they came from is gone")
    assert ingest(spark, warehouse, broker.bootstrap_servers, recover=True).rows == 4 * PARTITIONS
    assert coverage(warehouse) == [(*place, end + 4, completeness) for *place, end, completeness in known]
    with open_test_ledger(spark, warehouse) as ledger:
        assert update_history(ledger, threading.Event()).rows["open_groups"] > 0


def test_the_table_is_deleted(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: refused; --recover reads all that the topic still has again, each record once, and calls the log as
    complete as it was."""
    ingest(spark, warehouse, broker.bootstrap_servers)
    before, known = positions(warehouse), coverage(warehouse)
    shutil.rmtree(warehouse / "coordinator_records")
    forget_tables(spark)
    with pytest.raises(InputError, match="it was deleted, replaced or restored"):
        ingest(spark, warehouse, broker.bootstrap_servers)
    assert ingest(spark, warehouse, broker.bootstrap_servers, recover=True).rows == len(before)
    assert positions(warehouse) == before
    assert coverage(warehouse) == known


def test_records_are_deleted_above_our_position(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: records that went before they were read are refused; with --recover the rest comes and the hole shows."""
    ingest(spark, warehouse, broker.bootstrap_servers)
    before = positions(warehouse)
    end = max(offset for partition, offset in before if partition == 1) + 1
    fill(broker.bootstrap_servers, 10 * PARTITIONS)
    delete_all_records(broker.bootstrap_servers)
    fill(broker.bootstrap_servers, 30 * PARTITIONS)
    refused(spark, warehouse, broker, f"{10 * PARTITIONS} offsets in {PARTITIONS} partitions were deleted")
    assert ingest(spark, warehouse, broker.bootstrap_servers, recover=True).rows == 30 * PARTITIONS
    fill(broker.bootstrap_servers, PARTITIONS)
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == PARTITIONS
    found = positions(warehouse)
    assert len(found) == len(set(found)) == len(before) + 31 * PARTITIONS
    assert [row for row in coverage(warehouse) if row[0] == 1] == [
        (1, 0, end, "complete"),
        (1, end, end + 10, "unknown"),
        (1, end + 10, end + 40, "compacted"),
        (1, end + 40, end + 41, "complete"),
    ]


def test_records_are_deleted_below_our_position(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: records that we have read may be deleted; nothing is refused and nothing changes."""
    ingest(spark, warehouse, broker.bootstrap_servers)
    before = positions(warehouse)
    delete_all_records(broker.bootstrap_servers)
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == 0
    assert positions(warehouse) == before


def test_open_and_aborted_transactions(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: aborted commits are no commits; after an open transaction the ledger waits, and loses nothing."""
    ingest(spark, warehouse, broker.bootstrap_servers)
    before = len(positions(warehouse))
    aborted = commit_in_transaction(broker.bootstrap_servers, "aborted")
    aborted.abort_transaction()
    pending = commit_in_transaction(broker.bootstrap_servers, "pending")
    fill(broker.bootstrap_servers, 8)
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == 6
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == 0
    pending.commit_transaction()
    assert ingest(spark, warehouse, broker.bootstrap_servers).rows == 3
    found = positions(warehouse)
    assert len(found) == len(set(found)) == before + 9


def test_partitions_are_added(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: another partition count sends groups to other partitions, so that a group's order is lost: refused."""
    ingest(spark, warehouse, broker.bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(OFFSETS_TOPIC, PARTITIONS + 1)])[OFFSETS_TOPIC].result()
    refused(spark, warehouse, broker, "The partition count is another one")


def test_no_broker_and_no_topic(spark: SparkSession, warehouse: Path, broker: LocalBroker) -> None:
    """Goal: a broker that is away, and a cluster without groups, are each said in a sentence."""
    delete_topic(broker.bootstrap_servers)
    with pytest.raises(OutsideError, match="show no topic __consumer_offsets"):
        ingest(spark, warehouse, broker.bootstrap_servers)
    broker.stop()
    with pytest.raises(OutsideError, match=r"No broker answers at 127\.0\.0\.1"):
        ingest(spark, warehouse, broker.bootstrap_servers)

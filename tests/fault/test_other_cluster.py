"""Goal: another cluster that takes the place of ours while a continuous ingest runs gets nothing into the ledger."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import yaml

from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from lab.warehouses.ledgers import positions
from tests.fault.topic import IngestProcess, fill, ingest, make_topic, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lab.kafka.local_broker import LocalBroker


def test_another_cluster_behind_the_same_address(spark: SparkSession, tmp_path: Path, broker: LocalBroker) -> None:
    """Goal: the ingest stops with the sentence and commits no row of the other cluster; when ours is back at the
    address it goes on where it was, though it had planned a batch up to the other cluster's ends."""
    warehouse = tmp_path / "warehouse"
    before = ingest(spark, warehouse, broker.bootstrap_servers).rows
    version = open_table(str(warehouse), COORDINATOR_RECORDS).version()
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"ingest": {"trigger_interval_s": 1}}))
    with IngestProcess(warehouse, broker.bootstrap_servers, "--conf", str(settings), "--continuous") as process:
        fill(broker.bootstrap_servers, 40)
        wait_until(
            lambda: open_table(str(warehouse), COORDINATOR_RECORDS).version() > version + 1, "a batch of the process"
        )
        broker.stop()
        ours = broker.data_directory.with_name("ours")
        broker.data_directory.rename(ours)
        broker.start()
        make_topic(broker.bootstrap_servers)
        fill(broker.bootstrap_servers, 2 * (before + 40))
        code, said = process.finish()
    assert code == 2, said
    assert "The cluster is another one" in said or "The topic is another one" in said
    broker.stop()
    shutil.rmtree(broker.data_directory)
    ours.rename(broker.data_directory)
    broker.start()
    fill(broker.bootstrap_servers, 8)
    ingest(spark, warehouse, broker.bootstrap_servers)
    found = positions(warehouse)
    assert len(found) == len(set(found)) == before + 48

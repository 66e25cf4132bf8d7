"""Goal: ledgers that share a cluster hold together what one ledger of the whole cluster holds, each row once."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.derive.history import update_history
from groupledger.jobs.derive.lag import update_lag
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.ingest.samples import sample
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.settings import load_settings, overlaid
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.faults.contents import OF_THE_RUN, contents, differences
from lab.kafka.local_broker import LocalBroker
from lab.warehouses.ledgers import columns_of, open_test_ledger
from tests.broker.history import make_history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

SHARDS = {"east-1": "1/2", "east-2": "2/2"}
SAMPLED = {
    GROUP_STATES: ("group_id", "group_type", "state"),
    WATERMARKS: ("topic", "partition", "log_start_offset", "high_watermark"),
    LAG: ("group_id", "topic", "partition", "committed_offset", "lag", "status"),
}
NOT_OF_THE_GROUPS = {each.name for each in SAMPLED} | {"coverage", "lag_seeds", "topic_names"}


@contextmanager
def opened(spark: SparkSession, warehouse: Path, cluster: str, shard: str | None) -> Iterator[Ledger]:
    with open_test_ledger(spark, warehouse, cluster) as ledger:
        yield replace(ledger, settings=overlaid(ledger.settings, {"kafka": {"shard": shard}}))


def follow(ledger: Ledger, bootstrap_servers: str) -> None:
    """Does what a pass of `pipeline` does, but for incidents."""
    stop = threading.Event()
    ingest_kafka(ledger, KafkaIngest(ledger.settings, bootstrap_servers), stop)
    sample(ledger, bootstrap_servers)
    ingest_kafka(ledger, KafkaIngest(ledger.settings, bootstrap_servers), stop)  # up to the round
    update_history(ledger, stop)
    update_lag(ledger, stop)


@pytest.fixture(scope="module")
def warehouses(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, str]]:
    """A warehouse with one ledger of the whole cluster, one with a ledger for each shard, and the address. The broker
    is theirs alone, and they read until nothing was written between the reads of the first and the last."""
    whole, parts = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("parts")
    with LocalBroker(tmp_path_factory.mktemp("broker-of-shards"), log_requests=True) as broker:
        make_history(broker)
        address, before = broker.bootstrap_servers, None
        while before != (ends := describe_offsets_topic(address, load_settings().kafka)[1].high_watermark):
            before = ends
            for warehouse, cluster, shard in ((whole, "east", None), *((parts, *each) for each in SHARDS.items())):
                with opened(spark, warehouse, cluster, shard) as ledger:
                    follow(ledger, address)
        yield whole, parts, address


def test_the_parts_are_the_whole(warehouses: tuple[Path, Path, str]) -> None:
    """Goal: records, history and offsets of all parts together are those of the whole, without the columns about the
    run; and each part has some."""
    whole, parts, _ = warehouses
    left_out = OF_THE_RUN | {"cluster"}
    found, expected = contents(parts, left_out), contents(whole, left_out)
    for name in NOT_OF_THE_GROUPS:
        found.pop(name, None)
        expected.pop(name, None)
    assert differences(found, expected) == []
    assert {cluster for (cluster,) in columns_of(parts, COORDINATOR_RECORDS, "cluster")} == {*SHARDS}


def last_round(warehouse: Path, table: Table) -> list[tuple[object, ...]]:
    """The chosen columns of each cluster's last round with lag."""
    last = dict(sorted(columns_of(warehouse, LAG, "cluster", "sampled_at")))
    columns = SAMPLED[table]
    every = columns_of(warehouse, table, *columns, "cluster", "sampled_at")
    return [row[: len(columns)] for row in every if row[-1] == last[row[-2]]]


def test_each_part_samples_its_own(warehouses: tuple[Path, Path, str]) -> None:
    """Goal: groups and lag of the last round are those of the whole, each group in one part; and no part asks for the
    ends of another one's partitions of the log."""
    whole, parts, _ = warehouses
    assert last_round(parts, GROUP_STATES) == last_round(whole, GROUP_STATES)
    assert last_round(parts, LAG) == last_round(whole, LAG)
    # A topic may be read by groups of several parts.
    ends = [[row for row in last_round(each, WATERMARKS) if row[0] == OFFSETS_TOPIC] for each in (parts, whole)]
    assert ends[0] == ends[1]


def test_another_shard_is_refused(spark: SparkSession, warehouses: tuple[Path, Path, str]) -> None:
    """Goal: a ledger never follows another part than it began with; the sentence names both."""
    _, parts, address = warehouses
    for shard in ("2/2", "1/4", None):
        with (
            opened(spark, parts, "east-1", shard) as ledger,
            pytest.raises(
                InputError, match=f"The shard is another one: .* fed from 1/2, and this is {shard or 'the whole'}"
            ),
        ):
            ingest_kafka(ledger, KafkaIngest(ledger.settings, address), threading.Event())

"""Goal: Kafka's own cleaner thins a topic between passes; the ledger claims nothing wrong about it, and reports all
records of the parts from which nothing was removed.

An hour of ten simulated groups is written into the one partition of a real `__consumer_offsets`, in parts. Some are
read at once, some when the cleaner has gone over them, and at last another ledger reads the whole for the first time.
The truth is the same log, as it was written.
"""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.ingest.ingest import KafkaIngest, ingest_kafka
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.source import read_source
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.transforms.coverage.rules.stretches import stretches
from groupledger.transforms.history.rules.events import mark_of
from lab.faults.growing_log import HOUR_MS, MIX
from lab.kafka.cleaned_topic import PROPERTIES, clean, make_topic, write
from lab.kafka.local_broker import LocalBroker
from lab.truth.claims import false_claims, missing_rebalances
from lab.truth.histories import Tables, folded, position
from lab.truth.simulated import decoded, in_one_partition
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from groupledger.transforms.coverage.rules.stretches import Stretch

SEED = 4
PARTS = 9
READ_AT_ONCE, READ_CLEANED = (1, 3, 6, 9), (2, 5, 8)  # after these parts; the others wait for the next pass


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path_factory.mktemp("cleaner"), properties=PROPERTIES) as started:
        make_topic(started.bootstrap_servers)
        yield started


def end_of(broker: LocalBroker) -> int:
    return describe_offsets_topic(broker.bootstrap_servers, load_settings().kafka)[1].high_watermark[0]


class Ledger:
    """A warehouse that reads the broker's topic in passes, and what the history says of the rows of each."""

    def __init__(self, spark: SparkSession, warehouse: Path, truth: dict[str, Tables], log: pa.Table) -> None:
        self.spark, self.warehouse = spark, warehouse
        self.log = {entry.kafka_offset: (group, entry) for group, entry in decoded(log)}  # type: ignore[union-attr]
        self.tables = {group_id: Tables() for group_id in truth}
        self.read: set[int] = set()
        self.end = 0

    def pass_over(self, broker: LocalBroker) -> None:
        with open_test_ledger(self.spark, self.warehouse) as ledger:
            ingest_kafka(ledger, KafkaIngest(load_settings(), broker.bootstrap_servers), threading.Event())
            rows = ledger.arrow(COORDINATOR_RECORDS, columns=["kafka_offset"]).column("kafka_offset").to_pylist()
        new = set(rows) - self.read
        self.read |= new
        self.end = end_of(broker)
        marks = [mark_of(each) for each in self.coverage()]
        entries = [self.log[offset] for offset in new if offset in self.log]
        for group_id, tables in self.tables.items():
            tables.take(sorted([*marks, *(entry for group, entry in entries if group == group_id)], key=position))

    def is_known(self) -> bool:
        """Returns whether the table says until when the log is known, after one pass."""
        with open_test_ledger(self.spark, self.warehouse) as ledger:
            return any(ledger.arrow(COVERAGE, columns=["to_time"])["to_time"].to_pylist())

    def coverage(self, known_until_ms: int | None = None) -> list[Stretch]:
        with open_test_ledger(self.spark, self.warehouse) as ledger:
            source = read_source(ledger.storage, ledger.cluster)
        assert source is not None
        return stretches(source.readings[0], self.end, known_until_ms)


def test_what_the_cleaner_leaves(spark: SparkSession, broker: LocalBroker, tmp_path: Path) -> None:
    """Goal: passes before and after a cleaning, and the first read of a thinned topic: no claim is false, every
    rebalance that lies where nothing was removed is reported in full, and one pass is enough to know the log."""
    log = in_one_partition(MIX, SEED)
    entries = sorted(decoded(log), key=lambda each: position(each[1]))
    truth = {each: folded([entry for group, entry in entries if group == each]) for each in sorted(dict(entries))}
    often, late = (Ledger(spark, tmp_path / name, truth, log) for name in ("often", "late"))
    size = -(-log.num_rows // PARTS)
    for part in range(1, PARTS + 1):
        begin = (part - 1) * size
        write(broker.bootstrap_servers, log.slice(begin, size))
        if part in READ_CLEANED:
            clean(broker, begin)
        if part in (*READ_AT_ONCE, *READ_CLEANED):
            often.pass_over(broker)
    late.pass_over(broker)
    assert all(ledger.is_known() for ledger in (often, late))
    assert end_of(broker) == log.num_rows

    thinned = ["compacted", "compacted: batch_headers", "complete"]
    assert kinds(often) == ["complete", *thinned * len(READ_CLEANED)]
    assert kinds(late) == thinned[:2]  # the complete stretch begins where the log ended then
    assert {row["is_hole"] for tables in often.tables.values() for row in tables.table("rebalances")} == {True, False}
    for ledger in (often, late):
        found = ledger.coverage(BEGAN_AT_MS + HOUR_MS)
        assert len(ledger.read) < log.num_rows
        random = Random(SEED)
        for group_id, tables in ledger.tables.items():
            assert false_claims(tables, truth[group_id], found, (BEGAN_AT_MS, BEGAN_AT_MS + HOUR_MS), random) == []
            assert missing_rebalances(tables, truth[group_id], found) == []


def kinds(ledger: Ledger) -> list[str]:
    """Returns what coverage calls each stretch, with the proof that a compacted one has all its records."""
    return [
        each.completeness if each.completeness == "complete" or each.proof is None else f"compacted: {each.proof}"
        for each in ledger.coverage()
    ]

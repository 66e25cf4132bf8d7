"""Goal: each record of a topic of offset syncs is in the table once, also after several passes, and `failover` answers
from the table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.ingest.offset_syncs import read_offset_syncs
from groupledger.jobs.warehouse.ledger import Ledger
from groupledger.schemas.codec.offset_sync import OffsetSync, encode_offset_sync
from groupledger.schemas.tables.offset_syncs import OFFSET_SYNCS
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.ask.mirrored import EAST, SYNCS, TOPIC, WEST, commits
from tests.jobs.ask.test_failover import rows

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from tests.broker.conftest import Evidence

SETTLE_S_MAX = 90


def write_syncs(servers: str, *places: tuple[int, int, int]) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for partition, upstream, downstream in places:
        key, value = encode_offset_sync(OffsetSync("orders", partition, upstream, downstream))
        producer.produce(SYNCS, value, key, partition=0)
    assert producer.flush(30) == 0


def test_syncs_of_a_broker(
    spark: SparkSession, evidence: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: without the topic there is no table; each pass adds the new syncs, and a record that is no sync with its
    reason; the command translates by the rows. A topic that was made anew is not read, and a line says so."""
    servers = evidence.broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})

    def read() -> int:
        with open_test_ledger(spark, tmp_path, cluster=EAST) as ledger:
            return read_offset_syncs(ledger, servers)

    assert read() == 0
    assert not (tmp_path / OFFSET_SYNCS.name).exists()
    admin.create_topics([NewTopic(SYNCS, 1, 1, config={"cleanup.policy": "compact"})])[SYNCS].result()
    try:
        assert read() == 0
        write_syncs(servers, (0, 100, 80), (1, 100, 80))
        assert (read(), read()) == (2, 0)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce(SYNCS, b"no sync", b"\0", partition=0)
        assert producer.flush(30) == 0
        write_syncs(servers, (2, 100, 80), (2, 300, 200))
        assert (read(), read()) == (3, 0)
        admin.delete_topics([SYNCS])[SYNCS].result()
        admin.create_topics([NewTopic(SYNCS, 1, 1)])[SYNCS].result()
        said = list[str]()
        monkeypatch.setattr(Ledger, "warn", lambda _, text: said.append(text))
        deadline = time.monotonic() + SETTLE_S_MAX
        while not said:  # the broker may not know the new topic yet
            assert time.monotonic() < deadline
            assert read() == 0
    finally:
        admin.delete_topics([SYNCS])[SYNCS].result()
    with open_test_ledger(spark, tmp_path, cluster=EAST) as ledger:
        found = sorted(ledger.arrow(OFFSET_SYNCS).to_pylist(), key=lambda row: row["kafka_offset"])
    assert [row["kafka_offset"] for row in found] == [0, 1, 2, 3, 4]
    assert [row["decode_error"] is None for row in found] == [True, True, False, True, True]
    assert all(row["synced_at"] is not None for row in found)
    commits(tmp_path, EAST, TOPIC, {0: 100, 1: 100, 2: 350})
    commits(tmp_path, WEST, f"{EAST}.{TOPIC}", {0: 80, 1: 95, 2: 150})
    outcomes = {partition: row["outcome"] for partition, row in rows(tmp_path).items()}
    assert outcomes == {0: "exact", 1: "skips", 2: "repeats"}

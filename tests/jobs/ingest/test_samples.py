"""Sampling rounds and the commits that follow them, in real tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable

from groupledger.coordinator.simulator.described_groups import SimulatedGroupState
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, SimulatedWatermark
from groupledger.jobs.demo.simulate import table_of
from groupledger.jobs.ingest.import_samples import import_samples
from groupledger.jobs.ingest.samples import append_round, last_round_ms, next_round_ms, sampled_topics
from groupledger.jobs.kafka import sampling
from groupledger.jobs.monitor.commits import commits_in
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.added_files import added_since
from groupledger.jobs.warehouse.delta_log import last_transaction
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.watermarks import WATERMARKS
from lab.warehouses.ledgers import describe_capture, ingest, open_test_ledger, write_capture
from lab.warehouses.rows import offset_commit

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table

DAY_MS = 86_400_000


def write_samples(directory: Path, rounds: int) -> None:
    """As `simulate` writes them; a day between the rounds."""
    at = [BEGAN_AT_MS + number * DAY_MS for number in range(rounds)]
    watermarks = [
        SimulatedWatermark(
            sampled_at_ms=at_ms,
            topic="orders",
            partition=0,
            log_start_offset=1,
            high_watermark=10 + at_ms % 7,
            last_stable_offset=9,
            topic_id="topic-id",
        )
        for at_ms in at
    ]
    states = [
        SimulatedGroupState(
            sampled_at_ms=at_ms,
            group_id="g",
            state="Stable",
            protocol_type="consumer",
            protocol="range",
            member_count=2,
            error=None,
        )
        for at_ms in at
    ]
    for name, table in (
        ("watermarks", table_of(SimulatedWatermark, watermarks)),
        ("group_states", table_of(SimulatedGroupState, states)),
    ):
        (directory / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, directory / name / "part-0.parquet")


def rows_of(spark: SparkSession, warehouse: Path, table: Table) -> list[Any]:
    rows = spark.read.format("delta").load(str(warehouse / table.name))
    return sorted(rows.collect(), key=lambda row: (row.sampled_at, row[2]))


def test_samples_are_imported_once(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: the same files twice add nothing, longer ones what is new, each round under its date; rounds of our own go
    on after them, and one that is written again is dropped."""
    warehouse, samples = tmp_path / "warehouse", tmp_path / "samples"
    write_samples(samples, 2)
    with open_test_ledger(spark, warehouse) as ledger:
        import_samples(ledger, str(samples))
        import_samples(ledger, str(samples))
        assert len(rows_of(spark, warehouse, WATERMARKS)) == 2
        write_samples(samples, 3)
        import_samples(ledger, str(samples))
        last_ms = BEGAN_AT_MS + 2 * DAY_MS
        assert last_round_ms(ledger) == last_ms
        at_ms = next_round_ms(last_ms - 1_000, last_round_ms(ledger))  # the clock has gone back
        taken = sampling.SampledRound(
            at_ms,
            (sampling.SampledWatermark("orders", 1, error="NOT_LEADER"),),
            (sampling.SampledGroupState("h"),),
            {},
            {},
        )
        append_round(ledger, taken)
        append_round(ledger, taken)
        assert last_transaction(ledger.warehouse, WATERMARKS, "groupledger test watermarks") == at_ms
    watermarks, states = rows_of(spark, warehouse, WATERMARKS), rows_of(spark, warehouse, GROUP_STATES)
    assert [(row.cluster, row.topic, row.partition, row.error) for row in watermarks] == [
        ("test", "orders", 0, None),
        ("test", "orders", 0, None),
        ("test", "orders", 0, None),
        ("test", "orders", 1, "NOT_LEADER"),
    ]
    assert [row.group_id for row in states] == ["g", "g", "g", "h"]
    assert all(row.sample_date == row.sampled_at.date() for row in (*watermarks, *states))
    assert (watermarks[0].high_watermark, watermarks[3].high_watermark) == (10 + BEGAN_AT_MS % 7, None)


def test_wrong_samples_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a directory without samples, files with other columns and rows without a key are each one sentence."""
    with open_test_ledger(spark, tmp_path / "warehouse") as ledger:
        with pytest.raises(InputError, match="holds no Parquet files"):
            import_samples(ledger, str(tmp_path / "nothing"))
        write_samples(tmp_path / "a", 1)
        pq.write_table(pa.table({"sampled_at_ms": [1]}), tmp_path / "a/group_states/part-0.parquet")
        with pytest.raises(InputError, match="are no samples"):
            import_samples(ledger, str(tmp_path / "a"))
        write_samples(tmp_path / "b", 1)
        no_key = pa.table({"sampled_at_ms": [1], "group_id": pa.array([None], pa.string())})
        pq.write_table(no_key, tmp_path / "b/group_states/part-0.parquet")
        with pytest.raises(InputError, match="rows without sampled_at_ms or group_id"):
            import_samples(ledger, str(tmp_path / "b"))


def test_new_commits_only(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: each look reads the commits that came since, of our cluster, and none that were only moved to other files;
    the topics with commits are those that a round asks about."""
    warehouse = tmp_path / "warehouse"

    def add(name: str, offsets: range, cluster: str = "test") -> None:
        rows = {(0, offset): offset_commit(group_id="g", topic=f"topic-{offset}", offset=offset) for offset in offsets}
        write_capture(tmp_path / name, rows)
        describe_capture(tmp_path / name, {0: offsets.start, 1: 0}, {0: offsets.stop, 1: 0})
        ingest(spark, warehouse, tmp_path / name, cluster=cluster)

    add("first", range(3))
    with open_test_ledger(spark, warehouse) as ledger:
        version = Tables(spark, str(warehouse)).version(COORDINATOR_RECORDS)
    add("other", range(9), cluster="other")
    add("second", range(3, 5))
    DeltaTable.forPath(spark, str(warehouse / COORDINATOR_RECORDS.name)).optimize().executeCompaction()
    with open_test_ledger(spark, warehouse) as ledger:
        files = added_since(ledger, COORDINATOR_RECORDS, version)
        assert files.version == Tables(spark, str(warehouse)).version(COORDINATOR_RECORDS)
        assert files.row_count == 9 + 2
        found = commits_in(ledger, files).select("group_id", "topic", "committed_offset").collect()
        assert sorted(map(tuple, found)) == [("g", "topic-3", 3), ("g", "topic-4", 4)]
        assert added_since(ledger, COORDINATOR_RECORDS, files.version).paths == ()
        assert sampled_topics(ledger) == {f"topic-{number}" for number in range(5)}

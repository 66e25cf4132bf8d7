"""Goal: a capture is ingested exactly once, however often and in whatever overlap it comes, or is refused whole."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.rebuilds import is_requested
from groupledger.jobs.warehouse.source import read_source
from groupledger.jobs.warehouse.storage import LocalStorage
from lab.warehouses.ledgers import (
    CAPTURED_AT_MS,
    IDENTITY,
    coverage,
    describe_capture,
    ingest,
    positions,
    write_capture,
)
from lab.warehouses.rows import offset_commit
from lab.warehouses.sessions import forget_tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ROW = offset_commit()
FIRST = {(0, 10): ROW, (0, 12): ROW, (1, 5): (b"not Kafka's", None)}
CHECKPOINT = "_checkpoints/test/coordinator_records"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    directory = tmp_path / "capture"
    write_capture(directory, FIRST)
    describe_capture(directory, {0: 10, 1: 0}, {0: 15, 1: 6})
    return directory


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def test_once(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: every row arrives, those that can't be decoded too, and coverage reaches the capture's ends. Nobody
    explained its gaps; from the second record of a key on nothing was removed, and before it that is not known."""
    totals = ingest(spark, warehouse, capture)
    assert (totals.rows, totals.quarantined) == (3, 1)
    assert positions(warehouse) == sorted(FIRST)
    assert coverage(warehouse) == [(0, 10, 12, "compacted"), (0, 12, 15, "compacted"), (1, 0, 6, "compacted")]
    source = read_source(LocalStorage(warehouse), "test")
    assert source is not None
    assert source.readings[0][0].proof == "repeated_key"


def test_twice(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: the same capture again, also from another directory, changes nothing."""
    ingest(spark, warehouse, capture)
    assert ingest(spark, warehouse, capture).rows == 0
    copy = capture.with_name("copy [of] it {1}")
    capture.rename(copy)
    assert ingest(spark, warehouse, copy).rows == 0
    assert positions(warehouse) == sorted(FIRST)


def test_a_later_capture_that_overlaps(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: only the new records of a later and longer copy of the topic are added. By its headers, the maker of the
    copy knew that nothing was removed in the gap."""
    ingest(spark, warehouse, capture)
    later = capture.with_name("later")
    write_capture(later, {(0, 12): ROW, (0, 20): ROW})
    describe_capture(later, {0: 10, 1: 0}, {0: 21, 1: 6}, explained_from={0: 11})
    assert ingest(spark, warehouse, later).rows == 1
    assert positions(warehouse) == sorted([*FIRST, (0, 20)])
    assert coverage(warehouse) == [
        (0, 10, 12, "compacted"),
        (0, 12, 15, "compacted"),
        (0, 15, 21, "complete"),
        (1, 0, 6, "compacted"),
    ]


@pytest.mark.parametrize("hours", [23, 25])
def test_a_later_capture_without_proof(spark: SparkSession, capture: Path, warehouse: Path, hours: int) -> None:
    """Goal: if nobody can explain a gap, records may have been removed since the last capture; after more than a day
    tombstones too, so that no earlier state is kept."""
    ingest(spark, warehouse, capture)
    later = capture.with_name("later")
    write_capture(later, {(0, 16): ROW, (0, 20): ROW, (0, 22): ROW})
    describe_capture(later, {0: 10}, {0: 25}, captured_at_ms=CAPTURED_AT_MS + hours * 3_600_000)
    assert ingest(spark, warehouse, later).rows == 3
    source = read_source(LocalStorage(warehouse), "test")
    assert source is not None
    assert [reading.is_state_lost for reading in source.readings[0]] == [False, hours == 25]
    assert [row for row in coverage(warehouse) if row[0] == 0] == [
        (0, 10, 12, "compacted"),
        (0, 12, 15, "compacted"),
        (0, 15, 20, "compacted"),
        (0, 20, 25, "compacted"),
    ]


def test_two_clusters_in_one_warehouse(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: clusters share the tables and nothing else."""
    ingest(spark, warehouse, capture, cluster="one")
    ingest(spark, warehouse, capture, cluster="two")
    assert positions(warehouse) == sorted([*FIRST, *FIRST])


def refused(spark: SparkSession, warehouse: Path, directory: Path, sentence: str) -> None:
    """The ingest is refused with this sentence, and the table stays as it is."""
    before = positions(warehouse) if (warehouse / "coordinator_records").exists() else []
    with pytest.raises(InputError, match=sentence):
        ingest(spark, warehouse, directory)
    after = positions(warehouse) if (warehouse / "coordinator_records").exists() else []
    assert before == after


def test_rows_that_come_too_late(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: rows below the ledger's position that it has not are no silent skip."""
    ingest(spark, warehouse, capture)
    late = capture.with_name("late")
    write_capture(late, {(0, 10): ROW, (0, 11): ROW, (0, 30): ROW})
    refused(spark, warehouse, late, "1 rows of the capture lie below")


def test_files_that_overlap(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: one offset twice within a capture is refused, since nobody can say which is right."""
    write_capture(capture, {(0, 12): ROW}, name="part-1")
    refused(spark, warehouse, capture, "offset 12 of partition 0 more than once")


def test_rows_of_another_topic(spark: SparkSession, tmp_path: Path, warehouse: Path) -> None:
    """Goal: a capture of something else is refused."""
    write_capture(tmp_path / "other", FIRST, topic="orders")
    refused(spark, warehouse, tmp_path / "other", "not from __consumer_offsets")


def test_no_capture_at_all(spark: SparkSession, tmp_path: Path, warehouse: Path) -> None:
    """Goal: an empty or missing directory, and Parquet files of another shape, are each named in the error."""
    refused(spark, warehouse, tmp_path / "missing", "holds no Parquet files")
    spark.range(1).write.parquet(str(tmp_path / "shape"))
    refused(spark, warehouse, tmp_path / "shape", "are no capture: key, value, topic")


@pytest.mark.parametrize("change", [{"cluster_id": "other"}, {"topic_id": "other"}, {"partition_count": 3}])
def test_another_topic(spark: SparkSession, capture: Path, warehouse: Path, change: dict[str, object]) -> None:
    """Goal: another cluster, a recreated topic and another partition count are refused by name."""
    ingest(spark, warehouse, capture)
    other = capture.with_name("other")
    write_capture(other, {(0, 99): ROW})
    describe_capture(other, {0: 0}, {0: 100}, identity=replace(IDENTITY, **change))  # type: ignore[arg-type]
    refused(spark, warehouse, other, "is another one: the ledger of cluster test was fed from")


def test_a_hole(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: a capture that begins after the ledger's end is refused; with --recover the hole shows in coverage."""
    ingest(spark, warehouse, capture)
    behind = capture.with_name("behind")
    write_capture(behind, {(0, 40): ROW})
    describe_capture(behind, {0: 30, 1: 6}, {0: 41, 1: 6})
    refused(spark, warehouse, behind, "begins after the end of the ledger in 1 partitions")
    assert ingest(spark, warehouse, behind, recover=True).rows == 1
    assert [row for row in coverage(warehouse) if row[0] == 0] == [
        (0, 10, 12, "compacted"),
        (0, 12, 15, "compacted"),
        (0, 15, 30, "unknown"),
        (0, 30, 41, "compacted"),
    ]


def test_the_checkpoint_is_gone(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: without its checkpoint the sink would repeat every row: refused, and --recover goes on exactly."""
    ingest(spark, warehouse, capture)
    shutil.rmtree(warehouse / CHECKPOINT)
    refused(spark, warehouse, capture, "the checkpoint that goes with them is gone")
    write_capture(capture, {(0, 16): ROW}, name="part-1")
    describe_capture(capture, {0: 10, 1: 0}, {0: 17, 1: 6})
    assert ingest(spark, warehouse, capture, recover=True).rows == 1
    assert positions(warehouse) == sorted([*FIRST, (0, 16)])


def test_the_table_is_gone(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: with a checkpoint but no table, the records that were read would be missing for good: refused; --recover
    reads all that there is again, and `coverage` shows that. The same holds if the checkpoint was deleted, too."""
    ingest(spark, warehouse, capture)
    known = coverage(warehouse)
    for sentence, others in (("is older than its checkpoint", ()), ("has no rows, and `coverage`", (CHECKPOINT,))):
        for name in ("coordinator_records", *others):
            shutil.rmtree(warehouse / name)
        forget_tables(spark)
        refused(spark, warehouse, capture, sentence)
        assert ingest(spark, warehouse, capture, recover=True).rows == len(FIRST)
        assert positions(warehouse) == sorted(FIRST)
        assert coverage(warehouse) == known
        assert is_requested(LocalStorage(warehouse), "test")


def test_the_table_is_an_old_one(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: the table lacks records because it is an older copy, and the ingest refuses it; --recover reads the records
    again, and shows a hole where the capture has them no longer."""
    ingest(spark, warehouse, capture)
    backup = warehouse.with_name("backup")
    shutil.copytree(warehouse / "coordinator_records", backup)
    for offset in (20, 30):
        write_capture(capture, {(0, offset): ROW}, name=f"part-{offset}")
        describe_capture(capture, {0: 10, 1: 0}, {0: offset + 1, 1: 6}, explained_from={0: 13})
        ingest(spark, warehouse, capture)
    shutil.rmtree(warehouse / "coordinator_records")
    shutil.copytree(backup, warehouse / "coordinator_records")
    forget_tables(spark)
    refused(spark, warehouse, capture, "is older than its checkpoint")
    later = capture.with_name("later")
    write_capture(later, {(0, 30): ROW})
    describe_capture(later, {0: 30, 1: 6}, {0: 31, 1: 6})
    assert ingest(spark, warehouse, later, recover=True).rows == 1
    assert positions(warehouse) == sorted([*FIRST, (0, 30)])
    assert [each for each in coverage(warehouse) if each[0] == 0] == [
        (0, 10, 12, "compacted"),
        (0, 12, 13, "compacted"),
        (0, 13, 30, "unknown"),
        (0, 30, 31, "compacted"),
    ]


def test_the_checkpoint_is_an_old_one(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: with an older checkpoint Delta would drop the next batches as repeated: refused; --recover goes on."""
    ingest(spark, warehouse, capture)
    backup = warehouse.with_name("backup")
    shutil.copytree(warehouse / CHECKPOINT, backup)
    for offset in (20, 30):
        write_capture(capture, {(0, offset): ROW}, name=f"part-{offset}")
        describe_capture(capture, {0: 10, 1: 0}, {0: offset + 1, 1: 6})
        ingest(spark, warehouse, capture)
    shutil.rmtree(warehouse / CHECKPOINT)
    shutil.copytree(backup, warehouse / CHECKPOINT)
    write_capture(capture, {(0, 40): ROW}, name="part-40")
    describe_capture(capture, {0: 10, 1: 0}, {0: 41, 1: 6})
    refused(spark, warehouse, capture, "is newer than its checkpoint")
    assert ingest(spark, warehouse, capture, recover=True).rows == 1
    assert positions(warehouse) == sorted([*FIRST, (0, 20), (0, 30), (0, 40)])


def known_from(warehouse: Path) -> dict[int, list[tuple[int, int]]]:
    """Returns, by partition, where each reading begins and from where on the log is known."""
    source = read_source(LocalStorage(warehouse), "test")
    assert source is not None
    return {key: [(each.from_offset, each.known_from) for each in some] for key, some in source.readings.items()}


def test_the_source_file_is_gone(spark: SparkSession, capture: Path, warehouse: Path) -> None:
    """Goal: nobody can say any more which topic the rows are from: refused; --recover takes the present one's word, and
    knows from `coverage` how completely the log was read."""
    ingest(spark, warehouse, capture)
    before, source = coverage(warehouse), warehouse / "_groupledger/test/source.json"
    known = known_from(warehouse)
    source.unlink()
    refused(spark, warehouse, capture, "which topic they came from is gone")
    assert ingest(spark, warehouse, capture, recover=True).rows == 0
    assert positions(warehouse) == sorted(FIRST)
    assert known_from(warehouse) == known
    assert coverage(warehouse) == before

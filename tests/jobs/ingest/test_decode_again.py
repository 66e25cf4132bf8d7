"""Goal: a newer release decodes once the records that an older release had to quarantine, and the ledger is then as if
the format had always been known."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from groupledger.jobs.ingest import decode_again
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.warehouse.delta_log import added_by
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.codec.records import Record, decode_record, encode_record
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from lab.warehouses.later_release import NEW_TYPE, NEW_TYPE_ID, NEW_VERSIONS, make_release
from lab.warehouses.ledgers import describe_capture, open_test_ledger, write_capture
from lab.warehouses.rows import group_metadata, offset_commit
from tests.jobs.killed import KilledError
from tests.jobs.simulated_log import assert_equal_tables, run, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table
    from lab.warehouses.rows import Row

BROKEN = (b"not Kafka's", b"either")


def of_version(row: Row, version: int) -> Row:
    """The same record in a version whose format has not changed."""
    key, value = row
    assert value is not None
    return key, version.to_bytes(2, "big") + value[2:]


def generation(number: int, version: int = 4) -> Row:
    record = decode_record(*group_metadata())
    assert record.value is not None
    return of_version(
        encode_record(replace(record, value_version=4, value=record.value | {"generation": number})), version
    )


def novelty() -> Row:
    key, value = encode_record(
        Record("consumer_group_metadata", {"group_id": "g2"}, 0, {"epoch": 3, "metadata_hash": 0})
    )
    return NEW_TYPE_ID.to_bytes(2, "big") + key[2:], value


LOG: dict[tuple[int, int], Row] = {
    (0, 10): generation(5),
    (0, 11): of_version(offset_commit(offset=41), 5),
    (0, 12): generation(6, version=5),
    (0, 13): BROKEN,
    (0, 14): of_version(offset_commit(offset=43), 6),
    (0, 15): generation(7),
    (0, 16): offset_commit(offset=42),
    (1, 7): novelty(),
}
NEW_TO_IT = [(0, 11), (0, 12), (1, 7)]
NEVER = [(0, 13), (0, 14)]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("capture")
    write_capture(directory, LOG)
    describe_capture(directory, {0: 10, 1: 7}, {0: 17, 1: 8})
    return directory


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes two clusters' ledgers of the same log, as this release leaves them."""
    directory = tmp_path_factory.mktemp("ingested")
    for cluster in ("test", "other"):
        ingest(spark, directory, capture, cluster)
    run(spark, directory)
    return directory


@pytest.fixture
def warehouse(ingested: Path, tmp_path: Path) -> Path:
    return shutil.copytree(ingested, tmp_path / "warehouse")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("release")
    make_release(directory, {**NEW_VERSIONS, "record_types.py": NEW_TYPE})
    return directory


@pytest.fixture
def upgrade(spark: SparkSession, release: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on Spark's workers are of the later release."""

    def begin() -> None:
        # Workers of another environment are other processes.
        monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(release))
        monkeypatch.setattr(decode_again, "codec_digest", lambda: "of the later release")

    return begin


def ingest(spark: SparkSession, warehouse: Path, capture: Path, cluster: str = "test") -> list[str]:
    """What the run says."""
    said: list[str] = []
    with open_test_ledger(spark, warehouse, cluster) as ledger:
        ingest_capture(replace(ledger, say=said.append), str(capture), Event(), recover=False)
    return said


def records(spark: SparkSession, warehouse: Path, cluster: str = "test") -> dict[tuple[int, int], dict[str, Any]]:
    rows = table(spark, warehouse, COORDINATOR_RECORDS).where(F.col("cluster") == cluster).toArrow().to_pylist()
    found = {(row["kafka_partition"], row["kafka_offset"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def quarantined(rows: dict[tuple[int, int], dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted(at for at, row in rows.items() if row["decode_error"] is not None)


def generations(spark: SparkSession, warehouse: Path) -> list[int]:
    rows = table(spark, warehouse, GENERATIONS).where("cluster = 'test' AND group_id = 'g1'").collect()
    return sorted(row.generation for row in rows)


def changes_since(warehouse: Path, version: int, which: Table = COORDINATOR_RECORDS) -> int:
    """The number of commits after a version that change rows: a writer's fence does not."""
    versions = range(version + 1, DeltaTable(str(warehouse / which.name)).version() + 1)
    found = [added_by(LocalStorage(warehouse), which, each) for each in versions]
    return sum(added is None or bool(added.files) or added.has_replaced for added in found)


def test_an_upgrade(
    spark: SparkSession, warehouse: Path, capture: Path, tmp_path: Path, upgrade: Callable[[], None]
) -> None:
    """Goal: the first run after an upgrade replaces the rows that it can decode now in one commit and says so; other
    rows stay as they are; a further run does not look; the tables equal those of a fresh ledger."""
    before, of_other = records(spark, warehouse), records(spark, warehouse, "other")
    assert quarantined(before) == sorted(NEW_TO_IT + NEVER)
    assert generations(spark, warehouse) == [5, 7]
    version = Tables(spark, str(warehouse)).version(COORDINATOR_RECORDS)
    upgrade()
    assert ingest(spark, warehouse, capture) == ["decoding 5 quarantined records again: 3 are decoded now"]
    found = records(spark, warehouse)
    assert changes_since(warehouse, version) == 1
    assert {at: row for at, row in found.items() if at not in NEW_TO_IT} == {
        at: row for at, row in before.items() if at not in NEW_TO_IT
    }
    assert records(spark, warehouse, "other") == of_other
    commit, group, novel = (found[at] for at in NEW_TO_IT)
    assert (commit["record_type"], commit["value_version"], commit["offset_commit"]["offset"]) == (
        "offset_commit",
        5,
        41,
    )
    assert (group["record_type"], json.loads(group["record_json"])["generation"]) == ("group_metadata", 6)
    assert (novel["record_type"], novel["group_id"]) == ("consumer_group_novelty", "g2")
    assert all(found[at][column] is None for at in NEW_TO_IT for column in ("decode_error", "raw_key", "raw_value"))
    run(spark, warehouse)
    assert generations(spark, warehouse) == [5, 6, 7]

    assert ingest(spark, warehouse, capture) == []
    assert changes_since(warehouse, version) == 1
    history = Tables(spark, str(warehouse)).version(GROUPS)
    run(spark, warehouse)
    assert changes_since(warehouse, history, GROUPS) == 0

    fresh = tmp_path / "fresh"
    ingest(spark, fresh, capture)
    run(spark, fresh)
    assert records(spark, fresh) == found
    assert_equal_tables(warehouse, fresh)
    assert ingest(spark, warehouse, capture, "other") == ["decoding 5 quarantined records again: 3 are decoded now"]


def test_kills(
    spark: SparkSession, warehouse: Path, capture: Path, upgrade: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: runs that are killed before the commit, right after it, and after the request for a rebuild are made good
    by the next one: there is one commit, and the history has it all."""
    version = Tables(spark, str(warehouse)).version(COORDINATOR_RECORDS)
    upgrade()
    for killed_at, is_committed in (("replace_rows", False), ("request_rebuild", True), ("write_state", True)):

        def kill(*_: Any, is_under_way: bool = False) -> None:
            if not is_under_way:
                raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(decode_again, killed_at, kill)
            with pytest.raises(KilledError):
                ingest(spark, warehouse, capture)
        assert quarantined(records(spark, warehouse)) == (NEVER if is_committed else sorted(NEW_TO_IT + NEVER))
    ingest(spark, warehouse, capture)
    assert ingest(spark, warehouse, capture) == []
    assert changes_since(warehouse, version) == 1
    run(spark, warehouse)
    assert generations(spark, warehouse) == [5, 6, 7]


def test_other_dates_are_left_alone(
    spark: SparkSession, warehouse: Path, capture: Path, upgrade: Callable[[], None]
) -> None:
    """Goal: the rows are replaced in one commit, and the files of a date without a quarantined row stay."""
    path = Tables(spark, str(warehouse)).path(COORDINATOR_RECORDS)
    old = table(spark, warehouse, COORDINATOR_RECORDS).where("decode_error IS NULL AND cluster = 'test'")
    moved = old.withColumn("ingest_date", F.lit("2026-01-01").cast("date"))
    moved.withColumn("kafka_offset", F.col("kafka_offset") - 10).write.format("delta").mode("append").save(path)
    upgrade()
    ingest(spark, warehouse, capture)
    assert quarantined(records(spark, warehouse)) == NEVER
    (merge,) = (each for each in DeltaTable(path).history() if each["operation"] == "MERGE")
    assert merge["operationMetrics"]["num_target_rows_updated"] == 3
    assert merge["operationMetrics"]["num_target_files_removed"] < 3

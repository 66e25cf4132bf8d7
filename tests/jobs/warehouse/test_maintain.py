"""Goal: upkeep compacts what is closed, removes whole old dates and nothing that somebody still has to read."""

from __future__ import annotations

import shutil
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.offsets_at import offsets_at
from groupledger.jobs.ask.owner import owner
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.ledger import floors_of, known_positions
from groupledger.jobs.warehouse.maintain import maintain
from groupledger.jobs.warehouse.readers import reader_at
from groupledger.jobs.warehouse.retention import (
    Floor,
    above_floors,
    above_history_floor,
    read_floors,
    read_history_floor_ms,
    with_floors,
    with_history_floor,
)
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.tables import ClusterTables, Tables
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.words import Ownership
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.warehouses import BY_HAND, BY_HAND_DATE, SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.maintain import StepOutcome

START = datetime(2026, 1, 5, tzinfo=timezone.utc)
NOW = datetime(2026, 1, 20, tzinfo=timezone.utc)


# Without Spark


def test_floors(tmp_path: Path) -> None:
    """Goal: a floor rises and never sinks, cluster by cluster and partition by partition; where none is, none is read;
    one that an earlier release has left in a file holds until there is another one."""
    storage = LocalStorage(tmp_path)
    assert read_floors({}, storage, "c") == {}
    first = with_floors({}, storage, {"c": {1: Floor(10, 100), 2: Floor(20, 200)}, "d": {1: Floor(1, 1)}})
    then = with_floors(first, storage, {"c": {1: Floor(5, 150), 2: Floor(30, 300), 3: Floor(1, 1)}})
    assert read_floors(then, storage, "c") == {1: Floor(10, 150), 2: Floor(30, 300), 3: Floor(1, 1)}
    assert read_floors(then, storage, "d") == {1: Floor(1, 1)}
    storage.write("_groupledger/e/floor.json", '{"1": {"offset": 7, "time_ms": 70}}')
    assert read_floors(then, storage, "e") == {1: Floor(7, 70)}
    later = with_floors(then, storage, {"e": {1: Floor(9, 60), 2: Floor(1, 1)}})
    assert read_floors(later, storage, "e") == {1: Floor(9, 70), 2: Floor(1, 1)}


def test_the_floor_of_the_history(tmp_path: Path) -> None:
    """Goal: the floor of the history rises and never sinks; coverage begins at it, and an unknown time stays
    unknown."""
    storage = LocalStorage(tmp_path)
    assert read_history_floor_ms([{}], storage, "c") is None
    rows: list[dict[str, Any]] = [{"from_time": START}, {"from_time": None}]
    assert above_history_floor(rows, None) == rows
    properties: dict[str, str] = {}
    for time_ms in (2_000_000_000_000, 1_000):
        properties = with_history_floor(properties, ["c", "d"], time_ms)
    floor_ms = read_history_floor_ms([{}, properties, with_history_floor({}, ["c"], 1_000)], storage, "c")
    assert floor_ms == 2_000_000_000_000
    storage.write("_groupledger/c/history_floor.json", '{"time_ms": 2000000000001}')  # of an earlier release
    assert read_history_floor_ms([properties], storage, "c") == 2_000_000_000_001
    assert above_history_floor(rows, floor_ms)[0]["from_time"] == datetime.fromtimestamp(2e9, timezone.utc)
    assert above_history_floor(rows, 1_000) == rows


def test_coverage_above_floors() -> None:
    """Goal: rows below a floor are known no more; the times of another partition, and times that were unknown, stay."""
    known = {"kafka_partition": 1, "from_time": START}
    rows = [known, {**known, "kafka_partition": 2}, {**known, "from_time": None}]
    later = START + timedelta(hours=1)
    found = above_floors(rows, {1: Floor(10, round(later.timestamp() * 1_000))})
    assert [row["from_time"] for row in found] == [later, START, None]


@pytest.mark.parametrize(("index", "next_version"), [(-1, 7), (0, 8), (9223372036854775805, 8)])
def test_position_of_a_reader(index: int, next_version: int) -> None:
    """Goal: a version counts as read once any of its files is, since a batch takes whole versions."""
    reader = reader_at("c", "history", f'{{"reservoirId":"x","reservoirVersion":7,"index":{index}}}')
    assert reader is not None
    assert reader.next_version == next_version
    assert reader_at("c", "coordinator_records", '{"__consumer_offsets":{"0":7}}') is None


# With Spark


def settings(**maintain_settings: object) -> Settings:
    shipped = load_settings()
    return shipped.model_copy(update={"maintain": shipped.maintain.model_copy(update=maintain_settings)})


def run(
    spark: SparkSession, warehouse: Path, which: Settings, *, is_dry_run: bool = False
) -> dict[tuple[str, str, str], StepOutcome]:
    steps = maintain(spark, str(warehouse), which, NOW, is_dry_run=is_dry_run, say=lambda _text: None)
    return {(step.cluster, step.table, step.action): step for step in steps}


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, filled_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy. The logs written by hand were ingested some months before the simulated hour."""
    copy = tmp_path_factory.mktemp("maintain") / "warehouse"
    shutil.copytree(filled_warehouse, copy)
    return copy


def test_upkeep(spark: SparkSession, warehouse: Path) -> None:
    """Goal: unread rows stay, and a dry run changes nothing; then old dates are gone, their floors stand, and the
    history is as it was."""
    keep = settings(retention_days={"coordinator_records": 30})
    records = Tables(spark, str(warehouse)).rows(COORDINATOR_RECORDS)
    simulated = records.where(F.col("cluster") == SIMULATED).count()
    history = sorted(map(repr, Tables(spark, str(warehouse)).rows(ASSIGNMENTS).collect()))

    # Rows that a reader of the table has not read are not removed, since it would never see them.
    unread = run(spark, warehouse, settings(retention_days={"coordinator_records": 1}), is_dry_run=True)
    refused = unread[SIMULATED, "coordinator_records", "retention"]
    assert refused.is_finding
    assert "run `groupledger history`" in refused.outcome
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        update_history(ledger, threading.Event())
    for table in all_tables():  # upkeep of the others would show nothing more
        if table not in {COORDINATOR_RECORDS, ASSIGNMENTS, COVERAGE}:
            shutil.rmtree(warehouse / table.name, ignore_errors=True)
    version = Tables(spark, str(warehouse)).version(COORDINATOR_RECORDS)
    planned = run(spark, warehouse, keep, is_dry_run=True)[BY_HAND, "coordinator_records", "retention"]
    assert planned.outcome == f"would remove 1 dates, {BY_HAND_DATE} to {BY_HAND_DATE}"
    assert Tables(spark, str(warehouse)).version(COORDINATOR_RECORDS) == version

    done = run(spark, warehouse, keep)
    assert not any(step.is_finding for step in done.values())
    removed = done[BY_HAND, "coordinator_records", "retention"].outcome
    assert removed == f"removed 1 dates, {BY_HAND_DATE} to {BY_HAND_DATE}"
    left = Tables(spark, str(warehouse)).rows(COORDINATOR_RECORDS)
    assert left.where(F.col("cluster") == BY_HAND).isEmpty()
    assert left.count() == simulated
    assert sorted(map(repr, Tables(spark, str(warehouse)).rows(ASSIGNMENTS).collect())) == history
    with open_test_ledger(spark, warehouse, BY_HAND) as ledger:
        assert floors_of(ledger)[5] == Floor(7, 1_760_000_002_000)
        assert known_positions(ledger)[5] == 100  # coverage knows further than the floor
    again = run(spark, warehouse, keep)
    assert again[SIMULATED, "assignments", "optimize"].outcome == "rows that have ended: nothing to compact"
    assert "nothing is older" in again[BY_HAND, "coordinator_records", "retention"].outcome


def test_what_is_removed_is_unknown(filled_warehouse: Path, tmp_path: Path) -> None:
    """Goal: below the floor the committed offsets are unknown, not absent."""
    shutil.copytree(filled_warehouse, tmp_path / "w")
    floors = with_floors({}, LocalStorage(tmp_path / "w"), {BY_HAND: {5: Floor(5, 1_760_000_001_600)}})
    DeltaTable(tmp_path / "w/coordinator_records").alter.set_table_properties(floors, raise_if_not_exists=False)
    answers = ClusterRows(str(tmp_path / "w"), BY_HAND)
    at = datetime.fromtimestamp(1_760_000_001, timezone.utc)
    with pytest.raises(InputError, match=r"the log is known from 2025-10-09T08:53:21\.600Z on"):
        offsets_at(answers, ["simple"], at)
    assert offsets_at(answers, ["simple"], at + timedelta(seconds=2))


def test_retention_of_the_history(spark: SparkSession, filled_warehouse: Path, tmp_path: Path) -> None:
    """Goal: ended rows are removed, open and younger rows stay, and an owner at an instant before is unknown: neither
    owned nor, which would be wrong, unowned."""
    shutil.copytree(filled_warehouse, tmp_path / "w")
    tables = ClusterTables(spark, str(tmp_path / "w"), BY_HAND)
    rows = tables.arrow(ASSIGNMENTS).to_pylist()
    ended = [row for row in rows if row["valid_to"] is not None]

    def status(row: dict[str, Any], at: datetime) -> str:
        answers = ClusterRows(str(tmp_path / "w"), BY_HAND)
        (answer,) = owner(answers, row["group_id"], row["topic"], row["partition"], at)
        return str(answer["status"])

    owned = [row for row in ended if status(row, row["valid_from"]) == Ownership.OWNED]  # and not for no time at all
    assert owned
    others = Tables(spark, str(tmp_path / "w")).rows(ASSIGNMENTS).where(F.col("cluster") == SIMULATED).count()
    keep = settings(retention_days={"assignments": 30, "generations": 30, "rebalances": 30})
    planned = run(spark, tmp_path / "w", keep, is_dry_run=True)[BY_HAND, "assignments", "retention"]
    assert planned.outcome == f"would remove {len(ended):,} rows from before 2025-12-21"
    done = run(spark, tmp_path / "w", keep)
    assert done[BY_HAND, "assignments", "retention"].outcome == f"removed {len(ended):,} rows from before 2025-12-21"
    left = tables.arrow(ASSIGNMENTS).to_pylist()
    assert sorted(map(repr, left)) == sorted(repr(row) for row in rows if row not in ended)
    assert Tables(spark, str(tmp_path / "w")).rows(ASSIGNMENTS).where(F.col("cluster") == SIMULATED).count() == others
    shutil.rmtree(tmp_path / "w/_groupledger")  # a floor is lost with its table, and with nothing else
    assert {status(row, row["valid_from"]) for row in owned} == {Ownership.UNKNOWN}
    assert "nothing is older" in run(spark, tmp_path / "w", keep)[BY_HAND, "assignments", "retention"].outcome


def test_refused(spark: SparkSession, warehouse: Path, tmp_path: Path) -> None:
    """Goal: no upkeep beside the writers of all clusters, of a table without dates, of none, and of nothing."""
    with (
        open_test_ledger(spark, warehouse, SIMULATED),
        open_test_ledger(spark, warehouse, BY_HAND),
        pytest.raises(OutsideError, match="Another writer holds"),
    ):
        run(spark, warehouse, settings())
    with pytest.raises(InputError, match=r"maintain\.retention_days\.groups: its rows have no age"):
        run(spark, warehouse, settings(retention_days={"groups": 30}))
    with pytest.raises(InputError, match=r"maintain\.retention_days\.group: there is no such table"):
        run(spark, warehouse, settings(retention_days={"group": 30}))
    with pytest.raises(InputError, match="has no tables"):
        run(spark, tmp_path, settings())

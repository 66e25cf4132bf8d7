"""Goal: each cluster is maintained under its own lease, whoever writes the others, and one table's error ends no other.

Nothing here needs Spark, as the maintenance itself.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import groupledger.jobs.warehouse.maintain
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.ledger import floors_of
from groupledger.jobs.warehouse.maintain import maintain
from groupledger.jobs.warehouse.merged_files import merge_files
from groupledger.jobs.warehouse.rebuild_units import new_folder
from groupledger.jobs.warehouse.rebuilds import note_versions, remove_versions
from groupledger.jobs.warehouse.retention import Floor
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.table import CHECKPOINT_INTERVAL, DELETED_FILE_RETENTION, LOG_RETENTION
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.commits import Commits
    from groupledger.jobs.warehouse.lease import Lease
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.maintain import StepOutcome
    from groupledger.schemas.tables.table import Table

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
OLD, CLOSED = date(2026, 1, 2), date(2026, 1, 18)
TABLES = (ASSIGNMENTS, GENERATIONS, COORDINATOR_RECORDS, GROUPS)


def settings(**maintain_settings: object) -> Settings:
    shipped = load_settings()
    return shipped.model_copy(update={"maintain": shipped.maintain.model_copy(update=maintain_settings)})


def writer(warehouse: Path, cluster: str) -> AbstractContextManager[Ledger]:
    return open_test_ledger(cast("Any", None), warehouse, cluster)


def run(
    warehouse: Path, which: Settings, held: Sequence[Lease] | None = None, *, is_dry_run: bool = False
) -> dict[tuple[str, str, str], StepOutcome]:
    steps = maintain(
        cast("Any", None), str(warehouse), which, NOW, is_dry_run=is_dry_run, say=lambda _: None, held=held
    )
    return {(step.cluster, step.table, step.action): step for step in steps}


def append(ledger: Ledger, table: Table, **columns: Any) -> None:
    rows = pa.Table.from_pylist([{"cluster": ledger.cluster, **columns}], arrow_schema(table.schema))
    ledger.commits.append(table, rows)


def write(ledger: Ledger) -> None:
    """Writes files of a cluster that can be merged, and records of an old date."""
    ledger.create(*TABLES)
    for number in range(3):
        append(ledger, ASSIGNMENTS, group_id="g", is_open=0, valid_to=NOW - timedelta(days=3))
        append(ledger, GENERATIONS, group_id="g", is_open=0, ended_at=NOW - timedelta(days=3))
        append(ledger, GROUPS, group_id=f"g-{number}")
        for day in (OLD, CLOSED):
            place = {"kafka_partition": 1, "kafka_offset": number, "kafka_timestamp": NOW - timedelta(days=18)}
            append(ledger, COORDINATOR_RECORDS, group_id="g", ingest_date=day, **place)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    for cluster in ("east", "west"):
        with writer(tmp_path, cluster) as ledger:
            write(ledger)
    return tmp_path


def files(warehouse: Path, table: Table, cluster: str) -> set[str]:
    actions = pa.table(DeltaTable(warehouse / table.name).get_add_actions(flatten=True)).to_pylist()
    return {each["path"] for each in actions if cluster in (each.get("partition.cluster"), each.get("min.cluster"))}


def test_two_monitors(warehouse: Path) -> None:
    """Goal: each of two monitors maintains its own cluster while the other one writes, without touching the other's
    files: closed files become one, old records are gone with their floor, dead files are deleted."""
    keep = settings(retention_days={"coordinator_records": 10}, deleted_file_hours={"assignments": 2})
    before = {table: files(warehouse, table, "west") for table in TABLES}
    with writer(warehouse, "west"), writer(warehouse, "east") as ledger:
        done = run(warehouse, keep, (ledger.lease,))
        assert floors_of(ledger) == {1: Floor(3, round((NOW - timedelta(days=18)).timestamp() * 1_000))}
    assert {cluster for cluster, *_ in done} == {"east"}
    assert not any(step.is_finding for step in done.values())
    assert "3 files became 1" in done["east", "assignments", "optimize"].outcome
    assert "3 files became 1, sorted" in done["east", "coordinator_records", "optimize"].outcome
    assert done["east", "coordinator_records", "retention"].outcome == f"removed 1 dates, {OLD} to {OLD}"
    assert "for 2 hours are deleted" in done["east", "assignments", "vacuum"].outcome
    assert {table: files(warehouse, table, "west") for table in TABLES} == before
    assert {table.name: len(files(warehouse, table, "east")) for table in TABLES} == dict.fromkeys(
        (table.name for table in TABLES), 1
    )


def test_the_command_leaves_out_who_is_written(warehouse: Path) -> None:
    """Goal: without leases of its own the command maintains each cluster that nobody writes, names the writers of the
    others, and is refused only if others write all of them."""
    with writer(warehouse, "west"):
        done = run(warehouse, settings())
        with writer(warehouse, "east"), pytest.raises(OutsideError, match="Another writer holds"):
            run(warehouse, settings())
    assert "left to its writer: Another writer holds" in done["west", "", "maintenance"].outcome
    assert {cluster for cluster, table, _ in done if table} == {"east"}


def test_one_error_ends_no_other(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a table that can't be maintained is a finding, and the tables after it are maintained."""

    def fail(commits: Commits, table: Table, paths: list[str]) -> int:
        if table is ASSIGNMENTS:
            raise OutsideError("its disk is full")
        return merge_files(commits, table, paths)

    monkeypatch.setattr(groupledger.jobs.warehouse.maintain, "merge_files", fail)
    done = run(warehouse, settings())
    for cluster in ("east", "west"):
        assert done[cluster, "assignments", "maintenance"].is_finding
        assert done[cluster, "assignments", "maintenance"].outcome == "not done: its disk is full"
        assert "3 files became 1" in done[cluster, "generations", "optimize"].outcome


def test_a_dry_run_changes_nothing(warehouse: Path) -> None:
    """Goal: a dry run reports what would be done, beside writers too, and commits nothing."""
    before = {table: DeltaTable(warehouse / table.name).version() for table in TABLES}
    keep = settings(retention_days={"coordinator_records": 10, "assignments": 1}, log_hours={"groups": 5})
    with writer(warehouse, "east"):
        done = run(warehouse, keep, is_dry_run=True)
    assert done["east", "assignments", "retention"].outcome == "would remove 3 rows from before 2026-01-19"
    assert done["west", "coordinator_records", "retention"].outcome == f"would remove 1 dates, {OLD} to {OLD}"
    assert done["east", "generations", "optimize"].outcome == "would compact rows that have ended: 3 files"
    assert "would keep" in done["east", "groups", "keep"].outcome
    assert {table: DeltaTable(warehouse / table.name).version() for table in TABLES} == before


def test_an_unfinished_rebuild_keeps_its_past(warehouse: Path) -> None:
    """Goal: no file is deleted while a rebuild of any cluster may need the versions that it began with."""
    with writer(warehouse, "west") as ledger:
        note_versions(ledger.storage, ledger.lease, {"assignments": 3})
    done = run(warehouse, settings())
    assert "a rebuild of the history was begun" in done["east", "groups", "vacuum"].outcome
    with writer(warehouse, "west") as ledger:
        remove_versions(ledger.storage, ledger.lease)
    assert "deleted" in run(warehouse, settings())["east", "groups", "vacuum"].outcome


def test_what_a_killed_rebuild_has_left_aside(warehouse: Path) -> None:
    """Goal: tables aside that no rebuild goes on with are deleted, by whoever holds their cluster's lease."""
    storage, left = LocalStorage(warehouse), {each: new_folder(each) for each in ("east", "west")}
    for folder in left.values():
        storage.write(f"{folder}/groups/file", "")
    run(warehouse, settings(), is_dry_run=True)
    with writer(warehouse, "west"):
        run(warehouse, settings())
    assert {each: storage.names(folder.rpartition("/")[0]) for each, folder in left.items()} == {
        "east": [],
        "west": [left["west"].rpartition("/")[2]],
    }


def test_how_long_the_past_is_kept(warehouse: Path) -> None:
    """Goal: a table keeps its past for as long as the settings say, and the next writer of this release leaves that so;
    a log that ends before its reader may come, and an unknown table, are refused."""
    chosen = settings(log_hours={"groups": 5}, deleted_file_hours={"groups": 4}, checkpoint_intervals={"groups": 7})
    assert run(warehouse, chosen)["east", "groups", "keep"].outcome == "keeps its log for 5 hours, deleted files for 4"
    with writer(warehouse, "east") as ledger:
        ledger.create(GROUPS)
    found = DeltaTable(warehouse / "groups").metadata().configuration
    wanted = {CHECKPOINT_INTERVAL: "7", LOG_RETENTION: "interval 5 hours", DELETED_FILE_RETENTION: "interval 16 hours"}
    assert found.items() >= wanted.items()
    for which, text in (
        ({"coordinator_records": 24}, r"log_hours\.coordinator_records is 24, and a reader of that log may come"),
        ({"lags": 24}, r"maintain\.log_hours\.lags: there is no such table"),
    ):
        with pytest.raises(InputError, match=text):
            run(warehouse, settings(log_hours=which))

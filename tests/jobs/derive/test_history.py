"""Goal: the history tables hold the truth, however the log was cut and wherever the job was killed."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F

import groupledger.jobs.derive.history
import groupledger.jobs.derive.rebalance_stats
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.derive.history import TABLES, open_groups_in_memory, rebuild_history, update_history
from groupledger.jobs.derive.validate import (
    damaged_groups,
    has_errors,
    print_findings,
    say_damage,
    validate,
)
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse.rebuilds import is_unfinished
from groupledger.jobs.warehouse.tables import Tables
from groupledger.jobs.warehouse.upsert import replace_cluster, upsert_arrow
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.rebalances import REBALANCES
from lab.warehouses.ledgers import open_test_ledger
from lab.warehouses.scatter import scatter
from tests.jobs.killed import KillBefore, KilledError
from tests.jobs.simulated_log import HOUR_MS, append, assert_equal_tables, run, table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table
    from tests.jobs.simulated_log import Simulated

CUT_MINUTE, LAST_MINUTE = 20, 61
TABLES_BEFORE_KILL = 3
ALONE = 10  # the partition of a group whose states `scatter` puts after a file without them


def micros(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


def test_generations_are_the_truth(spark: SparkSession, simulated: Simulated, whole: Path) -> None:
    """Goal: every generation that left a record, with its leader and its members, and no other."""
    columns = ("group_id", "incarnation", "generation", "revision", "leader", "member_count", "kafka_offset")
    found = sorted(map(tuple, table(spark, whole, GENERATIONS).select(*columns).collect()), key=str)
    expected = [
        (row.group_id, row.incarnation, row.generation, row.revision, row.leader, len(row.member_ids), row.kafka_offset)
        for row in simulated.truth.generations
        if row.kafka_offset is not None
    ]
    assert found == sorted(expected, key=str)


def test_owners_are_the_truth(spark: SparkSession, simulated: Simulated, whole: Path) -> None:
    """Goal: every interval of ownership, from the record that began it to the one that ended it."""
    columns = ("group_id", "incarnation", "topic", "partition", "member_id", "client_id", "from_offset")
    rows = table(spark, whole, ASSIGNMENTS).selectExpr(
        *columns, "from_generation", "to_generation", "unix_micros(valid_from)", "unix_micros(valid_to)"
    )
    found = sorted((tuple(row) for row in rows.collect()), key=str)
    expected = [
        (
            *(row.group_id, row.incarnation, row.topic, row.partition, row.member_id, row.client_id),
            *(row.from_kafka_offset, row.from_generation, None if row.valid_to_ms is None else row.to_generation),
            *(micros(row.valid_from_ms), micros(row.valid_to_ms)),
        )
        for row in simulated.truth.owners
    ]
    assert found == sorted(expected, key=str)


def test_any_cut_and_any_kill(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: in three batches, the second of one group alone and too large for the driver, the third broken off between
    two table writes and run again, while every table lies in several files, and in a rebuild: the same tables. Kills by
    the system, of a first batch too, are in tests/fault."""
    append(spark, tmp_path, simulated.between(0, CUT_MINUTE))
    run(spark, tmp_path)
    run(spark, tmp_path, lambda ledger, _: scatter(ledger))
    rest, is_alone = simulated.between(CUT_MINUTE, LAST_MINUTE), F.col("kafka_partition") == ALONE
    append(spark, tmp_path, rest.where(is_alone))
    with monkeypatch.context() as patched:
        patched.setattr(groupledger.jobs.derive.history, "RECORDS_PER_DRIVER_FOLD", 0)
        run(spark, tmp_path)
    run(spark, tmp_path, lambda ledger, _: scatter(ledger))
    append(spark, tmp_path, rest.where(~is_alone))
    kill = KillBefore(upsert_arrow, TABLES_BEFORE_KILL)
    with monkeypatch.context() as patched, suppress(KilledError, OutsideError):
        patched.setattr(groupledger.jobs.derive.history, "upsert_arrow", kill)
        run(spark, tmp_path)
    assert kill.has_killed
    run(spark, tmp_path)
    assert_equal_tables(tmp_path, whole)
    run(spark, tmp_path, rebuild_history)
    assert_equal_tables(tmp_path, whole)


OLD, NEW = "2026-01-04", "2026-01-05"
RETAINED_FROM_MINUTE = 25


@pytest.fixture(scope="module")
def thinned(spark: SparkSession, simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history whose oldest records retention has removed. Who writes takes a copy."""
    warehouse = tmp_path_factory.mktemp("thinned")
    append(spark, warehouse, simulated.between(0, RETAINED_FROM_MINUTE), OLD)
    append(spark, warehouse, simulated.between(RETAINED_FROM_MINUTE, 50), NEW)
    run(spark, warehouse)
    records = Tables(spark, str(warehouse)).path(COORDINATOR_RECORDS)
    DeltaTable.forPath(spark, records).delete(F.col("ingest_date") == F.lit(OLD))
    return warehouse


@pytest.fixture(scope="module")
def rebuilt(spark: SparkSession, thinned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, made again in one piece. Who writes takes a copy."""
    warehouse = tmp_path_factory.mktemp("rebuilt") / "copy"
    shutil.copytree(thinned, warehouse)
    run(spark, warehouse, rebuild_history)
    return warehouse


def test_a_rebuild_keeps_what_retention_has_removed(
    spark: SparkSession, simulated: Simulated, whole: Path, rebuilt: Path, tmp_path: Path
) -> None:
    """Goal: without the oldest date's records a rebuild loses no generation, no rebalance and no group, gives no owner
    and no member another time than it had, and marks what it took over; and the history goes on from there."""
    warehouse = tmp_path / "copy"
    shutil.copytree(rebuilt, warehouse)
    append(spark, warehouse, simulated.between(50, LAST_MINUTE), NEW)
    run(spark, warehouse)
    for which in (GENERATIONS, REBALANCES, GROUPS):
        assert keys(spark, warehouse, which) == keys(spark, whole, which)
    flags = table(spark, warehouse, GENERATIONS).select("is_carried_over").distinct().collect()
    assert sorted(row[0] for row in flags) == [False, True]
    assert owned_seconds(spark, warehouse) == owned_seconds(spark, whole)
    assert member_seconds(spark, warehouse) == member_seconds(spark, whole)
    groups = ("group_id", "incarnation", "generation", "committed_partition_count", "first_kafka_offset")
    found, kept = (table(spark, each, GROUPS).select(*groups, "first_seen_at").collect() for each in (warehouse, whole))
    assert sorted(found) == sorted(kept)


def test_a_rebuild_that_was_killed_is_finished(
    spark: SparkSession, thinned: Path, rebuilt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a rebuild killed after its first table, taken up by the next pass and killed before the last table: each
    pass knows that it is not finished, `validate` says so, and the tables in the end are those of a rebuild that
    nothing disturbed, with the rows that it takes over from before."""
    warehouse = tmp_path / "copy"
    shutil.copytree(thinned, warehouse)
    for survived in (1, len(TABLES) - 1):
        kill = KillBefore(replace_cluster, survived)
        with monkeypatch.context() as patched, suppress(KilledError):
            patched.setattr(groupledger.jobs.derive.history, "replace_cluster", kill)
            patched.setattr(groupledger.jobs.derive.rebalance_stats, "replace_cluster", kill)
            run(spark, warehouse, update_history if survived > 1 else rebuild_history)
        assert kill.has_killed
    said: list[str] = []
    with open_test_ledger(spark, warehouse) as ledger:
        assert is_unfinished(ledger.storage, ledger.cluster)
        validate(replace(ledger, say=said.append))
        assert "run `groupledger history` to finish it" in said[0]
    run(spark, warehouse)
    with open_test_ledger(spark, warehouse) as ledger:
        assert not is_unfinished(ledger.storage, ledger.cluster)
    assert_equal_tables(warehouse, rebuilt)


def test_a_state_of_a_newer_version(spark: SparkSession, simulated: Simulated, thinned: Path, tmp_path: Path) -> None:
    """Goal: a state in an unknown format ends a pass with a sentence that names the remedy; the remedy works though
    records are gone, gives the rows that it would with a readable state, and the history goes on from there."""
    warehouse = tmp_path / "copy"
    shutil.copytree(thinned, warehouse)
    states = DeltaTable.forPath(spark, Tables(spark, str(warehouse)).path(OPEN_GROUPS))
    states.update(set={"state": F.regexp_replace("state", '"format":[0-9]+', '"format":99')})
    append(spark, warehouse, simulated.between(50, LAST_MINUTE), NEW)
    with pytest.raises(InputError, match=r"format 99.* run `groupledger history --rebuild`"):
        run(spark, warehouse)
    run(spark, warehouse, rebuild_history)
    again = tmp_path / "again"
    shutil.copytree(thinned, again)
    append(spark, again, simulated.between(50, LAST_MINUTE), NEW)
    run(spark, again, rebuild_history)
    for which in (GENERATIONS, MEMBERS, ASSIGNMENTS):
        assert keys(spark, warehouse, which) == keys(spark, again, which)
    assert owned_seconds(spark, warehouse) == owned_seconds(spark, again)


def keys(spark: SparkSession, warehouse: Path, which: Table) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, table(spark, warehouse, which).select(*which.key).collect()))


def owned_seconds(spark: SparkSession, warehouse: Path) -> list[tuple[Any, ...]]:
    """For how long each member owned each partition, in however many intervals that follow one another."""
    rows = table(spark, warehouse, ASSIGNMENTS)
    end = F.coalesce(F.unix_millis("valid_to"), F.lit(BEGAN_AT_MS + 2 * HOUR_MS))
    owned = rows.groupBy("group_id", "incarnation", "topic", "partition", "member_id")
    return sorted(map(tuple, owned.agg(F.sum(end - F.unix_millis("valid_from"))).collect()))


def member_seconds(spark: SparkSession, warehouse: Path) -> list[tuple[Any, ...]]:
    """For how long each member was one, in however many tenures that follow one another."""
    end = F.coalesce(F.unix_millis("left_at"), F.lit(BEGAN_AT_MS + 2 * HOUR_MS))
    lasted = F.sum(end - F.unix_millis("joined_at"))
    by_member = table(spark, warehouse, MEMBERS).groupBy("group_id", "incarnation", "member_id").agg(lasted)
    return sorted(map(tuple, by_member.collect()))


def test_a_mixed_history(spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path) -> None:
    """Goal: tables from different passes, or states that have gone ahead of their tables, are found by `validate`,
    named with the remedy, and whole again after it."""
    older = tmp_path / "older"
    append(spark, older, simulated.between(0, 30))
    run(spark, older)
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    with open_test_ledger(spark, tmp_path) as ledger:
        assert damaged_groups(ledger) == []
    shutil.rmtree(tmp_path / GENERATIONS.name)
    (older / GENERATIONS.name).rename(tmp_path / GENERATIONS.name)
    said: list[str] = []
    with open_test_ledger(spark, tmp_path) as ledger:
        ahead = ledger.arrow(OPEN_GROUPS).slice(0, 1)
        offsets = pc.add(ahead.column("last_kafka_offset"), 1)
        ahead = ahead.set_column(ahead.schema.get_field_index("last_kafka_offset"), "last_kafka_offset", offsets)
        ledger.create(OPEN_GROUPS)
        upsert_arrow(ledger, OPEN_GROUPS, ahead)
        damaged = damaged_groups(ledger)
        say_damage(replace(ledger, say=said.append), damaged)
    assert {row.table_name for row in damaged} == {GENERATIONS.name, OPEN_GROUPS.name}
    assert [row.group_id for row in damaged if row.table_name == OPEN_GROUPS.name] == ahead["group_id"].to_pylist()
    assert len(said) == 2
    assert all(sentence.endswith("run `groupledger history --rebuild`") for sentence in said)
    run(spark, tmp_path, rebuild_history)
    with open_test_ledger(spark, tmp_path) as ledger:
        assert damaged_groups(ledger) == []


def test_a_commit_of_records_that_was_emptied(spark: SparkSession, simulated: Simulated, tmp_path: Path) -> None:
    """Goal: if a commit of the table of records is lost, neither a pass of the history nor `validate` takes its records
    for read; both go on once the file of the commit is restored."""
    append(spark, tmp_path, simulated.between(0, 30))
    with open_test_ledger(spark, tmp_path) as ledger:
        version = ledger.version(COORDINATOR_RECORDS)
    file = tmp_path / COORDINATOR_RECORDS.name / "_delta_log" / f"{version:020}.json"
    whole = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(OutsideError, match="is empty, and what that commit did is missing"):
        run(spark, tmp_path)
    with (
        open_test_ledger(spark, tmp_path) as ledger,
        pytest.raises(OutsideError, match="is empty, and what that commit did is missing"),
    ):
        validate(ledger)
    file.write_bytes(whole)
    run(spark, tmp_path)
    with open_test_ledger(spark, tmp_path) as ledger:
        assert damaged_groups(ledger) == []


def test_validate_finds_a_planted_lie(
    spark: SparkSession, simulated: Simulated, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: nothing is found in a true history; a leader who is no member is, as a row, and on standard output."""
    shutil.copytree(whole, tmp_path / "true")
    with open_test_ledger(spark, tmp_path / "true") as ledger:
        assert validate(ledger) == []
    one = simulated.rows.where("group_id = 'mix-0000' and record_type = 'group_metadata' and kafka_offset > 1")
    lie = F.regexp_replace("record_json", '"leader": "[^"]*"', '"leader": "nobody"')
    append(spark, tmp_path / "lie", one.withColumn("record_json", lie))
    with open_test_ledger(spark, tmp_path / "lie") as ledger:
        findings = validate(ledger)
    assert {(row.group_id, row.finding, row.severity) for row in findings} == {
        ("mix-0000", "leader_is_no_member", "error")
    }
    assert has_errors(findings)
    print_findings(findings, as_json=True)
    assert [json.loads(line)["finding"] for line in capsys.readouterr().out.splitlines()] == [
        row.finding for row in findings
    ]


def test_states_in_many_files(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """Goal: a batch finds the states of its groups in whichever files of `open_groups` they lie; the first fold of a
    large log writes several."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    with open_test_ledger(spark, tmp_path) as ledger:
        scatter(ledger)
        records = ledger.rows(COORDINATOR_RECORDS)
        for group in ledger.arrow(OPEN_GROUPS)["group_id"].to_pylist():
            found = open_groups_in_memory(ledger, records, {group}, {})
            assert [row.group_id for row in found.collect()] == [group]


def test_tables_that_are_gone(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    """Goal: a history whose tables were deleted is not begun again in the middle."""
    shutil.copytree(whole, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/members")
    with pytest.raises(InputError, match=r"tables members are gone: restore them from a backup, or run"):
        run(spark, tmp_path / "copy")


def test_nothing_to_read(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: without coordinator_records the error names the way to get them."""
    with pytest.raises(InputError, match="run `groupledger ingest` first"):
        run(spark, tmp_path)

"""Goal: every expectation holds for the jobs' tables, and fails for a row that breaks it."""

from __future__ import annotations

import json
import shutil
import warnings
from datetime import timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.engine import locked_database
from groupledger.jobs.ask.quality import (
    added_up,
    check,
    check_rows,
    has_failed,
    import_great_expectations,
    open_context,
    print_results,
    rules_query,
)
from groupledger.jobs.ask.quality_suite import suite_of
from groupledger.jobs.derive.quality_results import write_results
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.tables.all_tables import all_tables, table_named
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.quality_results import QUALITY_RESULTS
from groupledger.schemas.tables.table import IS_OPEN
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.good_rows import COMMIT, EARLY, LATE, NOW, good_row
from tests.jobs.warehouses import SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from groupledger.schemas.tables.table import Table

    Row = dict[str, Any]

DAY = timedelta(days=1)
BREAKS_INTERVAL: dict[str, Row] = {
    "ends_after_start": {"to_offset": 1},
    "open_has_no_end": {"to_offset": None},
    "generations_in_order": {"to_generation": 0},
}
BREAKS: dict[str, dict[str, Row]] = {
    "assignments": BREAKS_INTERVAL | {"owners_follow_each_other": {}, "member_is_known": {"member_id": "nobody"}},
    "connect_assignments": {**BREAKS_INTERVAL, "delay_after_the_end": {"scheduled_delay_ms": -1}},
    "committed_offsets": {"commit_is_no_newer": {"commit_kafka_offset": 2}},
    "coordinator_records": {
        "decoded_or_kept": {"raw_key": b"x"},
        "commit_is_whole": {"offset_commit": {**COMMIT, "topic": None}},
        "commit_has_offset": {"offset_commit": {**COMMIT, "offset": None}},
        "other_types_have_json": {"record_type": "group_metadata", "offset_commit": None},
        "tombstone_has_no_version": {"is_tombstone": True},
    },
    "commit_steps": {"open_has_no_next": {"is_open": 0}, "next_is_behind": {"is_open": 0, "next_kafka_offset": 1}},
    "coverage": {
        "is_not_empty": {"to_offset": 0, "completeness": "compacted"},
        "times_in_order": {"to_time": EARLY},
        "complete_since": {"from_time": None},
    },
    "generations": {
        "ends_after_start": {"to_offset": 1},
        "current_is_open": {"is_current": True},
        "ended_by_something": {"ended_by": None},
        "empty_has_no_leader": {"member_count": 0},
        "revision_says_what": {"changes": []},
    },
    "groups": {
        "seen_in_order": {"first_seen_at": LATE},
        "committed_while_seen": {"last_commit_at": LATE},
        "known_to_live": {"is_alive": None},
    },
    "incidents": {"seen_in_order": {"last_seen_at": EARLY}, "duplicates_in_order": {"duplicates_max": 0}},
    "lag": {
        "no_commit_no_lag": {"committed_offset": None},
        "no_watermark_no_lag": {"high_watermark": None},
        "raw_lag_is_the_difference": {"raw_lag": 3},
    },
    "lag_seeds": {"commit_has_its_record": {"kafka_offset": None}},
    "log_files": {"lines_are_accounted_for": {"line_count": 2}},
    "members": {
        "leaves_after_joining": {"to_offset": 1},
        "open_has_no_end": {"to_offset": None},
        "open_has_no_cause": {"left_at": None},
        "cause_has_confidence": {"leave_cause_confidence": None},
    },
    "member_epochs": {
        "ends_after_start": {"to_offset": 1},
        "open_has_no_end": {"to_offset": None},
        "away_processes_nothing": {"member_epoch": -2},
    },
    "share_assignments": BREAKS_INTERVAL,
    "stream_tasks": BREAKS_INTERVAL,
    "stream_topologies": {"ends_after_start": {"to_offset": 1}, "open_has_no_end": {"to_offset": None}},
    "offset_events": {
        "moved_as_it_says": {"records_repeated": 5, "offset_after": 3},
        "is_told_behind_its_commit": {"commit_kafka_offset": 2},
    },
    "offset_syncs": {"decoded_or_says_why": {"topic": None}},
    "open_groups": {"state_is_json": {"state": '{"a":'}},
    "quality_results": {
        "counts_in_order": {"unexpected_rows": 2},
        "success_finds_nothing": {"error": "it failed"},
    },
    "rebalance_stats": {"window_starts_on_time": {"window_start": NOW + timedelta(minutes=1)}},
    "rebalances": {
        "goes_forward": {"from_generation": 2},
        "hole_claims_nothing": {"is_hole": True},
        "hole_has_cause": {"hole_cause": "not_synced"},
        "trigger_has_confidence": {"inferred_trigger_confidence": None},
    },
    "requests": {"answered_after_arrival": {"logged_at": EARLY}},
    "share_partitions": {"lag_is_the_difference": {"lag": 3}, "nothing_read_no_lag": {"start_offset": None}},
    "share_state_coverage": {"goes_forward": {"to_offset": -1}, "times_in_order": {"to_time": EARLY}},
    "share_state_records": {
        "decoded_or_kept": {"decode_error": "truncated"},
        "tombstone_has_no_version": {"is_tombstone": True},
    },
    "topic_names": {"is_a_topic_id": {"topic_id": "x"}, "has_a_name": {"topic": None, "is_awaited": False}},
    "troubles": {"ends_after_start": {"ended_at": EARLY}},
    "what_if_effects": {
        "told_or_refused": {"refusal": "no"},
        "intervals_in_order": {
            "rebalances": dict.fromkeys(("asked_low", "spared_low"), 3.0)
            | dict.fromkeys(("asked_high", "spared_high"), 1.0)
        },
    },
    "what_if_runs": {"time_goes_forward": {"since": LATE}, "told_are_asked": {"groups": 0}},
    "watermarks": {"offsets_in_order": {"log_start_offset": 2}, "stable_below_end": {"last_stable_offset": 2}},
}


def break_of(table: Table, expectation: dict[str, Any]) -> Row:
    """What is to change in a good row. A second row with the same key is no change."""
    name, kind, arguments = expectation["meta"]["name"], expectation["type"], expectation["kwargs"]
    if "column_list" in arguments:
        return {}
    column = arguments["column"]
    if column == f"rule_{IS_OPEN.name}":
        return {IS_OPEN.name: 1}
    if column.startswith("rule_"):
        return BREAKS[table.name][name]
    if kind == "expect_column_values_to_not_be_null":
        return {column: None}
    if kind == "expect_column_values_to_be_in_set":
        return {column: "no such thing"}
    assert kind == "expect_column_values_to_be_between", f"give a row that breaks {name}"
    return {column: arguments["min_value"] - 1}


def in_frame(table: str, rows: list[Row], parts: int = 1) -> list[pa.Table]:
    """Returns the parts of the expectation's suite of a table, with its rules as columns, beside one good row of each
    other part."""
    suite, found = suite_of(table, lambda _: True), []
    for part in range(parts):
        with locked_database() as database:
            for name in suite.reads:
                database.register(name, arrow(name, [good_row(named(name))]))
            database.register("checked", arrow(table, rows))
            found.append(database.sql(rules_query(suite), params={"parts": parts, "part": part}).to_arrow_table())
    return found


def named(name: str) -> Table:
    found = table_named(name)
    assert found is not None
    return found


def arrow(table: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema_of(table))


def checked(table: str, rows: list[Row], parts: int = 1) -> list[dict[str, Any]]:
    suite, context = suite_of(table, lambda _: True), open_context()
    found = [check_rows(context, suite, each, part) for part, each in enumerate(in_frame(table, rows, parts))]
    return list(added_up(suite, found))


@pytest.fixture(scope="module")
def great_expectations() -> None:
    """Its import, whose warnings are about its own dependencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_great_expectations()


@pytest.mark.usefixtures("great_expectations")
@pytest.mark.slow
@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_every_expectation_can_fail(table: Table) -> None:
    """Goal: a good row passes all; of the others each breaks the expectation that it was made for."""
    expectations = suite_of(table.name, lambda _: True).expectations
    good, broken = good_row(table), [good_row(table) | break_of(table, each) for each in expectations]
    for row, each in zip(broken, expectations, strict=True):
        column = each["kwargs"].get("column", "")
        if column.startswith("rule_"):
            alone, together = (in_frame(table.name, rows)[0][column].to_pylist() for rows in ([good], [good, row]))
            assert alone in ([True], [None]), each["meta"]["name"]
            assert False in together, each["meta"]["name"]
    assert [result["expectation"] for result in checked(table.name, [good]) if not result["is_success"]] == []
    bad = checked(table.name, [good, *broken])
    assert [result["expectation"] for result in bad if result["is_success"]] == []
    assert all(result["unexpected_rows"] > 0 and result["error"] is None for result in bad)


def test_every_file_is_about_a_table() -> None:
    """Goal: no suite is for a table that there is not, and each rule and expectation says why."""
    files = [
        file
        for file in resources.files("groupledger.conf").joinpath("quality").iterdir()
        if file.name.endswith(".yaml")
    ]
    assert {file.name.removesuffix(".yaml") for file in files} == {table.name for table in all_tables()}
    for file in files:
        written = yaml.safe_load(file.read_text())
        assert table_named(file.name.removesuffix(".yaml"))
        assert all(rule["why"].endswith(".") for rule in written.get("rules", {}).values())
        assert all(each["description"].endswith(".") for each in written["expectations"])


@pytest.mark.usefixtures("great_expectations")
def test_quality_of_a_warehouse(
    spark: SparkSession, filled_warehouse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: all expectations hold for the tables of the jobs; a planted fault is found, counted and written down; no
    name gets out."""
    copy = tmp_path / "warehouse"
    shutil.copytree(filled_warehouse, copy)
    settings = load_settings().quality  # the newest days of the simulated logs, which are long ago
    results = check(ClusterRows(str(copy), SIMULATED), settings, print, all_dates=True)
    assert not has_failed(results)
    every = {result["table_name"]: result["checked_rows"] for result in results}
    assert all(every.values())
    (row, *_) = ClusterRows(str(copy), SIMULATED).rows("groups")
    append(copy, "groups", [row | {"cluster": SIMULATED}])
    results = check(ClusterRows(str(copy), SIMULATED), settings, print, tmp_path / "docs")
    with open_test_ledger(spark, copy, SIMULATED) as ledger:
        write_results(ledger, results)
    failed = [result for result in results if not result["is_success"]]
    assert [(result["table_name"], result["unexpected_rows"]) for result in failed] == [("groups", 2)]
    assert failed == results[:1]
    assert failed[0]["broken_keys"] == [row["group_id"]]
    assert {result["table_name"] for result in results} == every.keys()
    kept = ClusterRows(str(copy), SIMULATED).rows(QUALITY_RESULTS.name)
    assert [each["is_success"] for each in kept].count(False) == 1
    capsys.readouterr()
    print_results(results, as_json=True)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["table_name"] == "groups"
    pages = [path.read_text() for path in (tmp_path / "docs").rglob("*.html")]
    assert len(pages) > len(all_tables()) / 2
    assert not any("mix-0000" in page for page in pages)


def append(warehouse: Path, table: str, rows: list[Row]) -> None:
    partitions = list(named(table).partition_columns)
    write_deltalake(str(warehouse / table), arrow(table, rows), mode="append", partition_by=partitions)


@pytest.mark.usefixtures("great_expectations")
@pytest.mark.parametrize("rows_max", [1_000, 2])
def test_planted(tmp_path: Path, rows_max: int) -> None:
    """Goal: a negative lag, a doubled key, an overlap of owners and an orphan are found and named, whether the rows are
    looked at together or in parts; what lies before the newest days only if all are asked for; no rows are no check."""
    lag, group, owned = (good_row(named(name)) for name in ("lag", "groups", "assignments"))
    old = lag | {"sampled_at": EARLY - 9 * DAY, "sample_date": (EARLY - 9 * DAY).date(), "group_id": "old", "lag": -2}
    other = lag | {"cluster": "other", "sampled_at": NOW + 9 * DAY, "sample_date": (NOW + 9 * DAY).date()}
    append(tmp_path, "lag", [lag, lag | {"group_id": "negative", "lag": -1}, old, other | {"lag": -1}])
    append(tmp_path, "groups", [group, *([group | {"group_id": "twice"}] * 2)])
    append(tmp_path, "members", [good_row(named("members"))])
    early, late = {"from_offset": 1, "to_offset": 5, "partition": 7}, {"from_offset": 4, "to_offset": 9, "partition": 7}
    append(tmp_path, "assignments", [owned, owned | early, owned | late, owned | {"group_id": "orphan"}])
    append(tmp_path, "requests", [])
    said: list[str] = []
    settings = load_settings().quality.model_copy(update={"pandas_rows_max": rows_max})

    def broken(*, all_dates: bool) -> set[tuple[str, str, str]]:
        results = check(ClusterRows(str(tmp_path), "x"), settings, said.append, all_dates=all_dates)
        return {
            (result["table_name"], result["expectation"].partition("(")[0], key)
            for result in results
            for key in result["broken_keys"]
        }

    planted = {
        ("lag", "column_values_to_be_between", f"{NOW}/negative/x/1"),
        ("groups", "compound_columns_to_be_unique", "twice"),
        ("assignments", "owners_follow_each_other", "x/1/x/7/1"),
        ("assignments", "member_is_known", "orphan/1/x/1/1"),
    }
    assert broken(all_dates=False) == planted
    assert said == [
        "quality: 10 rows of 4 tables were looked at",
        "quality: without rows, and so not checked: requests",
    ]
    assert broken(all_dates=True) == planted | {("lag", "column_values_to_be_between", f"{EARLY - 9 * DAY}/old/x/1")}
    assert said[2] == "quality: 11 rows of 4 tables were looked at"


@pytest.mark.usefixtures("great_expectations")
def test_keys_are_named() -> None:
    """Goal: the first keys of the rows that break an expectation are listed, by each kind of expectation."""
    good = good_row(LAG)
    rows = [
        good | {"group_id": "negative", "lag": -1},
        good | {"group_id": "twice"},
        good | {"group_id": "twice"},
        good | {"group_id": "nowhere", "partition": None},
        *(good | {"group_id": f"unlike-{number}", "raw_lag": 3} for number in range(9)),
    ]
    for parts in (1, 3):
        found = checked("lag", rows, parts)
        reported = {
            row["expectation"]: [key.split("/")[1] for key in row["broken_keys"]] for row in found if row["broken_keys"]
        }
        assert reported["column_values_to_be_between(lag)"] == ["negative"]
        assert reported["column_values_to_not_be_null(partition)"] == ["nowhere"]
        assert reported["compound_columns_to_be_unique(cluster, sampled_at, group_id, topic, partition)"] == ["twice"]
        assert reported["raw_lag_is_the_difference"] == [f"unlike-{number}" for number in range(5)]
        assert {row["checked_rows"] for row in found} == {13}

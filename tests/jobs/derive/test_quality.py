"""Goal: every expectation holds for what the jobs write, and is broken by a row that breaks it."""

from __future__ import annotations

import importlib
import json
import shutil
import warnings
from datetime import timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F

from groupledger.jobs.derive.quality import (
    check,
    check_rows,
    has_failed,
    in_memory,
    open_context,
    print_results,
    suite_of,
    with_rules,
)
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.tables.all_tables import all_tables, table_named
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.quality_results import QUALITY_RESULTS
from groupledger.schemas.tables.table import IS_OPEN
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.good_rows import COMMIT, EARLY, LATE, NOW, frame, good_row
from tests.jobs.warehouses import SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.schemas.tables.table import Table

    Row = dict[str, Any]

BREAKS_INTERVAL: dict[str, Row] = {
    "ends_after_start": {"to_offset": 1},
    "open_has_no_end": {"to_offset": None},
    "generations_in_order": {"to_generation": 0},
}
BREAKS: dict[str, dict[str, Row]] = {
    "assignments": BREAKS_INTERVAL,
    "connect_assignments": BREAKS_INTERVAL,
    "committed_offsets": {"commit_is_no_newer": {"commit_kafka_offset": 2}},
    "coordinator_records": {
        "decoded_or_kept": {"raw_key": b"x"},
        "commit_is_whole": {"offset_commit": {**COMMIT, "topic": None}},
        "commit_has_offset": {"offset_commit": {**COMMIT, "offset": None}},
        "other_types_have_json": {"record_type": "group_metadata", "offset_commit": None},
        "tombstone_has_no_version": {"is_tombstone": True},
    },
    "coverage": {
        "is_not_empty": {"to_offset": 0},
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
    "groups": {"seen_in_order": {"first_seen_at": LATE}, "committed_while_seen": {"last_commit_at": LATE}},
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


def to_check(spark: SparkSession, table: Table, rows: list[Row]) -> DataFrame:
    return with_rules(frame(spark, table, rows), table, suite_of(table))


@pytest.fixture(scope="module")
def great_expectations() -> None:
    """Its import, whose warnings are about its own dependencies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("great_expectations")


@pytest.mark.usefixtures("great_expectations")
@pytest.mark.slow
@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_every_expectation_can_fail(spark: SparkSession, table: Table) -> None:
    """Goal: a good row passes all; of the others each breaks the expectation that it was made for."""
    expectations = suite_of(table).expectations
    rows = [good_row(table), *(good_row(table) | break_of(table, each) for each in expectations)]
    found = to_check(spark, table, rows)
    for number, each in enumerate(expectations, 1):
        column = each["kwargs"].get("column", "")
        if column.startswith("rule_"):
            outcome = in_memory(found)[column]
            assert (outcome[0], outcome[number]) in {(True, False), (None, False)}, each["meta"]["name"]
    good = check_rows(open_context(), table, to_check(spark, table, rows[:1]), 1_000)
    assert [result["expectation"] for result in good if not result["is_success"]] == []
    bad = check_rows(open_context(), table, found, 1_000)
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
    """Goal: all holds for what the jobs wrote; a planted fault is found, counted and written down; no name gets out."""
    copy = tmp_path / "warehouse"
    shutil.copytree(filled_warehouse, copy)
    settings = load_settings().quality  # the newest days of the simulated logs, which are long ago
    with open_test_ledger(spark, copy, SIMULATED) as ledger:
        results = check(ledger, settings, all_dates=True)
        assert not has_failed(results)
        every = {result["table_name"]: result["checked_rows"] for result in results}
        assert all(every.values())
        rows = Tables(spark, str(copy)).rows(GROUPS).where(F.col("cluster") == SIMULATED).limit(1)
        rows.write.format("delta").mode("append").save(str(copy / GROUPS.name))
        results = check(ledger, settings, tmp_path / "docs")
    failed = [result for result in results if not result["is_success"]]
    assert [(result["table_name"], result["unexpected_rows"]) for result in failed] == [("groups", 2)]
    assert failed == results[:1]
    assert failed[0]["broken_keys"] == [row["group_id"] for row in rows.collect()]
    assert {result["table_name"] for result in results} == every.keys() | {QUALITY_RESULTS.name}
    assert Tables(spark, str(copy)).rows(QUALITY_RESULTS).where("NOT is_success").count() == 1
    print_results(results, as_json=True)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["table_name"] == "groups"
    pages = [path.read_text() for path in (tmp_path / "docs").rglob("*.html")]
    assert len(pages) > len(all_tables()) / 2
    assert not any("mix-0000" in page for page in pages)


@pytest.mark.usefixtures("great_expectations")
def test_no_rows_are_no_check(spark: SparkSession) -> None:
    """Goal: nothing holds of a table without rows, and nothing does not."""
    assert check_rows(open_context(), GROUPS, to_check(spark, GROUPS, []), 2) == []


@pytest.mark.usefixtures("great_expectations")
def test_keys_are_named(spark: SparkSession) -> None:
    """Goal: the first keys of the rows that break an expectation are told, by each kind of expectation."""
    good = good_row(LAG)
    rows = [
        good | {"group_id": "negative", "lag": -1},
        good | {"group_id": "twice"},
        good | {"group_id": "twice"},
        good | {"group_id": "nowhere", "partition": None},
        *(good | {"group_id": f"unlike-{number}", "raw_lag": 3} for number in range(9)),
    ]
    found = check_rows(open_context(), LAG, to_check(spark, LAG, rows), 1_000)
    told = {
        row["expectation"]: [key.split("/")[1] for key in row["broken_keys"]] for row in found if row["broken_keys"]
    }
    assert told["column_values_to_be_between(lag)"] == ["negative"]
    assert told["column_values_to_not_be_null(partition)"] == ["nowhere"]
    assert told["compound_columns_to_be_unique(cluster, sampled_at, group_id, topic, partition)"] == ["twice"]
    assert told["raw_lag_is_the_difference"] == [f"unlike-{number}" for number in range(5)]


@pytest.mark.usefixtures("great_expectations")
def test_large_tables_are_left_to_spark(spark: SparkSession) -> None:
    """Goal: above the limit the same suite runs in Spark, with the same counts."""
    rows = to_check(spark, GROUPS, [good_row(GROUPS), good_row(GROUPS) | {"group_type": "no such thing"}])
    by_pandas = check_rows(open_context(), GROUPS, rows, 2)
    by_spark = check_rows(open_context(), GROUPS, rows, 1)
    assert {result.pop("engine") for result in by_spark} == {"spark"}
    assert {result.pop("engine") for result in by_pandas} == {"pandas"}
    assert sorted(by_spark, key=repr) == sorted(by_pandas, key=repr)

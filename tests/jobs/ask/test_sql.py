"""Goal: any question can be asked of the tables, in both engines, and the named queries answer what they say.

What must not be answered is in `test_engine` and `test_spark_engine`.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from pyspark.testing import assertDataFrameEqual

from groupledger.jobs.ask import engine, spark_engine
from groupledger.jobs.ask.named_queries import NamedQuery, named_queries, parse, query_named
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.ask.sql import csv_cell, text_of
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import json_text
from groupledger.jobs.warehouse.register import register_tables
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from lab.warehouses.ledgers import make_tables
from tests.jobs.good_rows import EARLY, frame, good_row
from tests.jobs.warehouses import BY_HAND, SIMULATED

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession

QUERIES = named_queries()
HOSTILE = "quote\" ' ; DROP\x1b[2J\n\u202e../"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sql", *arguments])


# Without Spark


def test_head_of_a_query() -> None:
    """Goal: a query's summary and parameters are read from its head, and only from its head."""
    query = parse(
        "q", "-- What it answers,\n-- in two lines.\n-- :a = 1  A.\n-- :b =  B.\n\nSELECT :a\n-- :c = 3  No.\n"
    )
    assert query.summary == "What it answers, in two lines."
    assert [(each.name, each.value, each.meaning) for each in query.parameters] == [("a", "1", "A."), ("b", None, "B.")]
    assert query.arguments({"b": "x"}) == {"a": "1", "b": "x"}


@pytest.mark.parametrize(
    ("given", "sentence"), [({}, "needs a value: --param group"), ({"group": "g", "x": "1"}, "no parameter x")]
)
def test_parameters_of_a_query(given: dict[str, str], sentence: str) -> None:
    """Goal: a parameter that is missing, or that there is not, is named."""
    with pytest.raises(InputError, match=sentence):
        query_named("commits-by-member").arguments(given)


def test_every_query_has_a_head() -> None:
    """Goal: each says what it answers, and every parameter in its text is in its head."""
    assert len(QUERIES) > 15
    for query in QUERIES:
        assert query.summary.endswith("."), query.name
        assert all(f":{parameter.name}" in query.text.split("\n\n", 1)[1] for parameter in query.parameters), query.name
        assert f"{query.name}\n    {query.summary[:20]}" in invoke("--list").stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Give a query, or --file, or --named"),
        (["SELECT 1", "--named", "x"], "Give a query, or --file, or --named"),
        (["SELECT 1"], "Which warehouse?"),
        (["SELECT 1", "--warehouse", "w", "--timeout", "nan"], "needs a number of seconds"),
        (["SELECT 1", "--warehouse", "w", "--timeout", "1e9"], "not in the range"),
        (["--named", "nothing", "--warehouse", "w"], "There is no query 'nothing'"),
        (["--file", "none.sql", "--warehouse", "w"], "none.sql can't be read"),
        (["SELECT 1", "--warehouse", "w", "--param", "a b=1"], "write NAME=VALUE"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str) -> None:
    """Goal: exit code 2 with the remedy, before Spark is started."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_values_as_text() -> None:
    """Goal: instants are ISO 8601 in UTC, bytes base64, and nested values JSON, in ASCII."""
    at = datetime(2026, 1, 31, 14, 3, tzinfo=timezone.utc)
    assert text_of(at) == "2026-01-31T14:03:00.000Z"
    assert text_of([{"at": at, "on": date(2026, 1, 31)}]) == '[{"at":"2026-01-31T14:03:00.000Z","on":"2026-01-31"}]'
    assert json_text({"raw": b"\x00\xff", "number": Decimal("1.50"), "name": "é\x1b"}) == (
        '{"raw":"AP8=","number":"1.50","name":"\\u00e9\\u001b"}'
    )


# With a warehouse


@pytest.fixture(scope="module")
def warehouse(spark: SparkSession, filled_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy with some rows of tables that its jobs don't fill."""
    copy = tmp_path_factory.mktemp("sql") / "warehouse"
    shutil.copytree(filled_warehouse, copy)
    earlier = good_row(LAG) | {"sampled_at": EARLY, "lag": 1}
    good = {table: [good_row(table)] for table in (LAG, INCIDENTS, OFFSET_EVENTS)}
    good[LAG].append(earlier)
    for table, rows in good.items():
        make_tables(copy, table)
        frame(spark, table, rows).write.format("delta").mode("append").save(str(copy / table.name))
    return copy


@pytest.fixture(scope="module")
def views(spark: SparkSession, warehouse: Path) -> list[str]:
    return spark_engine.register_views(Tables(spark, str(warehouse)))


def rows(warehouse: Path, text: str, **parameters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.ask(Snapshots(str(warehouse)), text, parameters).to_pylist()
    return found


def rows_by_spark(spark: SparkSession, views: list[str], text: str, **parameters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = spark_engine.ask(spark, views, text, parameters, timeout_s=60).to_pylist()
    return found


def test_tables_and_view_are_there(spark: SparkSession, warehouse: Path, views: list[str]) -> None:
    """Goal: every table of the warehouse under its name, the view of commits, and all clusters in each."""
    assert {"coordinator_records", "groups", "rebalances", "offset_commits"} <= set(views)
    assert {row["name"] for row in rows(warehouse, "SHOW TABLES")} == set(views)
    question = "SELECT DISTINCT cluster FROM offset_commits ORDER BY cluster"
    assert rows(warehouse, question) == [{"cluster": BY_HAND}, {"cluster": SIMULATED}]
    assert rows_by_spark(spark, views, question) == rows(warehouse, question)
    described = rows_by_spark(spark, views, "DESCRIBE groups")
    assert described[0]["comment"] == "The Kafka cluster, as the settings name it."
    assert [row["col_name"] for row in described] == [row["column_name"] for row in rows(warehouse, "DESCRIBE groups")]


@pytest.mark.parametrize("table", ["offset_commits", *(table.name for table in all_tables())])
def test_tables_are_equal(spark: SparkSession, warehouse: Path, views: list[str], table: str) -> None:
    """Goal: each table and the view has the same columns and the same rows in both engines."""
    if table not in views:
        with pytest.raises(InputError, match=f"has no table {table}"):
            rows(warehouse, f"TABLE {table}")
        return
    by_spark = rows_by_spark(spark, views, f"TABLE {table}")
    by_duckdb = rows(warehouse, f"TABLE {table}")
    assert sorted(map(repr, by_duckdb)) == sorted(map(repr, by_spark))


# Of each query: its parameters, and some of the values that it has to give for the logs written by hand.
EXPECTED: dict[str, tuple[dict[str, str], str, set[tuple[Any, ...]]]] = {
    "assignors": ({}, "group_id group_type protocol member_count", {("old", "classic", "range", 2)}),
    "commits-by-member": ({"group": "simple"}, "partition owner_attribution commits", {(0, "none", 3), (1, "none", 1)}),
    "coverage-gaps": ({}, "kafka_partition completeness offsets", {(3, "unknown", 6), (3, "compacted", 2)}),
    "incidents-by-kind": ({}, "group_id severity incidents", {("x", "info", 1)}),
    "lag-growing": ({}, "group_id lag_before lag_now grown_by", {("x", 1, 2, 1)}),
    "lag-now": ({}, "group_id lag partitions partitions_unknown", {("x", 2, 1, 0)}),
    "longest-pauses": ({"top": "1000"}, "cluster", {(SIMULATED,)}),
    "members-removed": ({}, "cluster leave_cause", {(SIMULATED, "session_expired")}),
    "most-moved-partitions": ({"top": "1000"}, "group_id topic partition", {("old", "orders", 0)}),
    "never-read": ({}, "group_id what topic partition", {("x", "commit_gap", None, None)}),
    "offset-events": ({}, "group_id partition kind", {("x", 1, "expired")}),
    "offsets-gone-back": ({}, "group_id partition regression", {("g1", 0, 15)}),
    "owners-at": (
        {"group": "g1", "at": "2025-10-09T08:53:21.500Z"},
        "topic partition member_id",
        {("orders", 0, "a"), ("orders", 1, "b")},
    ),
    "ownership-history": ({"topic": "orders"}, "group_id member_id from_generation", {("emptied", "a", 1)}),
    "processed-twice": ({}, "group_id known_from", {("x", "incidents")}),
    "rebalance-storms": ({}, "cluster group_id", {(SIMULATED, "mix-0003")}),
    "rebalance-triggers": ({}, "cluster group_id probable_trigger", {(SIMULATED, "mix-0003", "left")}),
    "rebalances-by-hour": ({}, "group_id rebalances", {("g1", 3), ("emptied", 1)}),
    "record-volume": ({}, "cluster record_type", {(BY_HAND, "offset_commit"), (SIMULATED, "group_metadata")}),
    "short-tenures": ({}, "cluster group_id", {(SIMULATED, "mix-0003")}),
    "slow-reconciliations": ({}, "group_id", set()),
    "undecoded-records": ({}, "decode_error", set()),
    "unowned-partitions": ({}, "group_id", set()),
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_named_queries(spark: SparkSession, warehouse: Path, views: list[str], query: NamedQuery) -> None:
    """Goal: each runs as it is shipped, and gives what the logs say; both engines give the same in the same order."""
    given, columns, expected = EXPECTED[query.name]
    found = rows(warehouse, query.text, **query.arguments(given))
    assert expected <= {tuple(row[name] for name in columns.split()) for row in found}
    if not expected:
        assert found == []
    assert rows_by_spark(spark, views, query.text, **query.arguments(given)) == found
    ordered = query.text.rpartition("ORDER BY")[2]
    assert ordered != query.text


@pytest.mark.parametrize("engine_name", ["duckdb", "spark"])
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_engines_of_the_command(warehouse: Path, engine_name: str, form: str) -> None:
    """Goal: the command answers by either engine, alike."""
    text = "SELECT cluster, group_id, last_commit_at, :a AS a FROM groups ORDER BY ALL"
    arguments = [text, "--warehouse", str(warehouse), "--param", "a=:b", "--format", form]
    result = invoke(*arguments, "--engine", engine_name)
    assert result.exit_code == 0
    assert result.stdout == invoke(*arguments).stdout
    assert len(result.stdout.splitlines()) > 5


def test_columns_of_one_name(filled_warehouse: Path) -> None:
    """Goal: columns of one name are refused in a sentence, since JSON would lose one."""
    result = invoke("SELECT 1 AS a, 2 AS a", "--warehouse", str(filled_warehouse))
    assert result.exit_code == 2
    assert "Several columns are called a: name them with AS." in result.stderr


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *(("=1+1", "'=1+1"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("@SUM(1)", "'@SUM(1)"), ("-1+1", "'-1+1")),
        *(("\t=1", "'\\t=1"), ("\r=1", "'\\r=1"), ("-", "'-"), ("--", "'--"), ("-x", "'-x"), ("=", "'=")),
        *(
            ("-5", "-5"),
            (-5, "-5"),
            ("+1.5e-3", "+1.5e-3"),
            (-0.5, "-0.5"),
            (Decimal("-1.50"), "-1.50"),
            ("a=1", "a=1"),
        ),
        *(("", ""), (None, ""), (["=1"], '["=1"]'), ("'=1", "'=1"), ("-5\n", "'-5\\n")),
    ],
)
def test_no_formulas(value: object, cell: str) -> None:
    """Goal: a name that a spreadsheet would run as a formula is text in CSV, and a number stays one."""
    assert csv_cell(value) == cell


def test_forms(filled_warehouse: Path) -> None:
    """Goal: the same rows as a table, CSV and JSON; a parameter is a value and never SQL."""
    ask_for = ["SELECT :name AS name, 1 AS number, NULL AS nothing", "--warehouse", str(filled_warehouse)]
    ask_for += ["--param", f"name={HOSTILE}"]
    assert json.loads(invoke(*ask_for, "--format", "json").stdout) == {"name": HOSTILE, "number": 1, "nothing": None}
    text = invoke(*ask_for, "--format", "csv").stdout
    assert text.replace("\n", "").isprintable()
    shown = "quote\" ' ; DROP\\x1b[2J\\n\\u202e../"
    assert list(csv.reader(io.StringIO(text))) == [["name", "number", "nothing"], [shown, "1", ""]]
    table = invoke(*ask_for).stdout
    assert "DROP\\x1b[2J" in table
    assert "\x1b" not in table


def test_limits(filled_warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a table that is cut says so; on a terminal the columns of wide rows are below each other; a query comes
    from a file."""
    file = tmp_path / "query.sql"
    file.write_text("SELECT range FROM range(2000)")
    result = invoke("--file", str(file), "--warehouse", str(filled_warehouse))
    assert "only the first 1,000 rows are shown" in result.stderr
    csv_lines = invoke("--file", str(file), "--warehouse", str(filled_warehouse), "--format", "csv").stdout.splitlines()
    assert len(csv_lines) == 2_001
    asked = ("SELECT * FROM groups", "--warehouse", str(filled_warehouse), "--limit", "1")
    assert len(invoke(*asked).stdout.splitlines()) == 2
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    first, below, *_ = invoke(*asked).stdout.splitlines()[1:]
    assert not first.startswith(" ")
    assert below.startswith("    ")


def test_register(spark: SparkSession, filled_warehouse: Path, tmp_path: Path) -> None:
    """Goal: the tables are found by name in a database; again changes nothing; other tables are not taken over."""
    names = ("groups", "rebalances")
    for name, folder in product(names, ("warehouse", "other")):
        shutil.copytree(filled_warehouse / name, tmp_path / folder / name)
    warehouse, other = str(tmp_path / "warehouse"), str(tmp_path / "other")
    try:
        assert sorted(register_tables(spark, warehouse, "ledger_of_tests")) == sorted(names)
        assert sorted(register_tables(spark, warehouse, "ledger_of_tests")) == sorted(names)
        for name in names:
            expected = spark.read.format("delta").load(str(filled_warehouse / name))
            assertDataFrameEqual(spark.table(f"ledger_of_tests.{name}"), expected)
        with pytest.raises(InputError, match="is another table already"):
            register_tables(spark, other, "ledger_of_tests")
    finally:
        spark.sql("DROP DATABASE ledger_of_tests CASCADE")
    with pytest.raises(InputError, match="can't be a database"):
        register_tables(spark, str(filled_warehouse), "a; DROP")

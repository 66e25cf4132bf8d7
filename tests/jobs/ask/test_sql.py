"""Goal: any question can be asked of the tables, none can change them, and the named queries answer what they say."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.named_queries import NamedQuery, named_queries, parse, query_named
from groupledger.jobs.ask.sql import ask, register_views, text_of
from groupledger.jobs.cli.main import main
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import json_text
from groupledger.jobs.warehouse.register import register_tables
from groupledger.jobs.warehouse.tables import Tables
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
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
    """Goal: what a query tells and its parameters are read off its head, and only off its head."""
    query = parse("q", "-- What it tells,\n-- in two lines.\n-- :a = 1  A.\n-- :b =  B.\n\nSELECT :a\n-- :c = 3  No.\n")
    assert query.summary == "What it tells, in two lines."
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
    """Goal: each says what it tells, and every parameter in its text is in its head."""
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
        (["SELECT 1"], "Missing option '--warehouse'"),
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
    """Goal: instants are ISO 8601 in UTC, bytes base64, and what is nested JSON, in ASCII."""
    at = datetime(2026, 1, 31, 14, 3, tzinfo=timezone.utc)
    assert text_of(at) == "2026-01-31T14:03:00.000Z"
    assert text_of([{"at": at, "on": date(2026, 1, 31)}]) == '[{"at":"2026-01-31T14:03:00.000Z","on":"2026-01-31"}]'
    assert json_text({"raw": b"\x00\xff", "number": Decimal("1.50"), "name": "é\x1b"}) == (
        '{"raw":"AP8=","number":"1.50","name":"\\u00e9\\u001b"}'
    )


# With a warehouse


@pytest.fixture(scope="module")
def views(spark: SparkSession, filled_warehouse: Path) -> list[str]:
    """Those of the warehouse, and some rows of tables that its jobs don't fill."""
    names = register_views(Tables(spark, str(filled_warehouse)))
    earlier = good_row(LAG) | {"sampled_at": EARLY, "lag": 1}
    frame(spark, LAG, [earlier, good_row(LAG)]).createOrReplaceTempView("lag")
    frame(spark, INCIDENTS, [good_row(INCIDENTS)]).createOrReplaceTempView("incidents")
    return names


def rows(spark: SparkSession, text: str, **parameters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(spark, text, parameters).to_pylist()
    return found


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO groups SELECT * FROM groups",
        "WITH a AS (SELECT * FROM groups) INSERT INTO groups SELECT * FROM a",
        "INSERT OVERWRITE DIRECTORY 'somewhere' USING csv SELECT 1",
        "DELETE FROM groups",
        "UPDATE groups SET group_id = 'x'",
        "MERGE INTO groups USING members ON groups.group_id = members.group_id WHEN MATCHED THEN DELETE",
        "CREATE TABLE x (a INT)",
        "CREATE TEMPORARY VIEW groups AS SELECT 1",
        "DROP VIEW groups",
        "SET spark.sql.session.timeZone = Asia/Tokyo",
        "OPTIMIZE delta.`x`",
        "VACUUM delta.`x`",
        "CALL something()",
        "ADD JAR 'x'",
        "SELECT TRANSFORM (group_id) USING 'cat' AS (a) FROM groups",
        "SELECT 1 WHERE 1 IN (SELECT TRANSFORM (group_id) USING 'cat' AS (a) FROM groups)",
    ],
)
def test_nothing_can_be_changed(spark: SparkSession, views: list[str], statement: str) -> None:
    """Goal: what writes, defines, sets or runs anything is refused before it runs."""
    with pytest.raises(InputError, match="Only queries are answered here"):
        ask(spark, statement, {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT nothing FROM groups", "`nothing` cannot be resolved"),
        ("SELECT * FROM nothing", "`nothing` cannot be found"),
        ("SELEC 1", "Syntax error"),
        ("BEGIN SELECT 1; END", "The query failed"),
        ("SELECT CAST('a' AS INT)", "cannot be cast"),
        ("SELECT :group", "its parameter :group has no value, give --param group=..."),
        ("SELECT 1 AS a, 2 AS a", "Several columns are called a"),
    ],
)
def test_wrong_queries(spark: SparkSession, views: list[str], text: str, sentence: str) -> None:
    """Goal: one line says what is wrong, without a plan or a trace."""
    with pytest.raises(InputError) as error:
        ask(spark, text, {})
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_tables_and_view_are_there(spark: SparkSession, views: list[str]) -> None:
    """Goal: every table of the warehouse under its name, the view of commits, and all clusters in each."""
    assert {"coordinator_records", "groups", "rebalances", "offset_commits"} <= set(views)
    clusters = rows(spark, "SELECT DISTINCT cluster FROM offset_commits ORDER BY cluster")
    assert [row["cluster"] for row in clusters] == [BY_HAND, SIMULATED]
    assert rows(spark, "DESCRIBE groups")[0]["comment"] == "The Kafka cluster, as the settings name it."
    assert rows(spark, "EXPLAIN SELECT 1")


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
    "offsets-gone-back": ({}, "group_id partition regression", {("g1", 0, 15)}),
    "owners-at": (
        {"group": "g1", "at": "2025-10-09T08:53:21.500Z"},
        "topic partition member_id",
        {("orders", 0, "a"), ("orders", 1, "b")},
    ),
    "ownership-history": ({"topic": "orders"}, "group_id member_id from_generation", {("emptied", "a", 1)}),
    "processed-twice": ({}, "group_id", set()),
    "rebalance-storms": ({}, "cluster group_id", {(SIMULATED, "mix-0003")}),
    "rebalance-triggers": ({}, "cluster group_id probable_trigger", {(SIMULATED, "mix-0003", "left")}),
    "rebalances-by-hour": ({}, "group_id rebalances", {("g1", 3), ("emptied", 1)}),
    "record-volume": ({}, "cluster record_type", {(BY_HAND, "offset_commit"), (SIMULATED, "group_metadata")}),
    "short-tenures": ({}, "cluster group_id", {(SIMULATED, "mix-0003")}),
    "undecoded-records": ({}, "decode_error", set()),
    "unowned-partitions": ({}, "group_id", set()),
}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_named_queries(spark: SparkSession, views: list[str], query: NamedQuery) -> None:
    """Goal: each runs as it is shipped, and gives what the logs say; the same twice, in the same order."""
    given, columns, expected = EXPECTED[query.name]
    found = rows(spark, query.text, **query.arguments(given))
    assert expected <= {tuple(row[name] for name in columns.split()) for row in found}
    if not expected:
        assert found == []
    ordered = query.text.rpartition("ORDER BY")[2]
    assert ordered != query.text


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


def test_limits(filled_warehouse: Path, tmp_path: Path) -> None:
    """Goal: a table that is cut says so; wide rows stand below each other; a query comes from a file."""
    file = tmp_path / "query.sql"
    file.write_text("SELECT id FROM range(2000)")
    result = invoke("--file", str(file), "--warehouse", str(filled_warehouse))
    assert "only the first 1,000 rows are shown" in result.stderr
    csv_lines = invoke("--file", str(file), "--warehouse", str(filled_warehouse), "--format", "csv").stdout.splitlines()
    assert len(csv_lines) == 2_001
    wide = invoke("SELECT * FROM groups", "--warehouse", str(filled_warehouse), "--limit", "1").stdout
    assert "row 1 of 1" in wide
    assert "committed_partition_count" in wide


def test_register(spark: SparkSession, filled_warehouse: Path, tmp_path: Path) -> None:
    """Goal: the tables are found by name in a database; again changes nothing; other tables are not taken over."""
    names = register_tables(spark, str(filled_warehouse), "ledger_of_tests")
    try:
        assert {"groups", "rebalances"} <= set(names)
        assert register_tables(spark, str(filled_warehouse), "ledger_of_tests") == names
        assert spark.table("ledger_of_tests.groups").count() == spark.table("groups").count()
        spark.read.format("delta").load(str(filled_warehouse / all_tables()[0].name)).write.format("delta").save(
            str(tmp_path / all_tables()[0].name)
        )
        with pytest.raises(InputError, match="is another table already"):
            register_tables(spark, str(tmp_path), "ledger_of_tests")
    finally:
        spark.sql("DROP DATABASE ledger_of_tests CASCADE")
    with pytest.raises(InputError, match="can't be a database"):
        register_tables(spark, str(filled_warehouse), "a; DROP")


def test_no_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: an empty place is named as one."""
    with pytest.raises(InputError, match="has no tables: check the path"):
        register_views(Tables(spark, str(tmp_path)))

"""Goal: Spark answers what reads the warehouse's views, and refuses what writes, runs or reaches anything else."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.ask.spark_engine import ask, register_views
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.tables import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

CANARY = "canary-4711"
ONLY_QUERIES = "Only queries are answered here, and DESCRIBE, SHOW TABLES and EXPLAIN of a query"

WRITING = [
    *("INSERT INTO groups SELECT * FROM groups", "DELETE FROM groups", "UPDATE groups SET group_id = 'x'"),
    "WITH a AS (SELECT * FROM groups) INSERT INTO groups SELECT * FROM a",
    "FROM groups INSERT INTO groups SELECT * INSERT INTO members SELECT *",
    "INSERT OVERWRITE DIRECTORY 'somewhere' USING csv SELECT 1",
    "MERGE INTO groups USING members ON groups.group_id = members.group_id WHEN MATCHED THEN DELETE",
    *(
        "CREATE TABLE x (a INT)",
        "CREATE TABLE x USING parquet AS SELECT 1",
        "CREATE DATABASE x",
        "DROP DATABASE default",
    ),
    *(
        "CREATE TEMPORARY VIEW groups AS SELECT 1",
        "DROP VIEW groups",
        "ALTER VIEW groups AS SELECT 1",
        "CACHE TABLE groups",
    ),
    "CREATE TEMPORARY FUNCTION x AS 'java.lang.Object'",
    *(
        "SET spark.sql.session.timeZone = Asia/Tokyo",
        "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
    ),
    *("SET", "RESET", "USE default", "SET VAR a = 1", "DECLARE a = 1", "REFRESH TABLE groups", "CLEAR CACHE"),
    *("OPTIMIZE delta.`{warehouse}/groups`", "VACUUM delta.`{warehouse}/groups` RETAIN 0 HOURS"),
    *("RESTORE TABLE delta.`{warehouse}/groups` TO VERSION AS OF 0", "DELETE FROM delta.`{warehouse}/groups`"),
    *("DESCRIBE HISTORY delta.`{warehouse}/groups`", "CONVERT TO DELTA parquet.`{folder}`", "TRUNCATE TABLE groups"),
    *("CALL something()", "ADD JAR 'x'", "ADD FILE '{folder}/secret.csv'", "LIST FILES", "KILL x"),
    "EXECUTE IMMEDIATE 'DELETE FROM delta.`{warehouse}/groups`'",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "BEGIN DELETE FROM delta.`{warehouse}/groups`; END",
    "BEGIN SELECT 1; END",
    *("SELECT 1; DELETE FROM groups", "EXPLAIN DELETE FROM groups", "EXPLAIN EXECUTE IMMEDIATE 'SELECT 1'"),
    *("SHOW CREATE TABLE groups", "SHOW PARTITIONS groups", "SHOW DATABASES", "SHOW TABLES IN other", "SHOW CATALOGS"),
    "SELECT TRANSFORM (group_id) USING 'cat' AS (a) FROM groups",
    "SELECT 1 WHERE 1 IN (SELECT TRANSFORM (group_id) USING 'cat' AS (a) FROM groups)",
]
REACHING = [
    "SELECT java_method('java.lang.System', 'getenv', 'GROUPLEDGER_SECRET')",
    "SELECT Reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT system.builtin.java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT `java_method`('java.lang.System', 'getenv', 'HOME')",
    "SELECT IDENTIFIER('java_' || 'method')('java.lang.System', 'getenv', 'HOME')",
    "SELECT transform(array('HOME'), x -> java_method('java.lang.System', 'getenv', x))",
    "SELECT 1 WHERE 'x' IN (SELECT java_method('java.lang.System', 'getenv', 'HOME'))",
    "WITH a AS (SELECT java_method('java.lang.System', 'getenv', 'HOME')) SELECT * FROM a",
    "VALUES (java_method('java.lang.System', 'getenv', 'HOME'))",
    "SELECT * FROM range(length(java_method('java.lang.System', 'getenv', 'HOME')))",
    "SELECT max(group_id) OVER (ORDER BY java_method('java.lang.System', 'getenv', 'HOME')) FROM groups",
    "EXPLAIN SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "DESCRIBE QUERY SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT input_file_name() FROM groups",
    "SELECT input_file_block_start() FROM groups",
    "SELECT from_avro(X'00', 'x') FROM groups",
    *(
        "SELECT * FROM text.`{folder}/secret.csv`",
        "SELECT * FROM csv.`{folder}/secret.csv`",
        "TABLE text.`/etc/passwd`",
    ),
    *("SELECT * FROM delta.`{warehouse}/groups`", "SELECT * FROM binaryFile.`{folder}/secret.csv`"),
    *(
        "SELECT * FROM parquet.`/etc`",
        "DESCRIBE delta.`{warehouse}/groups`",
        "SHOW COLUMNS FROM delta.`{warehouse}/groups`",
    ),
    *("SELECT * FROM default.groups", "SELECT * FROM spark_catalog.default.groups", "SELECT * FROM global_temp.groups"),
    *(
        "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
        "SELECT * FROM nothing",
        "SELECT * FROM groups VERSION AS OF 0",
    ),
    *("SELECT * FROM read_files('{folder}')", "SELECT * FROM read_text('{folder}')", "SELECT * FROM sql_keywords()"),
    "SELECT (SELECT max(value) FROM text.`{folder}/secret.csv`)",
    "SELECT * FROM groups, LATERAL (SELECT * FROM text.`{folder}/secret.csv`)",
    "WITH a AS (SELECT * FROM text.`{folder}/secret.csv`) SELECT * FROM a",
    "EXPLAIN SELECT * FROM text.`{folder}/secret.csv`",
]
READING = [
    *(
        "DESCRIBE groups",
        "DESCRIBE groups group_id",
        "DESCRIBE QUERY SELECT 1",
        "SHOW TABLES",
        "SHOW COLUMNS FROM groups",
    ),
    *(
        "EXPLAIN SELECT * FROM Groups",
        "VALUES (1), (2)",
        "TABLE groups",
        "FROM groups |> WHERE is_alive |> SELECT group_id",
    ),
    "SELECT DISTINCT group_id FROM groups ORDER BY 1 LIMIT 3 OFFSET 1",
    "SELECT g.group_id, p.topic FROM groups AS g LEFT JOIN assignments AS p USING (group_id) SORT BY 1",
    "SELECT cluster, count(*) AS n FROM groups GROUP BY ROLLUP (cluster) HAVING n > 0",
    "SELECT pause FROM rebalances LATERAL VIEW explode(partition_pauses) AS pause",
    "SELECT * FROM rebalances, LATERAL explode(partition_pauses)",
    "SELECT * FROM (SELECT is_alive, group_type FROM groups) PIVOT (count(*) FOR group_type IN ('classic'))",
    "SELECT 1 UNION SELECT 2 INTERSECT SELECT 3 EXCEPT SELECT 4",
    "WITH a(i) AS (SELECT 1), Groups AS (SELECT * FROM A) SELECT * FROM groups",
    "SELECT row_number() OVER w AS n, transform(array(1), x -> x + 1) AS t FROM groups WINDOW w AS (ORDER BY group_id)",
    "SELECT /*+ BROADCAST(groups) */ * FROM groups WHERE EXISTS (SELECT 1 FROM members)",
    "SELECT * FROM stack(2, 1, 2), explode(array(1, 2)) AS e(a)",
]


@pytest.fixture(scope="module")
def views(spark: SparkSession, filled_warehouse: Path) -> Iterator[list[str]]:
    """Returns the names of the views; in the end every table has the files and the version that it had."""
    before = state(filled_warehouse)
    names = register_views(Tables(spark, str(filled_warehouse)))
    yield names
    assert state(filled_warehouse) == before
    assert {row["tableName"] for row in spark.sql("SHOW TABLES").collect()} >= set(names)


def state(warehouse: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in warehouse.rglob("*") if file.is_file()}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secret.csv").write_text(CANARY)
    return tmp_path


@pytest.mark.parametrize("statement", WRITING + REACHING)
def test_attacks(spark: SparkSession, views: list[str], filled_warehouse: Path, folder: Path, statement: str) -> None:
    """Goal: nothing that writes, sets, runs a program, calls Java or reads a path gets through; one line says so."""
    with pytest.raises(InputError) as error:
        ask(spark, views, statement.format(folder=folder, warehouse=filled_warehouse), {}, timeout_s=60)
    assert CANARY not in str(error.value)
    assert "\n" not in str(error.value)
    assert list(folder.iterdir()) == [folder / "secret.csv"]


@pytest.mark.parametrize(
    "statement", [each for each in WRITING if each.split()[0] in {"DROP", "SET", "VACUUM", "RESTORE"}]
)
def test_what_is_said(spark: SparkSession, views: list[str], filled_warehouse: Path, statement: str) -> None:
    """Goal: DROP VIEW, SET, VACUUM and RESTORE are refused by name, before they run."""
    with pytest.raises(InputError, match=ONLY_QUERIES):
        ask(spark, views, statement.format(warehouse=filled_warehouse), {}, timeout_s=60)


@pytest.mark.parametrize("statement", READING)
def test_what_is_answered(spark: SparkSession, views: list[str], statement: str) -> None:
    """Goal: queries of every form are answered."""
    assert ask(spark, views, statement, {}, timeout_s=60).num_columns > 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT nothing FROM groups", "`nothing` cannot be resolved"),
        ("SELECT * FROM nothing", "There is no view nothing, only assignments, "),
        ("SELEC 1", "Syntax error"),
        ("SELECT CAST('a' AS INT)", "cannot be cast"),
        ("SELECT :group", "its parameter :group has no value, give --param group=..."),
        ("SELECT java_method('a', 'b')", "The function java_method is not allowed here"),
        ("SELECT * FROM read_files('x')", "Not allowed here is the table function read_files, only explode"),
    ],
)
def test_wrong_queries(spark: SparkSession, views: list[str], text: str, sentence: str) -> None:
    """Goal: one line says what is wrong, without a plan or a trace."""
    with pytest.raises(InputError) as error:
        ask(spark, views, text, {}, timeout_s=60)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_no_end(spark: SparkSession, views: list[str]) -> None:
    """Goal: a query that never ends is cancelled, and the next one is answered."""
    with pytest.raises(InputError, match="took longer than 1 s"):
        ask(spark, views, "SELECT count(*) FROM range(1000000000000000) WHERE hash(id) = 1", {}, timeout_s=1)
    assert ask(spark, views, "SELECT 1 AS a", {}, timeout_s=60).to_pylist() == [{"a": 1}]


def test_what_spark_can_not_cancel(filled_warehouse: Path) -> None:
    """Goal: a query that Spark folds while it plans ends the command, too, in the same sentence and without a trace."""
    program = "from groupledger.jobs.cli.script import run; run()"
    text = "SELECT levenshtein(repeat('a', 3000000), repeat('b', 3000000))"
    arguments = ["sql", text, "--engine", "spark", "--timeout", "0.5", "--warehouse", str(filled_warehouse)]
    run = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 2, run.stderr
    sentence = "groupledger: The query took longer than 0.5 s: ask for less, or give --timeout."
    assert sentence in run.stderr.splitlines()  # the JVM may warn of its modules after it
    assert "Traceback" not in run.stderr


def test_no_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: an empty place is named as one."""
    with pytest.raises(InputError, match="has no tables: check the path"):
        register_views(Tables(spark, str(tmp_path)))

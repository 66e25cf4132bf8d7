"""Goal: DuckDB answers from the warehouse's tables, and a query reaches and changes nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from groupledger.jobs.ask import engine
from groupledger.jobs.ask.engine import ask, locked_database, shared_database
from groupledger.jobs.ask.named_queries import NamedQuery, named_queries
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.ask.statement import with_dollars
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.warehouse.commits import Commits, as_new
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.warehouses.releases import unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARCHIVE = min((Path(__file__).parents[2] / "data" / "warehouses").glob("*.tar.gz"))
CANARY = "canary-4711"
VALUES = {"group": "g", "at": "2025-10-09T08:53:21.500Z", "topic": "orders"}
a_table_of_python = pa.table({"secret": [CANARY]})

WRITING = [
    *("INSERT INTO groups SELECT * FROM groups", "DELETE FROM groups", "UPDATE groups SET group_id = 'x'"),
    "MERGE INTO groups USING members ON groups.group_id = members.group_id WHEN MATCHED THEN DELETE",
    *("TRUNCATE groups", "CREATE TABLE x AS SELECT 1", "CREATE VIEW x AS SELECT 1", "DROP VIEW groups"),
    *("ALTER TABLE groups RENAME TO x", "COMMENT ON TABLE groups IS 'x'", "CREATE MACRO x() AS 1", "VACUUM"),
    *("CHECKPOINT", "BEGIN TRANSACTION", "PREPARE x AS SELECT 1", "EXECUTE x", "CALL pragma_version()"),
    *("EXECUTE IMMEDIATE 'DELETE FROM groups'", "RESTORE TABLE groups TO VERSION AS OF 0", "VACUUM delta.`x`"),
    *("BEGIN DELETE FROM groups; END", "OPTIMIZE groups", "CREATE SECRET x (TYPE s3)", "EXPLAIN DELETE FROM groups"),
    *("EXPLAIN ANALYZE INSERT INTO groups SELECT * FROM groups", "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1"),
    "WITH a AS (DELETE FROM groups RETURNING *) SELECT * FROM a",
    "SELECT * FROM (WITH a AS (INSERT INTO groups SELECT * FROM groups RETURNING *) SELECT * FROM a)",
    *("SELECT 1; DELETE FROM groups", "SELECT 1; SELECT 2", "", "-- nothing"),
    *("SELECT * FROM force_checkpoint('memory')", "SELECT * FROM enable_logging()", "SELECT * FROM checkpoint()"),
]
CONFIGURING = [
    *("SET memory_limit = '100GB'", "SET enable_external_access = true", "RESET memory_limit", "USE memory"),
    *("SET GLOBAL lock_configuration = false", "PRAGMA enable_external_access", "PRAGMA threads = 64"),
    *("SET python_enable_replacements = true", "SET temp_directory = '.'", "SET allowed_directories = ['/']"),
]
REACHING = [
    *(
        "COPY groups TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{folder}/out.parquet'",
        "EXPORT DATABASE '{folder}/out'",
    ),
    *("IMPORT DATABASE '{folder}'", "ATTACH '{folder}/out.db'", "ATTACH ':memory:' AS other", "DETACH memory"),
    *("INSTALL httpfs", "LOAD httpfs", "LOAD '{folder}/x.duckdb_extension'", "COPY groups FROM '{folder}/secret.csv'"),
    *("SELECT * FROM read_csv('{folder}/secret.csv')", "SELECT * FROM read_text('{folder}/secret.csv')"),
    *("SELECT * FROM read_blob('{folder}/*')", "SELECT * FROM read_parquet('{folder}/secret.parquet')"),
    *("SELECT * FROM read_json('{folder}/secret.csv')", "SELECT * FROM glob('{folder}/*')"),
    *("SELECT * FROM parquet_schema('{folder}/secret.parquet')", "SELECT * FROM sniff_csv('{folder}/secret.csv')"),
    *("FROM '{folder}/secret.csv'", "FROM '{folder}/secret.parquet'", 'SELECT * FROM "{folder}/secret.parquet"'),
    *("SELECT * FROM 'https://localhost/x.csv'", "SELECT * FROM delta_scan('{folder}')"),
    *("SELECT (SELECT content FROM read_text('{folder}/secret.csv'))", "DESCRIBE FROM '{folder}/secret.csv'"),
    *("SUMMARIZE FROM '{folder}/secret.parquet'", "EXPLAIN ANALYZE (FROM read_text('{folder}/secret.csv'))"),
    "WITH a AS (SELECT * FROM read_text('{folder}/secret.csv')) SELECT * FROM a",
    "SELECT * FROM query('FROM read_text(''{folder}/secret.csv'')')",
    *(
        "SELECT getenv('GROUPLEDGER_SECRET')",
        "SELECT * FROM a_table_of_python",
        "FROM query_table('a_table_of_python')",
    ),
    *("SELECT * FROM duckdb_settings()", "SELECT * FROM duckdb_secrets()", "SELECT * FROM information_schema.tables"),
    *("SELECT * FROM memory.main.groups", "SELECT * FROM main.groups", "SELECT * FROM sqlite_master"),
    *("SHOW DATABASES", "SHOW TABLES FROM memory", "SELECT * FROM python_map_function(1)"),
    "SELECT json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{folder}/secret.csv'')'))",
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{folder}/secret.csv'')'))",
]


# Tables that no archive of an earlier release has, by the named query that reads them.
NEWER_TABLE_OF = {"never-read": OFFSET_EVENTS, "offset-events": OFFSET_EVENTS}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Returns a warehouse of an earlier release; no test may have changed it in the end."""
    found = unpacked(ARCHIVE, tmp_path_factory.mktemp("release")) / "warehouse"
    before = digests(found)
    yield found
    assert digests(found) == before


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Returns a folder with secrets, which nothing may be added to, and in which the process works."""
    (tmp_path / "secret.csv").write_text(f"a\n{CANARY}\n")
    pq.write_table(a_table_of_python, tmp_path / "secret.parquet")
    monkeypatch.setenv("GROUPLEDGER_SECRET", CANARY)
    monkeypatch.chdir(tmp_path)
    before = digests(tmp_path)
    yield tmp_path
    assert digests(tmp_path) == before


def digests(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): sha256(file.read_bytes()).hexdigest() for file in files}


def answer(warehouse: Path, text: str, **parameters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(Snapshots(str(warehouse)), text, parameters).to_pylist()
    return found


@pytest.mark.parametrize("statement", WRITING + CONFIGURING + REACHING)
def test_attacks(warehouse: Path, folder: Path, statement: str) -> None:
    """Goal: no statement gets through that writes, configures, or reads a file, the environment or a variable of
    Python, and the error is one line."""
    with pytest.raises(InputError) as error:
        answer(warehouse, statement.format(folder=folder))
    assert CANARY not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("database", [locked_database, shared_database])
@pytest.mark.parametrize("statement", CONFIGURING + REACHING)
def test_the_locks_alone(folder: Path, statement: str, database: Callable[[], Any]) -> None:
    """Goal: DuckDB's own locks keep the secrets and the folder, if nobody had looked at the statement before."""
    with database() as connection:
        try:
            found = str(connection.sql(statement.format(folder=folder)))
        except duckdb.Error as error:
            found = str(error)
        assert CANARY not in found
        ((value,),) = connection.execute("SELECT current_setting('enable_external_access')").fetchall()
        assert value is False


def test_connections_share_no_rows() -> None:
    """Goal: only the connection that registers a table sees it, also while another question is answered, and each
    connection is in UTC."""
    numbers = pa.table({"number": [1]})
    with shared_database() as one, shared_database() as other:
        one.register("numbers", numbers)
        assert one.sql("SELECT number, current_setting('TimeZone') FROM numbers").fetchall() == [(1, "UTC")]
        with pytest.raises(duckdb.CatalogException):
            other.sql("SELECT number FROM numbers")
    with shared_database() as later, pytest.raises(duckdb.CatalogException):
        later.sql("SELECT number FROM numbers")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("DELETE FROM groups", "Only queries are answered here, and DESCRIBE, SHOW TABLES, SUMMARIZE and EXPLAIN"),
        ("SELECT 1; SELECT 2", "The query has 2 statements: give exactly one."),
        ("SELECT nothing FROM groups", 'Referenced column "nothing" not found'),
        ("SELECT * FROM nothing", "has no table nothing: it has assignments, "),
        ("SELEC 1", "The query failed: Parser Error"),
        ("SELECT CAST('a' AS INT)", "Could not convert string 'a'"),
        ("SELECT :group", "its parameter :group has no value, give --param group=..."),
        ("SELECT '\udcff'", "The query and its parameters have to be UTF-8."),
        ("FROM glob('*')", "The table function glob is not allowed here"),
        ("SELECT " + "abs(" * 5_000 + "1" + ")" * 5_000, "The query failed: Parser Error"),
        ("(FROM" * 9_000 + " groups" + ")" * 9_000, "The query"),
        ("SELECT 1" + " UNION ALL SELECT 1" * 4_000, "The query is longer than 64 KiB: shorten it."),
    ],
)
def test_wrong_queries(warehouse: Path, text: str, sentence: str) -> None:
    """Goal: one line says what is wrong."""
    with pytest.raises(InputError) as error:
        answer(warehouse, text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_answered(warehouse: Path) -> None:
    """Goal: queries of every form, DESCRIBE, SHOW, SUMMARIZE and EXPLAIN; names in any case; WITH hides a table."""
    assert {"groups", "offset_commits"} <= {row["name"] for row in answer(warehouse, "SHOW TABLES")}
    assert answer(warehouse, "DESCRIBE groups")[0]["column_name"] == "cluster"
    assert answer(warehouse, "SHOW groups") == answer(warehouse, "DESCRIBE groups")
    assert "group_id" in {row["column_name"] for row in answer(warehouse, "SUMMARIZE groups")}
    for explain in ("EXPLAIN", "explain ANALYZE", "EXPLAIN (ANALYZE, FORMAT json)", "-- why\nEXPLAIN /* so */"):
        assert answer(warehouse, f"{explain} FROM groups")
        assert answer(warehouse, f"{explain} (FROM groups)")
    assert answer(warehouse, "WITH Lag AS (SELECT 1 AS a) SELECT * FROM LAG") == [{"a": 1}]
    assert answer(warehouse, "WITH lag AS (SELECT * FROM lag) SELECT count(*) > 0 AS is_full FROM lag")[0]["is_full"]
    assert answer(warehouse, "FROM Groups SELECT count(*) AS n")[0]["n"] > 0
    assert len(answer(warehouse, "SELECT * FROM range(3) UNION ALL VALUES (7)")) == 4
    assert answer(warehouse, "SELECT unnest([1, 2]) AS a INTERSECT SELECT 2") == [{"a": 2}]
    recursive = (
        "WITH RECURSIVE a AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM a WHERE i < 5) SELECT max(i) AS m FROM a"
    )
    assert answer(warehouse, recursive) == [{"m": 5}]
    assert answer(warehouse, "SELECT CAST(1.5 AS DECIMAL(9, 1)) AS a, {'b': [1]} AS s, c: 1")[0]["s"] == {"b": [1]}


@pytest.mark.parametrize("table", ["generations", "groups"])
def test_todays_columns(warehouse: Path, table: str) -> None:
    """Goal: a table of an earlier release, which lacks some of today's columns, has them all, in today's order, as
    Spark's engine has them; one that lacks none is as it is."""
    assert [row["column_name"] for row in answer(warehouse, f"DESCRIBE {table}")] == schema_of(table).names


@pytest.mark.parametrize("query", named_queries(), ids=lambda query: query.name)
def test_named_queries(warehouse: Path, tmp_path: Path, query: NamedQuery) -> None:
    """Goal: each that we ship runs on a warehouse of an earlier release, or says which table that release did not
    have."""
    given = {each.name: VALUES[each.name] for each in query.parameters if each.value is None}
    newer = NEWER_TABLE_OF.get(query.name)
    if newer is None:
        assert isinstance(answer(warehouse, query.text, **query.arguments(given)), list)
        return
    with pytest.raises(InputError, match=f"The warehouse has no table {newer.name}"):
        answer(warehouse, query.text, **query.arguments(given))
    older = tmp_path / "warehouse"
    copytree(warehouse, older)
    Commits(str(older), ()).create(newer)
    assert answer(older, query.text, **query.arguments(given)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT :a, (:b)=:c_1", "SELECT $a, ($b)=$c_1"),
        (
            "SELECT ':a' || \":b\" || $$ :c $$ -- :d\n/* :e */, :f",
            "SELECT ':a' || \":b\" || $$ :c $$ -- :d\n/* :e */, $f",
        ),
        (
            "SELECT a::INT, l[1:n], l[:n], {'k':v}, x:1, :é, 'é', :z",
            "SELECT a::INT, l[1:n], l[:n], {'k':v}, x:1, :é, 'é', $z",
        ),
        (":a", "$a"),
        ("E'\\':a' :b", "E'\\':a' $b"),
    ],
)
def test_parameters_in_code_only(text: str, expected: str) -> None:
    """Goal: a colon is a parameter's in the code only: not in a string, a comment, a cast, a slice or a struct."""
    assert with_dollars(text) == expected


def test_values_are_never_text(warehouse: Path) -> None:
    """Goal: a value that is SQL, a parameter's name or a quote comes back as it is; one too many is named."""
    for value in ("'; DELETE FROM groups; --", "$b", ":b", '"', "\x00", "'\n"):
        assert answer(warehouse, "SELECT :a AS a, ':a' AS b", a=value) == [{"a": value, "b": ":a"}]
    with pytest.raises(InputError, match="has no parameter :b"):
        answer(warehouse, "SELECT :a", a="1", b="2")


def test_large_answers(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an answer without end is not collected; with a limit its first rows come at once."""
    monkeypatch.setattr(engine, "ANSWER_MAX_BYTES", 1 << 20)
    endless = "SELECT range AS a FROM range(100000000000000)"
    with pytest.raises(InputError, match=r"The answer is larger than .*: ask for fewer columns, or give --limit"):
        answer(warehouse, endless)
    assert ask(Snapshots(str(warehouse)), endless, {}, rows_max=3).num_rows == 3


def test_one_snapshot(tmp_path: Path) -> None:
    """Goal: all parts of a question see one version of a table, also when a writer commits in between."""
    write_deltalake(str(tmp_path / "groups"), pa.table({"group_id": ["a"]}))
    snapshots = Snapshots(str(tmp_path))
    count = "SELECT count(*) AS n FROM groups"
    assert ask(snapshots, count, {}).to_pylist() == [{"n": 1}]
    write_deltalake(str(tmp_path / "groups"), pa.table({"group_id": ["b"]}), mode="append")
    assert ask(snapshots, count, {}).to_pylist() == [{"n": 1}]
    assert answer(tmp_path, count) == [{"n": 2}]


def test_a_table_that_was_merged_into(tmp_path: Path) -> None:
    """Goal: rows are found by their names in files that a merge has written, also where a table is read twice."""
    commits = Commits(str(tmp_path), ())
    commits.create(TOPIC_NAMES)
    rows = [{"cluster": "c", "topic_id": name, "topic": name} for name in ("a", "b", "c")]
    schema = arrow_schema(TOPIC_NAMES.schema)
    commits.append(TOPIC_NAMES, pa.Table.from_pylist(rows[:2], schema))
    commits.merge(TOPIC_NAMES, pa.Table.from_pylist(rows[1:], schema), "old.cluster = 'c'", updates=as_new(["topic"]))
    found = answer(
        tmp_path, "SELECT a.topic FROM topic_names a JOIN topic_names b USING (topic_id) WHERE b.topic IN ('a', 'b')"
    )
    assert sorted(row["topic"] for row in found) == ["a", "b"]


def test_only_what_is_named_is_opened(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a question about one table opens that one; a question about the view opens the tables that it reads."""
    opened: list[str] = []
    rows = Snapshots.rows

    def recorded(snapshots: Snapshots, table: str) -> Any:
        opened.append(table)
        return rows(snapshots, table)

    monkeypatch.setattr(Snapshots, "rows", recorded)
    answer(warehouse, "SELECT count(*) FROM groups")
    assert opened == ["groups"]
    opened.clear()
    answer(warehouse, "SELECT count(*) FROM offset_commits")
    assert {*opened} == {"assignments", "coordinator_records", "coverage", "generations", "groups", "members"}


def test_the_view_of_an_earlier_release(warehouse: Path) -> None:
    """Goal: the view `offset_commits` reports commits though a table that it reads does not exist yet; a query of that
    table has no rows."""
    assert "member_epochs" not in Snapshots(str(warehouse)).existing
    (reported,) = answer(
        warehouse, "SELECT count(committer_generation) AS known, count(owner) AS owned FROM offset_commits"
    )
    assert min(reported.values()) > 0
    assert answer(warehouse, "SELECT * FROM member_epochs") == []


def test_damaged_warehouses(tmp_path: Path) -> None:
    """Goal: an empty place, a broken log and a lost file are distinguished, each in a sentence."""
    with pytest.raises(InputError, match="has no tables: check the path, or run `groupledger ingest` first"):
        answer(tmp_path, "SELECT 1")
    write_deltalake(str(tmp_path / "groups"), pa.table({"group_id": ["a"]}))
    (file,) = DeltaTable(str(tmp_path / "groups")).file_uris()
    content = Path(file).read_bytes()
    Path(file).unlink()
    with pytest.raises(OutsideError, match="can't be read") as error:
        answer(tmp_path, "SELECT * FROM groups")
    assert "\n" not in str(error.value)
    Path(file).write_bytes(content[:20])
    with pytest.raises(OutsideError, match="can't be read"):
        answer(tmp_path, "SELECT * FROM groups")
    (tmp_path / "groups" / "_delta_log" / "00000000000000000000.json").write_text("{")
    with pytest.raises(OutsideError, match="can't read"):
        answer(tmp_path, "SELECT * FROM groups")


def test_no_spark(warehouse: Path) -> None:
    """Goal: the command answers in a process that never imports pyspark, with the exact values."""
    program = (
        "import sys; from groupledger.jobs.cli.main import main; main(sys.argv[1:], standalone_mode=False);"
        " sys.exit(9 if {'pyspark', 'py4j'} & sys.modules.keys() else 0)"
    )
    text = "SELECT group_id, sum(lag) AS lag FROM lag WHERE topic <> :none GROUP BY ALL ORDER BY ALL"
    arguments = ["sql", text, "--param", "none=x", "--format", "json", "--warehouse", str(warehouse)]
    run = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    assert rows == answer(warehouse, text, none="x")
    assert all(type(row["lag"]) is int for row in rows)

"""Goal: a question reads the rows of its cluster that it asks for, from the files that can hold them, and no others."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from groupledger.jobs.ask import table_rows
from groupledger.jobs.ask.answers import of_groups
from groupledger.jobs.ask.cluster_rows import ClusterRows, SmallFiles
from groupledger.jobs.ask.commits import commit_log
from groupledger.jobs.ask.table_rows import DataFile, files_of
from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.process.outside import explain
from groupledger.jobs.warehouse.commits import Commits, as_new
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.topic_names import TOPIC_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLUSTER = "c"
AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)


def append(warehouse: Path, table: str, *rows: dict[str, Any], lacking: frozenset[str] = frozenset()) -> None:
    """Writes rows into one file of a table, which may lack some of today's columns."""
    schema = pa.schema([field for field in schema_of(table) if field.name not in lacking])
    found = pa.Table.from_pylist([{"cluster": CLUSTER, **row} for row in rows], schema)
    write_deltalake(str(warehouse / table), found, mode="append")


def groups(warehouse: Path, *filters: Any) -> list[str]:
    rows = ClusterRows(str(warehouse), CLUSTER).rows("groups", *filters, columns=("group_id",))
    return sorted(row["group_id"] for row in rows)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the files that are read from now on."""
    files: list[str] = []

    def recorded(*arguments: Any) -> list[DataFile]:
        found = files_of(*arguments)
        files.extend(file.path for file in found)
        return found

    monkeypatch.setattr(table_rows, "files_of", recorded)
    return files


NAMES = ["b", "", "x" * 3_000, "\U0010ffff" * 40, "b' OR '1' = '1", '"']


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_filters_reach_the_files(tmp_path: Path, read: list[str], name: str) -> None:
    """Goal: a group is found in its own file, whatever its name; other clusters' rows stay out."""
    for each in ("a", name, "z"):
        append(tmp_path, "groups", {"group_id": each, "last_commit_at": AT})
    append(tmp_path, "groups", {"cluster": "other", "group_id": name})
    assert groups(tmp_path, ("group_id", "=", name)) == [name]
    assert len(read) == 1


def test_operators(tmp_path: Path, read: list[str]) -> None:
    """Goal: each operator lets the rows of its bound pass or not, exact to the microsecond."""
    for offset, name in enumerate("abc"):
        append(tmp_path, "groups", {"group_id": name, "kafka_partition": offset, "last_commit_at": AT})
    assert groups(tmp_path, ("kafka_partition", ">", 0), ("kafka_partition", "<", 2)) == ["b"]
    assert len(read) == 1
    assert groups(tmp_path, ("kafka_partition", ">=", 1)) == ["b", "c"]
    assert groups(tmp_path, ("kafka_partition", "<=", 1)) == ["a", "b"]
    assert groups(tmp_path, ("kafka_partition", "in", (0, 2))) == ["a", "c"]
    assert groups(tmp_path, ("group_id", "in", ("", "c"))) == ["c"]
    assert groups(tmp_path, ("last_commit_at", ">=", AT)) == ["a", "b", "c"]
    assert groups(tmp_path, ("last_commit_at", ">", AT)) == []


def test_files_by_date(tmp_path: Path, read: list[str]) -> None:
    """Goal: in a partitioned table, only the files of the wanted partitions are read, and their rows have the partition
    columns."""
    days = [AT.date() - timedelta(days=each) for each in range(3)]
    rows = [{"cluster": CLUSTER, "group_id": "g", "sample_date": each, "lag": day} for day, each in enumerate(days)]
    of_lag = pa.Table.from_pylist(rows, schema_of("lag"))
    write_deltalake(str(tmp_path / "lag"), of_lag, partition_by=["cluster", "sample_date"])
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert tables.rows("lag", ("sample_date", ">=", days[1]), ("lag", "<", 1), columns=("sample_date", "lag")) == [
        {"sample_date": days[0], "lag": 0}
    ]
    assert len(read) == 1
    assert [row["sample_date"] for row in tables.rows("lag", ("sample_date", "in", days[2:]))] == days[2:]
    assert ClusterRows(str(tmp_path), "other").rows("lag") == []
    assert len(read) == 2


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_file_that_is_none(tmp_path: Path, put: Callable[[Path], None]) -> None:
    """Goal: a pipe, a folder or a device in the place of a file of a table is not read, and not waited for."""
    append(tmp_path, "groups", {"group_id": "a"})
    (file,) = (tmp_path / "groups").rglob("*.parquet")
    file.unlink()
    put(file)
    with pytest.raises(OutsideError, match="is no regular file, and is not read"):
        groups(tmp_path)


def test_what_a_vacuum_took_while_it_was_read(tmp_path: Path) -> None:
    """Goal: a reader whose files vanish is to ask again, with exit code 3 and 503, also where another engine has given
    the table no partitions."""
    append(tmp_path, "groups", {"group_id": "a"})
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert tables.version("groups") == 0
    folder = str(tmp_path / "groups")
    write_deltalake(folder, DeltaTable(folder).to_pyarrow_table(), mode="overwrite")
    DeltaTable(folder).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(FileNotFoundError) as raised:
        tables.rows("groups")
    message = explain(raised.value)
    assert isinstance(message, OutsideError)
    assert str(message).startswith("The table groups was changed while it was read, and what was read is gone: run")


def test_features_that_are_not_known(tmp_path: Path) -> None:
    """Goal: a table whose files hold rows that were deleted is refused, with the remedy."""
    append(tmp_path, "groups", {"group_id": "a"})
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log = tmp_path / "groups" / "_delta_log" / f"{1:020}.json"
    log.write_text(json.dumps({"protocol": protocol | features}) + "\n")
    with pytest.raises(OutsideError, match=r"has the table feature deletionVectors, which.*may be healthy"):
        groups(tmp_path)


def test_an_older_table(tmp_path: Path) -> None:
    """Goal: columns that an older table lacks are null; nothing compares with them."""
    append(tmp_path, "groups", {"group_id": "a"}, lacking=frozenset({"is_simple", "group_epoch"}))
    tables = ClusterRows(str(tmp_path), CLUSTER)
    (row,) = tables.rows("groups")
    assert list(row) == [name for name in schema_of("groups").names if name != "cluster"]
    assert row["is_simple"] is None
    assert tables.rows("groups", ("group_epoch", ">=", 0)) == []


def test_an_older_struct(tmp_path: Path) -> None:
    """Goal: fields of structs that an older table lacks are null, too."""
    path = str(tmp_path / "rebalances")
    write_deltalake(path, pa.table({"cluster": [CLUSTER], "changes": [[{"kind": "member_joined"}]]}))
    (row,) = ClusterRows(str(tmp_path), CLUSTER).rows("rebalances", columns=("changes",))
    fields = schema_of("rebalances").field("changes").type.value_type
    assert row["changes"] == [dict.fromkeys(field.name for field in fields) | {"kind": "member_joined"}]


def test_a_table_that_was_merged_into(tmp_path: Path) -> None:
    """Goal: rows are found by names in files that a merge has written, which holds texts as views."""
    commits = Commits(str(tmp_path), ())
    commits.create(TOPIC_NAMES)
    rows = [{"cluster": CLUSTER, "topic_id": name, "topic": name} for name in ("a", "b", "c")]
    schema = arrow_schema(TOPIC_NAMES.schema)
    commits.append(TOPIC_NAMES, pa.Table.from_pylist(rows[:2], schema))
    commits.merge(TOPIC_NAMES, pa.Table.from_pylist(rows[1:], schema), "old.cluster = 'c'", updates=as_new(["topic"]))
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert [row["topic"] for row in tables.rows("topic_names", ("topic_id", "=", "b"))] == ["b"]
    found = tables.query("SELECT count(*) AS n FROM topics", topics=tables.scan("topic_names"))
    assert found == [{"n": 3}]


def test_rows_of_a_merge_by_a_number(tmp_path: Path) -> None:
    """Goal: rows are found by numbers in files that a merge has written, with the texts of those rows."""
    commits = Commits(str(tmp_path), ())
    commits.create(COVERAGE)
    rows = [
        {"cluster": CLUSTER, "kafka_partition": each, "from_offset": 0, "completeness": "complete"} for each in range(3)
    ]
    schema = arrow_schema(COVERAGE.schema)
    commits.append(COVERAGE, pa.Table.from_pylist(rows[:2], schema))
    updates = as_new(["completeness"])
    commits.merge(COVERAGE, pa.Table.from_pylist(rows[1:], schema), "old.cluster = 'c'", updates=updates)
    found = ClusterRows(str(tmp_path), CLUSTER).rows("coverage", ("kafka_partition", "in", [1, 2]))
    assert sorted((row["kafka_partition"], row["completeness"]) for row in found) == [(1, "complete"), (2, "complete")]


def test_one_snapshot(tmp_path: Path) -> None:
    """Goal: all parts of a question see one version of a table, also when a writer commits in between."""
    append(tmp_path, "groups", {"group_id": "a"})
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert len(tables.rows("groups")) == 1
    append(tmp_path, "groups", {"group_id": "b"})
    assert len(tables.rows("groups")) == 1


def test_what_is_not_there(tmp_path: Path) -> None:
    """Goal: a question about a warehouse without tables doubts the path; a missing table names the command that writes
    it, and an optional table counts as empty."""
    with pytest.raises(InputError, match="has no tables: check the path"):
        ClusterRows(str(tmp_path / "nowhere"), CLUSTER).rows("groups")
    append(tmp_path, "coverage", {"kafka_partition": 1})
    tables = ClusterRows(str(tmp_path), CLUSTER)
    with pytest.raises(InputError, match=r"has no table groups yet: run `groupledger history` first"):
        tables.rows("groups")
    assert tables.scan_if_any("watermarks", columns=("topic",)).read_all().to_pylist() == []


def test_a_damaged_file(tmp_path: Path) -> None:
    """Goal: a file that can't be read is reported as one, with its table, also when it is DuckDB that reads it."""
    append(tmp_path, "groups", {"group_id": "a"})
    (file,) = (tmp_path / "groups").glob("**/*.parquet")
    file.write_bytes(b"PAR1 garbage PAR1")
    tables = ClusterRows(str(tmp_path), CLUSTER)
    asked: list[Callable[[], object]] = [
        lambda: tables.rows("groups"),
        lambda: tables.query("SELECT count(*) FROM groups", groups=tables.scan("groups")),
    ]
    for ask in asked:
        with pytest.raises((pa.ArrowException, OSError)) as raised:
            ask()
        message = explain(raised.value)
        assert message is not None
        assert message.exit_code == 3
        assert f"table at {tmp_path}/groups is damaged" in str(message)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_small_files(tmp_path: Path, scheme: str) -> None:
    """Goal: small files are read from a directory, and by delta-rs where the warehouse is a URI."""
    (tmp_path / "_groupledger").mkdir()
    (tmp_path / "_groupledger" / "floor.json").write_text("{}")
    files = SmallFiles(f"{scheme}{tmp_path}")
    assert files.read("_groupledger/floor.json") == "{}"
    assert files.read("_groupledger/no.json") is None


def test_commit_log(tmp_path: Path) -> None:
    """Goal: commits and removals are read, and values that could not be decoded are left out; a number below 0 and a
    topic id of zeros are null."""
    commit = {"topic": "t", "partition": 0, "offset": -1, "leader_epoch": -1, "metadata": "m", "topic_id": ZERO_UUID}
    rows = [
        {"kafka_offset": 1, "record_type": "offset_commit", "is_tombstone": False, "offset_commit": commit},
        {
            "kafka_offset": 2,
            "record_type": "legacy_offset_commit",
            "is_tombstone": False,
            "offset_commit": {**commit, "offset": 7, "leader_epoch": 0, "topic_id": "x"},
        },
        {"kafka_offset": 3, "record_type": "offset_commit", "decode_error": "bad", "offset_commit": None},
        {"kafka_offset": 4, "record_type": "group_metadata", "offset_commit": None},
    ]
    append(tmp_path, "coordinator_records", *rows)
    found = commit_log(ClusterRows(str(tmp_path), CLUSTER)).read_all().to_pylist()
    reported = [(row["kafka_offset"], row["committed_offset"], row["leader_epoch"], row["topic_id"]) for row in found]
    assert reported == [(1, None, None, None), (2, 7, 0, "x")]


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_schemas(table: Any) -> None:
    """Goal: a table that is read without Spark has the columns and types of Spark's definition."""
    wanted = arrow_schema(table.schema)
    found = schema_of(table.name)
    assert found.names == wanted.names
    append_nothing = pa.Table.from_pylist([], found).cast(wanted)
    assert append_nothing.num_rows == 0


def test_too_long(tmp_path: Path) -> None:
    """Goal: reading and querying end when the time is over, with the sentence for it."""
    append(tmp_path, "groups", {"group_id": "a"})
    tables = ClusterRows(str(tmp_path), CLUSTER, timeout_s=-1)
    with pytest.raises(InputError, match="takes longer than"):
        tables.rows("groups")
    with pytest.raises(InputError, match="takes longer than"):
        tables.query("SELECT count(*) AS groups FROM groups", groups=tables.scan("groups"))


def test_a_query_that_has_no_end(tmp_path: Path) -> None:
    """Goal: a query that has read its rows and goes on is interrupted when the time is over."""
    append(tmp_path, "groups", {"group_id": "a"})
    tables = ClusterRows(str(tmp_path), CLUSTER, timeout_s=0.5)
    with pytest.raises(InputError, match=r"takes longer than 0\.5 s"):
        tables.query(
            "SELECT count(*) FROM range(10000000) AS a, range(10000000) AS b WHERE (a.range * b.range) % 7 = 3"
        )


def test_the_partition_of_a_group(tmp_path: Path) -> None:
    """Goal: records are asked for by partition where the history knows it of every group, and else by group alone."""
    append(tmp_path, "coordinator_records", {"group_id": "g", "kafka_partition": 3})
    assert of_groups(ClusterRows(str(tmp_path), CLUSTER), "g") == [("group_id", "in", ("g",))]
    append(tmp_path, "groups", {"group_id": "g", "kafka_partition": 3}, {"group_id": "h", "kafka_partition": 1})
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert of_groups(tables, "g", "h") == [("group_id", "in", ("g", "h")), ("kafka_partition", "in", [1, 3])]
    assert of_groups(tables, "g", "new") == [("group_id", "in", ("g", "new"))]
    assert len(tables.rows("coordinator_records", *of_groups(tables, "g"), columns=("group_id",))) == 1

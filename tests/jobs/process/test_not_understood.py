"""Goal: a table that another engine or a newer release has changed is never called damaged, and no sentence advises to
do without it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError

from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.outside import explain, not_understood
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.schemas.tables.incidents import INCIDENTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DESTROYS = re.compile(r"remove|delete|move |rebuild|--recover|anew|damaged|overwrite")
OF_LAG = 'Unsupported: table "file:/w/lag" requires reader'
MAPPED = {"delta.columnMapping.mode": "name"}


def protocol(reader: int, writer: int, *features: str, of_readers: bool = True) -> dict[str, Any]:
    named = {"readerFeatures": [*features]} if of_readers else {}
    found = {"minReaderVersion": reader, "minWriterVersion": writer, "writerFeatures": [*features]}
    return {"protocol": found | named}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    rows = pa.table({"cluster": ["c"], "group_id": ["g"]})
    write_deltalake(tmp_path / INCIDENTS.name, rows, partition_by=["cluster"])
    return tmp_path


def commit(warehouse: Path, *actions: dict[str, Any]) -> None:
    """Adds a commit as another engine would."""
    log = warehouse / INCIDENTS.name / "_delta_log"
    (log / f"{1:020}.json").write_text("".join(f"{json.dumps(each)}\n" for each in actions))


def metadata(warehouse: Path, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Returns the table's metadata with a change."""
    first = (warehouse / INCIDENTS.name / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    found: dict[str, Any] = next(each for each in map(json.loads, first) if "metaData" in each)
    change(found["metaData"])
    return found


def of_type(kind: str) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        schema = json.loads(found["schemaString"])
        schema["fields"].append({"name": "new", "type": kind, "nullable": True, "metadata": {}})
        found["schemaString"] = json.dumps(schema)

    return change


def reported(warehouse: Path, read: Callable[[], object]) -> str:
    """Returns the sentence of a table that can't be read, which says that it may be healthy and destroys nothing."""
    with pytest.raises((OutsideError, DeltaError)) as raised:
        read()
    found = explain(raised.value)
    assert isinstance(found, OutsideError)
    sentence = str(found)
    assert sentence.endswith("upgrade groupledger or ask who changed it.")
    assert f"The table at {warehouse / INCIDENTS.name} has " in sentence
    assert "may be healthy" in sentence
    assert not DESTROYS.search(sentence.removeprefix(f"The table at {warehouse}"))
    return sentence


@pytest.mark.parametrize(
    ("actions", "has"),
    [
        ([protocol(3, 7, "futureThing")], "the table feature futureThing,"),
        ([protocol(3, 7, "deletionVectors")], "the table feature deletionVectors,"),
        ([protocol(3, 7, "columnMapping")], "the table feature columnMapping,"),
        ([protocol(3, 7, "v2Checkpoint")], "the table feature v2Checkpoint,"),
        ([{"protocol": {"minReaderVersion": 9, "minWriterVersion": 9}}], "the reader version 9,"),
        ([protocol(99, 7, "x")], "a version of Delta's protocol,"),
    ],
)
def test_features(warehouse: Path, actions: list[dict[str, Any]], has: str) -> None:
    """Goal: a newer reader version, and each feature that readers of files don't know, has its name in the sentence,
    for jobs and for questions."""
    commit(warehouse, *actions)
    assert has in reported(warehouse, lambda: open_table(str(warehouse), INCIDENTS))
    assert has in reported(warehouse, lambda: Snapshots(str(warehouse)).rows(INCIDENTS.name))


@pytest.mark.parametrize(
    ("change", "has"),
    [
        (of_type("quaternion"), "the column type quaternion,"),
        (lambda found: found.update(configuration=MAPPED), "column mapping,"),
    ],
)
def test_columns(warehouse: Path, change: Callable[[dict[str, Any]], None], has: str) -> None:
    """Goal: a column type that came after this release, and mapped columns, are named in the error."""
    commit(warehouse, metadata(warehouse, change))
    assert has in reported(warehouse, lambda: open_table(str(warehouse), INCIDENTS))
    assert has in reported(warehouse, lambda: Snapshots(str(warehouse)).rows(INCIDENTS.name))


def test_a_checkpoint_of_another_form(warehouse: Path) -> None:
    """Goal: a log whose beginning is in a checkpoint that can't be read here is not called damaged; without one it
    is."""
    log = warehouse / INCIDENTS.name / "_delta_log"
    (log / f"{0:020}.json").rename(log / f"{0:020}.gone")
    (log / f"{1:020}.json").write_text('{"commitInfo": {}}\n')

    def read() -> object:
        return open_table(str(warehouse), INCIDENTS)

    with pytest.raises(DeltaError) as raised:
        read()
    assert "is damaged" in str(explain(raised.value))
    (log / f"{0:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json").write_text('{"futureCheckpoint": {}}\n')
    assert "a checkpoint of another form," in reported(warehouse, read)


@pytest.mark.parametrize(("feature", "has"), [("futureThing", "futureThing"), ("rowTracking", "RowTracking")])
def test_features_of_writers(warehouse: Path, feature: str, has: str) -> None:
    """Goal: a table that can be read, and not be written, is no conflict with another writer, as delta-rs calls it."""
    commit(warehouse, protocol(1, 7, feature, of_readers=False))

    def write() -> None:
        opened = DeltaTable(warehouse / INCIDENTS.name)
        opened.create_write_transaction(
            [], "append", opened.schema(), ["cluster"], commit_properties=CommitProperties()
        )

    with pytest.raises(DeltaError) as raised:
        write()
    found = not_understood(raised.value, "/w/incidents")
    assert found is not None
    assert f"The table at /w/incidents has the table feature {has}" in str(found)


@pytest.mark.parametrize(
    ("text", "has"),
    [
        (
            f'{OF_LAG} table feature(s) that are unsupported by Delta Lake "4.4.0": futureThing.\n\tSuppressed: x',
            "The table at /w/lag has the table feature futureThing, which",
        ),
        (
            f"[DELTA_INVALID_PROTOCOL_VERSION] {OF_LAG} version 99 and writer version 7, but Delta Lake",
            "The table at /w/lag has the reader version 99, which",
        ),
        ("requirement failed: Mismatched minReaderVersion and readerFeatures.", "A table has a version of Delta's pro"),
        ("[INVALID_JSON_DATA_TYPE] Failed to convert the JSON string 'quaternion' to a", "has the column type quatern"),
        (
            "[FAILED_READ_FILE.NO_HINT] file:/w/lag/a=1/p.parquet.\nCaused by: Invalid Spark read type: expected x",
            "A table has a column of another type than its files, which",
        ),
        ("p is not a Parquet file. Expected [80, 65, 82, 49] but found [80, 65, 82, 69]", "has files that are encryp"),
        ("Missing column ID in column mapping mode `name` in the field: cluster", "has column mapping, which"),
        ("Kernel error: a sentence of a later kernel", "has something in its log, which"),
    ],
)
def test_what_other_libraries_say(text: str, has: str) -> None:
    """Goal: the errors of Spark, Delta Lake and Parquet readers about such tables are explained as well."""
    found = explain(Py4JError(text))
    assert isinstance(found, OutsideError)
    assert has in str(found)
    assert not DESTROYS.search(str(found))


def test_names_are_plain() -> None:
    """Goal: nothing but words of another library's text reaches the sentence."""
    found = explain(DeltaError("Unsupported table features required: [Unknown(\"a\x1b[2J; rm -rf 'b'\"), RowTracking]"))
    assert "has the table feature a, 2J, rm, -rf, b, which" in str(found)


def test_a_writer_does_not_take_it_for_a_conflict(tmp_path: Path) -> None:
    """Goal: a commit that the table's features forbid is tried once, and the sentence says so."""
    commits = Commits(str(tmp_path), ())
    commits.create(INCIDENTS)
    commit(tmp_path, protocol(1, 7, "futureThing", of_readers=False))
    with pytest.raises(OutsideError, match="has the table feature futureThing, which"):
        commits.add_files(INCIDENTS, [])

"""Goal: every table is in the one list of them, and the page about them is current."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import groupledger.schemas.tables
from groupledger.schemas.tables.all_tables import all_tables, date_column, table_named
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.table import Table
from tools.table_docs import COMMENTS, DEFINITIONS, PAGE, comments, definitions, page

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(groupledger.schemas.tables.__file__).parent


def defined_tables() -> set[str]:
    """Names of all tables that the files of the folder hold, under whatever name of Python's."""
    modules = [import_module(f"groupledger.schemas.tables.{path.stem}") for path in FOLDER.glob("[!_]*.py")]
    return {value.name for module in modules for value in vars(module).values() if isinstance(value, Table)}


def test_every_table_is_in_the_list() -> None:
    """Goal: no table is left out, since SQL, quality and upkeep go by the list."""
    names = [table.name for table in all_tables()]
    assert names == sorted(defined_tables())
    assert all((FOLDER / f"{name}.py").is_file() for name in names)


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_tables(table: Table) -> None:
    """Goal: a comment on all, `cluster` first, a key of its own columns; no partition but the cluster, dates and
    integers."""
    assert table.comment.endswith(".")
    assert all(field.metadata.get("comment") for field in table.schema)
    assert table.schema.names[0] == table.key[0] == "cluster"
    assert {*table.key, *table.statistics_columns, *table.partition_columns} <= set(table.schema.names)
    types = {table.schema[name].dataType.typeName() for name in table.partition_columns if name != "cluster"}
    assert types <= {"date", "integer"}
    assert table_named(table.name) is table


def test_date_columns() -> None:
    """Goal: retention goes by the date that a table is partitioned by, and by nothing else."""
    assert date_column(COORDINATOR_RECORDS) == "ingest_date"
    assert date_column(ASSIGNMENTS) is None


@pytest.mark.parametrize(("file", "text"), [(PAGE, page), (DEFINITIONS, definitions), (COMMENTS, comments)])
def test_what_is_made_of_the_tables_is_current(file: Path, text: Callable[[], str]) -> None:
    """Goal: docs/tables.md, schemas/tables.json and schemas/comments.json say what the schemas say; `python -m
    tools.table_docs` writes them."""
    assert file.read_text() == text()

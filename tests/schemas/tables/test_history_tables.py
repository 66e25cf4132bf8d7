"""The history tables hold exactly what the fold writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.connect_assignments import CONNECT_ASSIGNMENTS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.rebalances import CHANGE, PARTITION_PAUSE, REBALANCES
from groupledger.transforms.history.group_history import OF_THE_JOB
from lab.truth.histories import KEYS, Log, Tables, folded, member

if TYPE_CHECKING:
    from groupledger.schemas.tables.table import Table

TABLES = (GENERATIONS, MEMBERS, ASSIGNMENTS, CONNECT_ASSIGNMENTS, REBALANCES, GROUPS, OPEN_GROUPS)


@pytest.fixture(scope="module")
def tables() -> Tables:
    log = Log().record(1, member("a", 0), member("b", 1)).commit(0, 1).record(2, member("a", 0, 1)).commit(0)
    log.record(3)
    return folded(log.record(4, member("w", units=[("sink", 0)], topics=None), protocol_type="connect").entries)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_have_the_columns_of_the_table(table: Table, tables: Tables) -> None:
    """Goal: every row has every column but those that the job adds, and in the order of the table."""
    rows: list[Any] = [tables.open_group] if table is OPEN_GROUPS else tables.table(table.name)
    assert rows
    for row in rows:
        assert ["cluster", *row] == [
            name for name in table.schema.fieldNames() if name == "cluster" or name not in OF_THE_JOB
        ]


def test_nested_rows_have_the_columns_of_their_structs(tables: Tables) -> None:
    """Goal: the same for changes and pauses."""
    row = tables.rows["rebalances"][1, 2]
    assert {tuple(change) for change in row["changes"]} == {tuple(CHANGE.fieldNames())}
    assert {tuple(pause) for pause in row["partition_pauses"]} == {tuple(PARTITION_PAUSE.fieldNames())}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_keys(table: Table) -> None:
    """Goal: the key's columns exist, begin with the cluster and the group, and are those of upserts."""
    assert set(table.key) | set(table.statistics_columns) <= set(table.schema.fieldNames())
    assert table.key == ("cluster", "group_id", *KEYS.get(table.name, ()))
    assert all(field.metadata["comment"] for field in table.schema.fields)

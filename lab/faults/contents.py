"""Compares the tables of two warehouses as multisets of rows, without Spark.

The comparison leaves out columns that depend on the run that wrote a row (`OF_THE_RUN`), and tables about the runs
themselves (`ABOUT_RUNS`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from groupledger.schemas.definitions import table_names
from groupledger.schemas.tables.lag_seeds import LAG_SEEDS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.words import LagSeedKind
from groupledger.transforms.history.rules.state import load

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

OF_THE_RUN = frozenset({"ingest_date", "computed_at", "imported_at", "source_file", "recorded_at"})
ABOUT_RUNS = frozenset({"quality_results", "log_files"})
ROWS_SHOWN = 3
WIDTH_SHOWN = 400


def rows_of(table: DeltaTable, name: str, left_out: frozenset[str] = OF_THE_RUN) -> Counter[str]:
    columns = [field.name for field in table.schema().fields if field.name not in left_out]
    found = table.to_pyarrow_table(columns=columns).to_pylist()
    return Counter(row_text(row, name) for row in found)


def row_text(row: dict[str, Any], name: str) -> str:
    if name == OPEN_GROUPS.name:
        row = row | {"state": load(row["state"])}
    if name == LAG_SEEDS.name and row["kind"] == LagSeedKind.INGESTED:
        row = row | {"at_ms": None, "seed_id": None}  # the day on which rows were ingested
    return repr(sorted(row.items()))


def contents(warehouse: Path | str, left_out: frozenset[str] = OF_THE_RUN) -> dict[str, Counter[str]]:
    """Returns, for each table of a warehouse, the text of each row without the columns `left_out`, and how often this
    text is in the table."""
    places = {name: f"{warehouse}/{name}" for name in sorted(table_names() - ABOUT_RUNS)}
    return {
        name: rows_of(DeltaTable(at), name, left_out) for name, at in places.items() if DeltaTable.is_deltatable(at)
    }


def without(tables: dict[str, Counter[str]], names: Collection[str]) -> dict[str, Counter[str]]:
    """Returns the tables except those called `names`."""
    return {name: rows for name, rows in tables.items() if name not in names}


def differences(found: dict[str, Counter[str]], expected: dict[str, Counter[str]]) -> list[str]:
    """Returns, for each table that differs, a line with the number of surplus and missing rows, and a line for each of
    the first of these rows."""
    lines = []
    for name in sorted(found.keys() | expected.keys()):
        here, there = found.get(name, Counter()), expected.get(name, Counter())
        surplus, missing = here - there, there - here
        if surplus or missing:
            lines.append(f"{name}: {surplus.total()} rows too many, {missing.total()} missing")
            lines += [f"  + {row[:WIDTH_SHOWN]}" for row in sorted(surplus)[:ROWS_SHOWN]]
            lines += [f"  - {row[:WIDTH_SHOWN]}" for row in sorted(missing)[:ROWS_SHOWN]]
    return lines

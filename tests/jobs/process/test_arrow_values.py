"""Goal: values go into Arrow and come out as pyarrow itself would take them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from groupledger.jobs.process.arrow_values import column_of, rows_of, scalar_of, table_of, value_of

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc)
INSTANT = pa.timestamp("us", "UTC")
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", None, "", "ü\U0010ffff", "x" * 3_000]),
    (pa.string(), []),
    (pa.int32(), [0, -(2**31), None, 2**31 - 1]),
    (pa.int64(), [*range(20), None, 2**63 - 1]),
    (pa.bool_(), [True, None, False]),
    (pa.date32(), [AT.date(), None, date(1969, 12, 31)]),
    (INSTANT, [AT, None, BEFORE_1970]),
    (INSTANT, [AT.astimezone(timezone(timedelta(hours=5)))]),
]


@pytest.mark.parametrize(("kind", "values"), COLUMNS, ids=str)
def test_columns(kind: pa.DataType, values: list[Any]) -> None:
    """Goal: a column is the one that pyarrow makes, and its values come out again."""
    column = column_of(values, kind)
    column.validate(full=True)
    assert column.equals(pa.array(values, kind))
    assert [value_of(each) for each in column] == values
    assert [scalar_of(value, kind).equals(each) for value, each in zip(values, column, strict=True)] == [True] * len(
        values
    )


def test_rows() -> None:
    """Goal: rows come out as from pyarrow, instants inside of others too, and all in UTC."""
    schema = pa.schema([("name", pa.string()), ("at", INSTANT)])
    rows: list[dict[str, Any]] = [{"name": "a", "at": AT}, {"name": None, "at": None}]
    assert rows_of(table_of(rows, schema)) == rows
    inner = pa.list_(pa.struct([("at", INSTANT), ("texts", pa.list_(pa.string()))]))
    nested = pa.table({"inner": pa.array([[{"at": AT, "texts": ["b"]}, None], [], None], inner)})
    assert rows_of(nested) == nested.to_pylist()
    assert rows_of(nested)[0]["inner"][0]["at"].tzinfo is timezone.utc
    assert rows_of(pa.table({"at": pa.array([AT.replace(tzinfo=None)])})) == [{"at": AT.replace(tzinfo=None)}]

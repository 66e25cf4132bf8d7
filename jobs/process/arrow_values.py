"""Converts Python values to Arrow columns and back, as pyarrow does, but without importing pandas.

When pyarrow makes an array or a scalar, it checks whether each value comes from pandas. When it converts an instant
with a zone to Python, it checks whether to return pandas' type. For these checks it imports pandas if pandas is
installed, which takes a third of a question's time. So code that answers questions must not call `pa.array`,
`pa.scalar` or `from_pylist`, compare a column with a plain value, or convert instants by `to_pylist`. It uses the
functions of this module, which cover the types of filters and small tables.
"""

from __future__ import annotations

from array import array
from datetime import date, datetime, timezone
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.schemas.instants import EPOCH, us_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BYTE = 8


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Returns an Arrow array of texts, integers, booleans, dates, or instants in microseconds; values may be None."""
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        ends = array("i", accumulate(map(len, texts), initial=0))
        data = [pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(kind, len(values), [_validity(values), *data])
    numbers = array("q", (0 if value is None else _number(value) for value in values))
    column = pa.Array.from_buffers(pa.int64(), len(values), [_validity(values), pa.py_buffer(numbers)])
    return column.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else column.cast(kind)


def scalar_of(value: Any, kind: pa.DataType) -> pa.Scalar:
    return column_of([value], kind)[0]


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [column_of([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def table_from(stream: object) -> pa.Table:
    """Returns a table from an object of another library that supports Arrow's C stream interface, such as delta-rs."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def rows_of(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Returns rows as dicts; instants are in UTC."""
    columns = [values_of(column) for column in table.columns]
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []


def value_of(scalar: pa.Scalar) -> Any:
    return _in_utc(scalar.cast(_without_zone(scalar.type)).as_py())


def values_of(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    kind = _without_zone(column.type)
    if _is_whole(kind):  # a sum beyond BIGINT: a number for all who ask, as the smaller ones are
        return [None if value is None else int(value) for value in column.to_pylist()]
    if kind == column.type:
        values: list[Any] = column.to_pylist()
        return values
    return [_in_utc(value) for value in column.cast(kind).to_pylist()]


def plain(answer: pa.Table) -> pa.Table:
    """Returns a result of DuckDB in Spark's types. Sums of BIGINT, which DuckDB widens to a decimal, become BIGINT
    again if they fit. An instant without a zone gets UTC, the zone of the connection."""
    for index, field in enumerate(answer.schema):
        if _is_whole(field.type):
            wanted = pa.int64()
        elif pa.types.is_timestamp(field.type) and field.type.tz is None:
            wanted = pa.timestamp("us", "UTC")
        else:
            continue
        try:
            answer = answer.set_column(index, field.name, answer.column(index).cast(wanted))
        except pa.ArrowInvalid:
            continue  # larger than BIGINT: it stays a decimal, and is a number in rows
    return answer


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.scale == 0)


def _number(value: int | datetime | date) -> int:
    """Returns the number that Arrow stores for a value: microseconds of an instant, days of a date."""
    if isinstance(value, datetime):
        return us_of(value)
    return value.toordinal() - EPOCH.toordinal() if isinstance(value, date) else int(value)


def _validity(values: Sequence[Any]) -> pa.Buffer | None:
    """Returns a bit for each value that is there, the lowest of a byte first; None if all are."""
    if all(value is not None for value in values):
        return None
    bits = bytearray(-(-len(values) // BYTE))
    for index, value in enumerate(values):
        bits[index // BYTE] |= (value is not None) << index % BYTE
    return pa.py_buffer(bytes(bits))


def _without_zone(kind: pa.DataType) -> pa.DataType:
    """Returns a type with instants that are in UTC but do not say so."""
    if pa.types.is_timestamp(kind) and kind.tz == "UTC" and kind.unit != "ns":
        return pa.timestamp(kind.unit)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_zone(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_zone(field.type)) for field in kind])
    return kind


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc)
    if isinstance(value, list):
        return [_in_utc(each) for each in value]
    return {name: _in_utc(each) for name, each in value.items()} if isinstance(value, dict) else value

"""Finds the row that proves an incident, by its key in the incident.

A key is the row's key columns after the cluster, joined by a slash (`incidents.proofs`). Clients name groups, and a
name may contain slashes: if a key has too many parts, the additional ones belong to the first text column. Instants are
ISO 8601, or milliseconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.jobs.process.errors import UnknownNameError
from groupledger.jobs.process.output import json_text
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.definitions import key_of, schema_of, table_names
from groupledger.schemas.instants import instant_of_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

MILLISECOND = timedelta(milliseconds=1)
SHOWN_MAX = 4_000


def proof_row(tables: ClusterRows, table: str, key: str) -> Answer:
    """Returns the row of `table` that has the key `key`. Raises UnknownNameError if there is none, for example because
    retention has removed it."""
    if table in table_names() and tables.exists(table):
        filters = [*_filters(table, key)]
        found = tables.rows(table, *filters) if filters else []
        if found:
            return found[0]
    raise UnknownNameError(
        f"The ledger has no row {printable(key)} of {printable(table)}: retention may have removed it."
    )


def _filters(table: str, key: str) -> Iterator[Filter]:
    names, schema = key_of(table)[1:], schema_of(table)
    types = [schema.field(name).type for name in names]
    parts = key.split("/")
    surplus = len(parts) - len(names)
    if surplus < 0:
        return
    if surplus:
        first = next((place for place, each in enumerate(types) if pa.types.is_string(each)), 0)
        parts[first : first + surplus + 1] = ["/".join(parts[first : first + surplus + 1])]
    read = [_value(kind, text) for kind, text in zip(types, parts, strict=True)]
    if any(value is None for value in read):
        return
    for name, value in zip(names, read, strict=True):
        if isinstance(value, datetime):
            yield name, ">=", value
            yield name, "<", value + MILLISECOND
        else:
            yield name, "=", value


def _value(kind: pa.DataType, text: str) -> str | int | datetime | None:
    """Returns a part of a key as a value of its column; None if it can't be one."""
    if pa.types.is_string(kind):
        return text
    try:
        if not pa.types.is_timestamp(kind):
            number = int(text)
            return number if -(1 << (kind.bit_width - 1)) <= number < 1 << (kind.bit_width - 1) else None
        if text.isdecimal():
            return instant_of_ms(int(text))
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError):
        return None


def shown_value(value: Any) -> str:
    """Returns a value of a row as text, shortened if it is too long."""
    text = value if isinstance(value, str) else value.hex() if isinstance(value, bytes) else json_text(value).strip('"')
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]} and {len(text) - SHOWN_MAX:,} characters more"

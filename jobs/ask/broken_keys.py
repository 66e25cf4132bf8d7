"""Finds the first keys of the rows that violate an expectation, as a starting point for a search.

Keys may contain names that clients chose, so they are shown to the caller and stored nowhere.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEYS_MAX = 5


def broken_keys(rows: pa.Table, key: Sequence[str], kind: str, arguments: dict[str, Any]) -> list[tuple[object, ...]]:
    """Returns the first `KEYS_MAX` keys, in order, of the rows that violate an expectation. `key` has the names of the
    key columns; `kind` and `arguments` are those of Great Expectations."""
    if kind == "expect_compound_columns_to_be_unique":
        # As Great Expectations has it: a row that is null in all of them is left out.
        named = rows.filter(pc.invert(reduce(pc.and_, (pc.is_null(rows[name]) for name in arguments["column_list"]))))
        counts = named.group_by(arguments["column_list"]).aggregate([([], "count_all")])
        wrong = counts.filter(pc.greater(counts["count_all"], 1))
    else:
        wrong = rows.filter(_is_wrong(rows[arguments["column"]], kind, arguments))
    return first_keys(zip(*(wrong[name].to_pylist() for name in key), strict=True))


def first_keys(keys: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return sorted({*keys}, key=lambda key: [(part is not None, part) for part in key])[:KEYS_MAX]


def key_text(names: Sequence[str], key: Sequence[object]) -> str:
    """Returns a key as one text: its parts except the cluster, joined by slashes."""
    parts = ("null" if part is None else str(part) for name, part in zip(names, key, strict=True) if name != "cluster")
    return "/".join(parts)


def _is_wrong(column: pa.ChunkedArray, kind: str, arguments: dict[str, Any]) -> pa.ChunkedArray:
    """Returns for each value whether it is wrong. Null may be null, which is not wrong."""
    if kind == "expect_column_values_to_not_be_null":
        return pc.is_null(column)
    if kind == "expect_column_values_to_be_in_set":
        is_other = pc.invert(pc.is_in(column, pa.array(arguments["value_set"], column.type)))
        return pc.and_(is_other, pc.is_valid(column))
    if kind == "expect_column_values_to_be_between":
        least, most = arguments.get("min_value"), arguments.get("max_value")
        bounds = [pc.less(column, least)] if least is not None else []
        bounds += [pc.greater(column, most)] if most is not None else []
        return reduce(pc.or_, bounds)
    raise ValueError(f"no expectation of ours is of the kind {kind}")

"""Names the rows for which an expectation did not hold, by their keys: what to look at first.

Keys may hold names that clients chose, so they are shown to whoever asks and kept nowhere.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from groupledger.schemas.tables.table import Table

KEYS_MAX = 5


def broken_keys(rows: DataFrame, table: Table, kind: str, arguments: dict[str, Any]) -> list[str]:
    """Returns the first keys, in their order, of the rows that an expectation does not hold for. The parts of a key but
    the cluster stand behind each other, with slashes between."""
    key = [F.col(name) for name in table.key]
    if kind == "expect_compound_columns_to_be_unique":
        named = [F.col(name) for name in arguments["column_list"]]
        # As Great Expectations has it: a row that is null in all of them is left out.
        is_named = ~reduce(and_, (column.isNull() for column in named))
        wrong = rows.where(is_named).groupBy(*named).count().where(F.col("count") > 1)
    else:
        wrong = rows.where(_is_wrong(F.col(arguments["column"]), kind, arguments))
    parts = [part for part, name in zip(key, table.key, strict=True) if name != "cluster"]
    text = F.concat_ws("/", *(F.coalesce(part.cast("string"), F.lit("null")) for part in parts))
    shown = wrong.select(*key, text.alias("broken_key")).orderBy(*key).limit(KEYS_MAX)
    return [row["broken_key"] for row in shown.select("broken_key").collect()]


def _is_wrong(column: Column, kind: str, arguments: dict[str, Any]) -> Column:
    if kind == "expect_column_values_to_not_be_null":
        return column.isNull()
    if kind == "expect_column_values_to_be_in_set":
        return ~column.isin(list(arguments["value_set"]))
    if kind == "expect_column_values_to_be_between":
        least, most = arguments.get("min_value"), arguments.get("max_value")
        too_small = F.lit(False) if least is None else column < F.lit(least)
        return too_small if most is None else too_small | (column > F.lit(most))
    raise ValueError(f"no expectation of ours is of the kind {kind}")

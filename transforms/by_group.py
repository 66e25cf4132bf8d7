"""Runs rules that are plain Python in Spark's tasks: rows go in, a rule is called, rows come out.

    by_group(rows, keys, order, rule, schema, report)   one call of the rule for each group, with its rows in order
    by_row(rows, key, rule, schema, report)             one call of the rule for each row
    map_rows(rows, rule, schema)                      one call for each task, with its rows in no particular order

A rule takes rows as dicts by column and yields rows as dicts by column. Neither a task's rows nor a group's need to fit
into one Arrow batch: they come to the rule one by one, and what it yields leaves in batches of at most `ROWS_MAX` rows.
A task holds one batch of input, one batch of output, and the memory of the rule itself. Spark sorts, so a group may be
larger than memory if its rule reads it only once.

The result has exactly the columns of `schema`. A row with another set of column names fails the task, so that a column
which no rule fills is an error and not a column of nulls. A group on which a rule fails is reported: the task calls
`report(key, error)` and continues with the next group (`transforms.troubles`).
"""

from __future__ import annotations

from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.schemas.arrow import arrow_schema
from groupledger.transforms.troubles import RULE_ERRORS, UnreadableRowsError, judged, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from groupledger.transforms.troubles import Report

    Row = dict[str, Any]

ROWS_MAX = 5_000


class RowShapeError(RuntimeError):
    """Says that a rule yielded a row whose column names are not those of the schema. This is an error in the rule and
    not in a group's values, so no group is reported for it."""


def by_group(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    rule: Callable[[Any, Iterator[Row]], Iterable[Row]],
    schema: StructType,
    report: Report = stop,
) -> DataFrame:
    """Returns the rows that `rule(key, rows of the group)` yields for each group, whose rows come in the order of the
    columns `order`. `key` is the value of the column in `keys`, or a tuple if there are several."""

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = groupby(rows_of(batches), itemgetter(*keys))
        return judged_batches(groups, rule, arrow_schema(schema), report)

    return rows.repartition(*keys).sortWithinPartitions(*keys, *order).mapInArrow(of_task, schema)


def by_row(
    rows: DataFrame, key: str, rule: Callable[[Any, Row], Iterable[Row]], schema: StructType, report: Report = stop
) -> DataFrame:
    """Returns the rows that `rule(value of the column key, row)` yields for each row. If the rule fails on one row, the
    other rows with the same value are not affected."""

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judged_batches(((row[key], row) for row in rows_of(batches)), rule, arrow_schema(schema), report)

    return rows.mapInArrow(of_task, schema)


def judged_batches(
    groups: Iterable[tuple[Any, Any]],
    rule: Callable[[Any, Any], Iterable[Row]],
    schema: pa.Schema,
    report: Report,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows that `rule(key, rows)` yields for each pair of key and rows in `groups`, in Arrow batches. Calls
    `report(key, error)` for each group on which the rule fails, or whose rows Arrow can't hold."""
    return judged(groups, rule, partial(batch_of, schema=schema), report, ROWS_MAX)


def map_rows(rows: DataFrame, rule: Callable[[Iterator[Row]], Iterable[Row]], schema: StructType) -> DataFrame:
    """Returns the rows that `rule(rows of a task)` yields for each task."""

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches_of(rule(rows_of(batches)), arrow_schema(schema))

    return rows.mapInArrow(of_task, schema)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yields the rows of a task. Raises UnreadableRowsError if a batch can't be converted. That error ends the task,
    and is not blamed on the group being read, because the rows after the batch are lost, too."""
    for batch in batches:
        try:
            rows = batch.to_pylist()
        except RULE_ERRORS as error:
            raise UnreadableRowsError(f"the rows of a task can't be read: {error}") from error
        yield from rows


def batches_of(rows: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    waiting = iter(rows)
    while part := list(islice(waiting, ROWS_MAX)):
        yield batch_of(part, schema)


def batch_of(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows as an Arrow batch of the schema. Raises RowShapeError if a row has too few or too many names."""
    names = set(schema.names)
    for row in rows:
        if row.keys() != names:
            missing, unknown = (", ".join(sorted(each)) or "none" for each in (names - row.keys(), row.keys() - names))
            raise RowShapeError(f"a row does not have the columns of its table: missing {missing}; unknown {unknown}")
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)

"""Runs rules that are plain Python in Spark's tasks: rows go in, a rule is called, rows come out.

    by_group(rows, keys, order, rule, schema, report)   one call of the rule for each group, with its rows in order
    by_row(rows, key, rule, schema, report)             one call of the rule for each row
    map_rows(rows, rule, schema)                      one call for each task, with the rows as they lie there

A rule takes rows as dicts by column and yields rows as dicts by column. Neither a task's rows nor a group's need to fit
into one Arrow batch: they come to the rule one by one, and what it yields leaves in batches of at most `ROWS_MAX` rows.
A task holds one batch of either side, and the memory of the rule itself. Spark sorts, so a group may be larger than
memory if its rule reads it only once.

The result has exactly the columns of `schema`. A row with another set of names fails the task, so that a column which
no rule fills is an error and not a column of nulls. A group on which a rule fails goes to `report`, in the task, which
goes on with the next group (`transforms.troubles`).
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
    """A rule yielded a row whose names are not those of the schema: an error in the rule, whatever the group."""


def by_group(
    rows: DataFrame,
    keys: Sequence[str],
    order: Sequence[str],
    rule: Callable[[Any, Iterator[Row]], Iterable[Row]],
    schema: StructType,
    report: Report = stop,
) -> DataFrame:
    """Returns what `rule(key, rows of the group)` yields for each group; a key of several columns is a tuple."""

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = groupby(rows_of(batches), itemgetter(*keys))
        return judged_batches(groups, rule, arrow_schema(schema), report)

    return rows.repartition(*keys).sortWithinPartitions(*keys, *order).mapInArrow(of_task, schema)


def by_row(
    rows: DataFrame, key: str, rule: Callable[[Any, Row], Iterable[Row]], schema: StructType, report: Report = stop
) -> DataFrame:
    """Returns the rows that `rule(key, row)` yields for each row. If it fails on one row, the other rows of the group
    are not affected."""

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judged_batches(((row[key], row) for row in rows_of(batches)), rule, arrow_schema(schema), report)

    return rows.mapInArrow(of_task, schema)


def judged_batches(
    groups: Iterable[tuple[Any, Any]],
    rule: Callable[[Any, Any], Iterable[Row]],
    schema: pa.Schema,
    report: Report,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows that the rule yields for each group, in batches, wherever the groups come from."""
    return judged(groups, rule, partial(batch_of, schema=schema), report, ROWS_MAX)


def map_rows(rows: DataFrame, rule: Callable[[Iterator[Row]], Iterable[Row]], schema: StructType) -> DataFrame:
    """Returns the rows that `rule(rows of a task)` yields for each task."""

    def of_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches_of(rule(rows_of(batches)), arrow_schema(schema))

    return rows.mapInArrow(of_task, schema)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yields the rows of a task. Raises UnreadableRowsError, which concerns the task and not the group that is being
    read: all later rows are lost, too."""
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

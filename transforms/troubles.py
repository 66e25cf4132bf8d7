"""Isolates errors of one group: if a rule fails on data that a group's clients wrote, only that group has no result.

    judged(groups, rule, make, report, rows_max)   the rows that a rule yields for each group; failures are reported
    each_judged(groups, rule, report)              one value for each group, in a dict in memory

A client may write any bytes and numbers, and a rule may not have foreseen some. An error is caught around the rule's
call for a group, and nowhere within the rule. Only errors that values can raise are caught, `RULE_ERRORS`. Errors that
concern the whole ledger or the machine (`UnknownStateError`, `RowShapeError`, `MemoryError`, a full disk) still end the
pass.

Rows are yielded in batches of several groups. A batch that Arrow refuses is made again group by group, so that only the
group whose values do not fit is left out. Rows of that group in earlier batches were yielded already; a caller that
needs all rows of a group or none (`jobs.derive.history`) leaves out the rows of reported groups.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Report = Callable[[Any, Exception], None]
    """Takes the key of a group on which a rule failed, and the error."""

Row = TypeVar("Row")
Batch = TypeVar("Batch")
Value = TypeVar("Value")
TEXT_MAX = 200  # characters of an error's own text, which may quote what a client wrote

# What a value can raise: too large, absent, of another type, or nested too deeply. Arrow's errors about a value are
# ValueError and TypeError, Python's about numbers ArithmeticError, about keys and positions LookupError.
RULE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class UnreadableRowsError(RuntimeError):
    """The rows that Spark hands to a task can't be read: nobody knows to which groups the rest of them belong."""


class AtRecordError(ValueError):
    """A rule failed on a record of a group's log; its cause is the error of the rule."""

    def __init__(self, kafka_partition: int, kafka_offset: int | None) -> None:
        super().__init__(f"a rule failed in partition {kafka_partition}, at offset {kafka_offset}")
        self.kafka_partition, self.kafka_offset = kafka_partition, kafka_offset


@dataclass(frozen=True, slots=True)
class Trouble:
    """Holds the reason why a rule failed on a group. `kafka_partition` and `kafka_offset` are those of the record on
    which it failed, if known."""

    group_id: str
    reason: str
    kafka_partition: int | None = None
    kafka_offset: int | None = None


def trouble_of(group_id: str, error: Exception) -> Trouble:
    if isinstance(error, AtRecordError):
        return Trouble(group_id, reason_of(error.__cause__ or error), error.kafka_partition, error.kafka_offset)
    return Trouble(group_id, reason_of(error))


def reason_of(error: BaseException) -> str:
    """Returns one line: the kind of error, its text and the innermost line of code."""
    text = " ".join(str(error).split())[:TEXT_MAX]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{where}"


def judged(
    groups: Iterable[tuple[Any, Any]],
    rule: Callable[[Any, Any], Iterable[Row]],
    make: Callable[[list[Row]], Batch],
    report: Report,
    rows_max: int,
) -> Iterator[Batch]:
    """Yields the rows that `rule(key, rows of the group)` yields for each group, in batches that `make` makes. Calls
    `report(key, error)` for each group on which the rule fails, or whose rows Arrow can't hold."""
    given = (row for key, what in groups for row in _rows_of(key, what, rule, report))
    while part := list(islice(given, rows_max)):
        batch = _batch_of([row for _, row in part], make)
        if not isinstance(batch, Exception):
            yield batch
            continue
        for key, of_group in groupby(part, itemgetter(0)):
            batch = _batch_of([row for _, row in of_group], make)
            if isinstance(batch, Exception):
                report(key, batch)
            else:
                yield batch


def each_judged(groups: Iterable[tuple[str, Any]], rule: Callable[[Any], Value], report: Report) -> dict[str, Value]:
    """Returns the value of `rule(rows of the group)` for each group; groups on which it fails are reported and left
    out."""
    found: dict[str, Value] = {}
    for group_id, what in groups:
        try:
            found[group_id] = rule(what)
        except RULE_ERRORS as error:  # noqa: PERF203 - one bad group costs that group
            report(group_id, error)
    return found


def _rows_of(
    key: Any, what: Any, rule: Callable[[Any, Any], Iterable[Row]], report: Report
) -> Iterator[tuple[Any, Row]]:
    try:
        for row in rule(key, what):
            yield key, row
    except RULE_ERRORS as error:
        report(key, error)


def _batch_of(rows: list[Row], make: Callable[[list[Row]], Batch]) -> Batch | Exception:
    try:
        return make(rows)
    except RULE_ERRORS as error:
        return error


def reporting_to(troubles: dict[str, Trouble]) -> Report:
    """Returns a report function that collects troubles into `troubles`, by group, for a process without tasks."""

    def report(group_id: str, error: Exception) -> None:
        troubles[group_id] = trouble_of(group_id, error)

    return report


def stop(_: Any, error: Exception) -> None:
    """Raises the error, and so ends the pass at the first trouble. It is the report function for callers that collect
    no troubles."""
    raise error

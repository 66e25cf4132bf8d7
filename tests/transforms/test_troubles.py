"""Goal: an error of a rule about one group's values costs that group; an error about more than that ends the task."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from groupledger.transforms.by_group import RowShapeError, batch_of, rows_of
from groupledger.transforms.history.rules.state import UnknownStateError
from groupledger.transforms.troubles import (
    AtRecordError,
    Trouble,
    UnreadableRowsError,
    each_judged,
    judged,
    reason_of,
    reporting_to,
    stop,
    trouble_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Row = dict[str, Any]

SCHEMA = pa.schema([("group_id", pa.string()), ("number", pa.int64())])
MAKE = partial(batch_of, schema=SCHEMA)


def played(
    rule: Callable[[str, list[int]], Iterator[Row] | list[Row]], rows_max: int = 100
) -> tuple[list[Row], dict[str, Exception]]:
    """Returns the rows that a rule gives for three groups, and the errors that were reported."""
    reported: dict[str, Exception] = {}
    groups = [("a", [1, 2]), ("b", [3, 4]), ("c", [5])]
    batches = judged(groups, rule, MAKE, reported.__setitem__, rows_max)
    return [row for batch in batches for row in batch.to_pylist()], reported


def rows(group_id: str, numbers: list[int]) -> Iterator[Row]:
    return ({"group_id": group_id, "number": number} for number in numbers)


def numbers_by_group(found: list[Row]) -> list[tuple[str, int]]:
    return [(row["group_id"], row["number"]) for row in found]


@pytest.mark.parametrize(
    "error",
    [OverflowError, KeyError, IndexError, AttributeError, TypeError, RecursionError, UnicodeError, pa.ArrowInvalid],
)
def test_a_rule_that_fails(error: type[Exception]) -> None:
    """Goal: the group is reported with the error, and the others have all their rows."""

    def rule(group_id: str, numbers: list[int]) -> Iterator[Row]:
        if group_id == "b":
            raise error("no")
        return rows(group_id, numbers)

    found, reported = played(rule)
    assert numbers_by_group(found) == [("a", 1), ("a", 2), ("c", 5)]
    assert {name: type(each) for name, each in reported.items()} == {"b": error}


@pytest.mark.parametrize("rows_max", [1, 2, 3, 100])
def test_values_that_arrow_refuses(rows_max: int) -> None:
    """Goal: a row that is no row of Arrow's costs its group, not those that leave in the same batch."""

    def rule(group_id: str, numbers: list[int]) -> Iterator[Row]:
        return rows(group_id, [2**63] if group_id == "b" else numbers)

    found, reported = played(rule, rows_max)
    assert numbers_by_group(found) == [("a", 1), ("a", 2), ("c", 5)]
    assert [*reported] == ["b"]
    assert isinstance(reported["b"], OverflowError)


@pytest.mark.parametrize("error", [MemoryError, OSError, UnknownStateError, UnreadableRowsError, KeyboardInterrupt])
def test_what_is_no_trouble_of_a_group(error: type[BaseException]) -> None:
    """Goal: a machine that fails, a ledger of a newer release and rows that can't be read end the task."""

    def rule(group_id: str, numbers: list[int]) -> Iterator[Row]:
        if group_id == "b":
            raise error("no")
        return rows(group_id, numbers)

    with pytest.raises(error):
        played(rule)


def test_a_fault_of_the_rule() -> None:
    """Goal: rows with other columns than the schema's are wrong for every group, and end the task."""
    with pytest.raises(RowShapeError, match="missing number"):
        played(lambda group_id, _: [{"group_id": group_id}])


def test_rows_that_cant_be_read() -> None:
    """Goal: an error while the rows are read is no trouble of the group that is read just then: no group after it
    would have any rows."""
    far = pa.array([2**62], pa.timestamp("us"))
    batch = pa.RecordBatch.from_arrays([far], ["at"])
    with pytest.raises(UnreadableRowsError):
        list(rows_of([batch]))


def test_one_value_for_each_group() -> None:
    """Goal: in a process that keeps all groups, one on which the rule fails is left out and reported."""
    troubles: dict[str, Trouble] = {}
    found = each_judged([("a", 1), ("b", 0), ("c", 2)], lambda number: 2 // number, reporting_to(troubles))
    assert found == {"a": 2, "c": 1}
    assert troubles["b"].reason.startswith("ZeroDivisionError: ")


def test_nobody_gathers() -> None:
    """Goal: if nobody gathers troubles, the error of the rule goes on as it is."""
    with pytest.raises(ZeroDivisionError):
        list(judged([("a", 0)], lambda _, number: [{"number": 1 // number}], MAKE, stop, 1))


def test_what_is_reported() -> None:
    """Goal: a trouble has one line, of the kind of error, its text, cut, and the line of code; and the record, if it is
    known."""
    known: dict[str, int] = {}
    try:
        known["x\n" * 200]
    except KeyError as error:
        reason = reason_of(error)
        at_record = AtRecordError(3, 7)
        at_record.__cause__ = error
    assert reason.startswith("KeyError: 'x\\nx")
    assert "(test_troubles.py, line " in reason
    assert len(reason) < 260
    assert "\n" not in reason
    assert trouble_of("g", at_record) == Trouble("g", reason, 3, 7)

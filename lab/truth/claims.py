"""Compares the history of a group whose log was cleaned before a ledger read it with the history of a ledger that read
every record.

No claim may be false, and the history must be complete where no record was removed. Incarnations are not compared,
since nobody can know how many of them have left no record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness, Ownership
from lab.truth.histories import stretch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from groupledger.transforms.coverage.rules.stretches import Stretch
    from groupledger.transforms.history.rules.ownership_answer import OwnerAnswer
    from lab.truth.histories import Tables

STATED = ("from_generation", "happened_at", "generation_gap", "protocol_kind", "changes", "partitions_moved")
INSTANTS = 30

TableRow = dict[str, Any]


def false_claims(
    tables: Tables, truth: Tables, coverage: Sequence[Stretch], until_ms: tuple[int, int], random: Random
) -> list[object]:
    """Returns the rows and answers that contradict the truth. `coverage` has the stretches of coverage, and `until_ms`
    the first and the last instant of the whole log. Owners are asked for at random instants in between."""
    return [
        *_false_rebalances(tables, truth),
        *_false_rows(tables, truth, "assignments", ("topic", "partition", "member_id"), ("valid_from", "valid_to")),
        *_false_rows(tables, truth, "members", ("member_id",), ("joined_at", "left_at")),
        *(_findings(tables) - _findings(truth)),
        *_false_groups(tables, truth),
        *_false_owners(tables, truth, coverage, until_ms, random),
    ]


def missing_rebalances(tables: Tables, truth: Tables, coverage: Sequence[Stretch]) -> list[TableRow]:
    """Returns the true rebalances that the history lacks or has wrong, though no record around them was removed."""
    of_history = {row["kafka_offset"]: row for row in tables.table("rebalances")}
    offsets = sorted(row["kafka_offset"] for row in truth.table("generations"))
    complete = [each for each in coverage if each.completeness == Completeness.COMPLETE]
    missing = []
    for row in truth.table("rebalances"):
        at = row["kafka_offset"]
        before = max((offset for offset in offsets if offset < at), default=at)
        is_inside = any(each.from_offset <= before and at < each.to_offset for each in complete)
        if is_inside and (
            at not in of_history or any(of_history[at][name] != row[name] for name in (*STATED, "is_hole"))
        ):
            missing.append(row)
    return missing


def _false_rebalances(tables: Tables, truth: Tables) -> list[TableRow]:
    true = {row["kafka_offset"]: _values(row, STATED) for row in truth.table("rebalances")}
    known = [row for row in tables.table("rebalances") if not row["is_hole"]]
    return [row for row in known if _values(row, STATED) != true.get(row["kafka_offset"])]


def _false_rows(
    tables: Tables, truth: Tables, table: str, names: tuple[str, ...], times: tuple[str, str]
) -> list[TableRow]:
    """Returns the rows with a begin or an end, claimed as known, that no true row with these names has; and those that
    are claimed to last, though no true row with these names does."""
    begin, end = ((*names, time) for time in times)
    true = truth.table(table)
    begins, ends = ({_values(row, columns) for row in true} for columns in (begin, end))
    lasting = {_values(row, names) for row in true if row[times[1]] is None}
    return [
        row
        for row in tables.table(table)
        if (row["is_start_known"] and _values(row, begin) not in begins)
        or (row["is_end_known"] and _values(row, end) not in ends)
        or (row["is_end_known"] is None and _values(row, names) not in lasting)
    ]


def _values(row: TableRow, columns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[name] for name in columns)


def _findings(tables: Tables) -> set[tuple[int, str]]:
    return {(row["kafka_offset"], row["finding"]) for row in tables.table("generations") if row["finding"]}


def _false_groups(tables: Tables, truth: Tables) -> list[TableRow]:
    """Returns the false claims in the group's row: whether it is alive, and how much it has committed."""
    of_history, true = tables.rows["groups"].get((), {}), truth.group
    is_false = of_history.get("is_alive") not in (None, true["is_alive"])
    has_too_many = (of_history.get("committed_partition_count") or 0) > true["committed_partition_count"]
    return [of_history] if is_false or has_too_many else []


def _false_owners(
    tables: Tables, truth: Tables, found: Sequence[Stretch], until_ms: tuple[int, int], random: Random
) -> list[object]:
    if not tables.rows["groups"]:
        return []
    coverage = [_row(each) for each in found]
    whole = [stretch(0, 2**62, until_ms, Completeness.COMPLETE)]
    places = sorted({(row["topic"], row["partition"]) for row in truth.table("assignments")})
    false: list[object] = []
    for _ in range(INSTANTS if places else 0):
        place, at_ms = random.choice(places), random.randrange(*until_ms)
        answer = tables.owner(coverage, *place, at_ms)
        true = truth.owner(whole, *place, at_ms)
        if answer.status != Ownership.UNKNOWN and not _is_same(answer, true):
            false.append((place, at_ms, answer, true))
    return false


def _is_same(answer: OwnerAnswer, true: OwnerAnswer) -> bool:
    """Returns whether an answer is true. A log that was thinned does not show that one of the name had ended before."""
    return answer == true or (answer.status == Ownership.NOT_BORN and true.status == Ownership.ENDED)


def _row(each: Stretch) -> TableRow:
    is_timed = each.from_time_ms is not None and each.to_time_ms is not None
    times = (each.from_time_ms or 0, each.to_time_ms or 0) if is_timed else None
    return stretch(each.from_offset, each.to_offset, times, each.completeness)

"""Answers who owned a partition at an instant: owned, unowned, or unknown. The first two are never wrong. In a KIP-848
group a partition may be reserved, too: its static member is away, and no other member gets it. If the group did not
exist at that instant, the answer is `not_born` or `ended`.

Only an instant in a `complete` stretch of the group's `__consumer_offsets` partition is known. Rows that were in force
when the stretch began count, since a compacted stretch before it still holds each key's last record; rows that ended
before the stretch don't. Clocks may go back, so time only finds the rows, and offsets decide whether they belong to the
stretch. The answer is `unowned` only if the assignments of all members of the generation could be read, and `not_born`
or `ended` only if there certainly was no group.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness, EndedBy, Ownership

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

GENERATION_TIMES = ("started_at", "ended_at", "kafka_offset")


@dataclass(frozen=True, slots=True)
class OwnerAnswer:
    """Holds the answer. `member_ids` has several ids only if the assignor gave the partition to several members; for a
    reserved partition it has the member that is away.

    `generation` and `interval` are the rows that prove the answer: the generation in force, and the interval of an
    owned or reserved partition.
    """

    status: str
    member_ids: tuple[str, ...] = ()
    generation: Row | None = field(default=None, compare=False)
    interval: Row | None = field(default=None, compare=False)


def owner_at(
    group: Row,
    generations: Sequence[Row],
    assignments: Iterable[Row],
    coverage: Iterable[Row],
    topic: str,
    partition: int,
    at: Any,
) -> OwnerAnswer:
    """Returns who owned a partition of a group at the instant `at`.

    `group` is the group's row in `groups`; `coverage` has the rows of `coverage` of its `kafka_partition`. `at` has the
    type of the rows' instants. `assignments` may include rows that `shared_ownership` and `reserved_ownership` return.
    """
    return owners_at(group, generations, assignments, coverage, [(topic, partition)], at)[topic, partition]


def owners_at(
    group: Row,
    generations: Sequence[Row],
    assignments: Iterable[Row],
    coverage: Iterable[Row],
    places: Iterable[tuple[str, int]],
    at: Any,
) -> dict[tuple[str, int], OwnerAnswer]:
    """Returns the answers for several partitions of a group (`places` are topics and partitions), in one pass over the
    assignments."""
    stretch = _complete_stretch(coverage, at)
    if stretch is None:
        return dict.fromkeys(places, OwnerAnswer(Ownership.UNKNOWN))
    # The generation decides, since an interval may span records that are gone from a compacted stretch.
    generation = _in_force(generations, stretch, at, GENERATION_TIMES)
    if generation is None:
        return dict.fromkeys(places, OwnerAnswer(_without_group(group, generations, stretch, at)))
    by_place: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in assignments:
        by_place[row["topic"], row["partition"]].append(row)
    return {place: _owner(generation, by_place[place], stretch, at) for place in places}


def generation_at(generations: Iterable[Row], coverage: Iterable[Row], at: Any) -> Row | None:
    """Returns the generation in force at an instant; None if there was none, or if it is not known."""
    stretch = _complete_stretch(coverage, at)
    return None if stretch is None else _in_force(generations, stretch, at, GENERATION_TIMES)


def status_of(interval: Row) -> str:
    return Ownership.RESERVED if interval.get("is_reserved") else Ownership.OWNED


def _complete_stretch(coverage: Iterable[Row], at: Any) -> Row | None:
    return next((row for row in coverage if row["completeness"] == Completeness.COMPLETE and _holds(row, at)), None)


def _owner(generation: Row, intervals: Sequence[Row], stretch: Row, at: Any) -> OwnerAnswer:
    interval = _in_force(intervals, stretch, at, ("valid_from", "valid_to", "from_offset"))
    if interval is not None:
        return OwnerAnswer(
            status_of(interval), (interval["member_id"], *interval["other_member_ids"]), generation, interval
        )
    status = Ownership.UNOWNED if generation["is_ownership_known"] else Ownership.UNKNOWN
    return OwnerAnswer(status, (), generation)


def _holds(stretch: Row, at: Any) -> bool:
    from_time, to_time = stretch["from_time"], stretch["to_time"]
    return from_time is not None and to_time is not None and from_time <= at < to_time


def _in_force(rows: Iterable[Row], stretch: Row, at: Any, columns: tuple[str, str, str]) -> Row | None:
    """Returns the newest row that holds at the instant, had not ended before the stretch and did not begin after it.

    A row that ended at the end of the stretch or later held for the whole stretch, even if its `ended_at` says
    otherwise.
    """
    begin, end, offset = columns
    holding = [
        row
        for row in rows
        if row[begin] <= at
        and (row[end] is None or at < row[end] or row["to_offset"] >= stretch["to_offset"])
        and _reaches(row, stretch)
        and row[offset] < stretch["to_offset"]
    ]
    return max(holding, key=lambda row: row[offset], default=None)


def _reaches(row: Row, stretch: Row) -> bool:
    return row["to_offset"] is None or bool(row["to_offset"] >= stretch["from_offset"])


def _without_group(group: Row, generations: Iterable[Row], stretch: Row, at: Any) -> str:
    """Returns whether no generation is in force because there certainly was no group, not yet or no more.

    An incarnation without a generation in between may have been of another type, whose owners stand elsewhere.
    """
    ordered = sorted(generations, key=lambda row: row["kafka_offset"])
    before = [row for row in ordered if row["started_at"] <= at]
    after = next((row for row in ordered if row["started_at"] > at), None)
    next_incarnation = group["incarnation"] if after is None else after["incarnation"]
    if not before:
        is_birth = after is not None and next_incarnation == 1 and after["is_start_known"]
        return Ownership.NOT_BORN if is_birth else Ownership.UNKNOWN
    had_gone = before[-1]["ended_by"] == EndedBy.TOMBSTONE and _reaches(before[-1], stretch)
    is_gone = had_gone and next_incarnation - before[-1]["incarnation"] <= (after is not None)
    return Ownership.ENDED if is_gone else Ownership.UNKNOWN

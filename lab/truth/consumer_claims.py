"""Compares the history of a log that was cleaned, or that has a hole, with the history of the whole log.

A log cleaner leaves the newest record of each key; a hole leaves nothing. In both cases the history knows less and says
so. What it still claims has to agree with the history of the whole log. `looks` are offsets at which an operation of
the coordinator had ended, so that no operation is cut in two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage
from lab.truth.consumer_groups import History

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.transforms.history.rules.events import Event
    from lab.truth.consumer_groups import Table

    Keyed = tuple[tuple[Any, ...], bool, Event]
    """A record's key, whether it is a tombstone, and its event."""

CLAIMED = ("changes", "inferred_trigger", "partitions_kept", "partitions_moved", "partitions_gained", "partitions_lost")


def cleaned(log: Sequence[Keyed], begin: int) -> list[Keyed]:
    """Returns the log after a cleaner has cleaned everything below the offset `begin`: there only the newest record of
    each key is left, and no tombstone."""
    newest = {key: (key, is_tombstone, event) for key, is_tombstone, event in log if offset_of(event) < begin}
    kept = (each for each in newest.values() if not each[1])
    return [*sorted(kept, key=lambda each: offset_of(each[2])), *(each for each in log if offset_of(each[2]) >= begin)]


def false_claims_of_cleaned(group_id: str, log: Sequence[Keyed], looks: Iterable[int], begin: int) -> Iterator[str]:
    """Yields a sentence for each false claim that the history of a log cleaned below `begin` makes about the part from
    `begin` on. In that part it has to know all owners."""
    marks = [Coverage(0, Completeness.COMPACTED), Coverage(begin, Completeness.COMPLETE)]
    found, truth = _tables(group_id, cleaned(log, begin), marks), _tables(group_id, log)
    yield from _false_rebalances(f"cleaned below {begin}", found, truth)
    for look in looks:
        if look >= begin and owners_at(found["assignments"], look) != owners_at(truth["assignments"], look):
            yield f"cleaned below {begin}: other owners at {look}"
        if look >= begin and held_at(found, look) != held_at(truth, look):
            yield f"cleaned below {begin}: other holdings at {look}"


def false_claims_of_holed(
    group_id: str, log: Sequence[Keyed], looks: Iterable[int], hole: tuple[int, int]
) -> Iterator[str]:
    """Yields a sentence for each false claim that the history of a log with a hole makes about the part after the hole.
    It may know less there than the history of the whole log."""
    begin, end = hole
    words = ((0, Completeness.COMPLETE), (begin, Completeness.UNKNOWN), (end, Completeness.COMPLETE))
    marks = [Coverage(offset, completeness) for offset, completeness in words[begin == 0 :]]
    found = _tables(group_id, [each for each in log if not begin <= offset_of(each[2]) < end], marks)
    truth = _tables(group_id, log)
    yield from _false_rebalances(f"hole {hole}", found, truth)
    for look in looks:
        if look < end:
            continue
        holdings, true_holdings = held_at(found, look), held_at(truth, look)
        if not holdings <= true_holdings:
            yield f"hole {hole}: other holdings at {look}: {sorted(holdings - true_holdings)}"
        owners, true = owners_at(found["assignments"], look), owners_at(truth["assignments"], look)
        if not owners.items() <= true.items() or (owners != true and _is_ownership_known(found["generations"], look)):
            yield f"hole {hole}: other owners at {look}: {sorted(owners.items() ^ true.items())}"


def _tables(group_id: str, log: Iterable[Keyed], marks: Sequence[Coverage] | None = None) -> dict[str, Table]:
    history = History(group_id) if marks is None else History(group_id, marks)
    history.fold(event for _, _, event in log)
    return history.tables


def offset_of(event: Event) -> int:
    return event.from_offset if isinstance(event, Coverage) else event.last_kafka_offset


def _false_rebalances(where: str, found: Mapping[str, Table], truth: Mapping[str, Table]) -> Iterator[str]:
    """Yields the rebalances that the history has in full but wrong, and epochs that converged otherwise."""
    true_rebalances = {row["kafka_offset"]: row for row in truth["rebalances"].values()}
    for row in found["rebalances"].values():
        true = true_rebalances.get(row["kafka_offset"])
        for name in () if row["is_hole"] else CLAIMED:
            is_silent = row[name] is None
            if not is_silent and (true is None or row[name] != true[name]):
                yield f"{where}: epoch {row['to_generation']} has {name} {row[name]}, and not {true and true[name]}"
    converged = {row["kafka_offset"]: row["converged_at"] for row in truth["generations"].values()}
    for row in found["generations"].values():
        if row["converged_at"] is not None and row["converged_at"] != converged.get(row["kafka_offset"]):
            yield f"{where}: epoch {row['generation']} has converged at another time"


def owners_at(assignments: Table, offset: int) -> dict[tuple[str, int], tuple[str, ...]]:
    """Returns the owners of each partition just before an offset."""
    return {
        (row["topic"], row["partition"]): (row["member_id"], *row["other_member_ids"])
        for row in assignments.values()
        if row["from_offset"] < offset and (row["to_offset"] is None or offset <= row["to_offset"])
    }


def held_at(tables: Mapping[str, Table], offset: int) -> set[tuple[Any, ...]]:
    """Returns the partitions or tasks that the members of a share or streams group held just before an offset."""
    names = ("member_id", "topic", "subtopology", "partition", "role")
    return {
        tuple(row.get(name) for name in names)
        for table in ("share_assignments", "stream_tasks")
        for row in tables[table].values()
        if row["from_offset"] < offset and (row["to_offset"] is None or offset <= row["to_offset"])
    }


def _is_ownership_known(generations: Table, offset: int) -> bool:
    in_force = (
        row
        for row in generations.values()
        if row["kafka_offset"] < offset and (row["to_offset"] is None or offset <= row["to_offset"])
    )
    return any(row["is_ownership_known"] for row in in_force)

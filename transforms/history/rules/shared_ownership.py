"""Joins the intervals of a share group's members into one sequence for each partition, in the form of `assignments`.

`share_assignments` has an interval for each member. Here a partition's intervals follow each other, and each names all
members that had the partition then, so that questions about owners are answered for share groups as for all others.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Row = Mapping[str, Any]


def shared_ownership(holdings: Iterable[Row]) -> list[dict[str, Any]]:
    """Returns rows of `share_assignments` as rows of `assignments`."""
    by_place: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in holdings:
        by_place[row["group_id"], row["incarnation"], row["topic"], row["partition"]].append(row)
    return [interval for place in sorted(by_place) for interval in _intervals(by_place[place])]


def _intervals(holdings: list[Row]) -> Iterator[dict[str, Any]]:
    """Yields an interval from each offset at which a member came or went to the next, as long as anybody is there."""
    turns: dict[int, tuple[Any, int | None, bool]] = {}
    for row in holdings:
        turns.setdefault(row["from_offset"], (row["valid_from"], row["from_generation"], row["is_start_known"]))
        if row["to_offset"] is not None:
            turns.setdefault(row["to_offset"], (row["valid_to"], row["to_generation"], row["is_end_known"]))
    offsets = sorted(turns)
    for begin, end in zip(offsets, [*offsets[1:], None], strict=True):
        present = [row for row in holdings if row["from_offset"] <= begin and _continues_after(row, begin)]
        if present:
            first, *others = sorted(present, key=lambda row: str(row["member_id"]))
            from_time, from_generation, is_start_known = turns[begin]
            to_time, to_generation, is_end_known = (None, None, None) if end is None else turns[end]
            yield {
                **{name: first[name] for name in ("group_id", "incarnation", "topic", "partition", "member_id")},
                "other_member_ids": [row["member_id"] for row in others],
                "group_instance_id": None,
                "client_id": first["client_id"],
                "from_offset": begin,
                "to_offset": end,
                "from_generation": from_generation,
                "to_generation": to_generation,
                "valid_from": from_time,
                "valid_to": to_time,
                "is_start_known": is_start_known,
                "is_end_known": is_end_known,
            }


def _continues_after(row: Row, offset: int) -> bool:
    return row["to_offset"] is None or bool(row["to_offset"] > offset)

"""Builds the timeline of one group from its rows, with an entry for each record that changed something.

The members that came and went are in the tenures of `members`, and the partitions that moved in the intervals of
`assignments`; both are found by the offset of the record. The other changes, the trigger and the pauses are in
`rebalances`. If a hole lies before a record, its entry states only the generations, and the members that were not seen
before.

In a KIP-848 group these facts lie around the record of the epoch. The records before it have the members that came and
went, with the partitions that they had then. The records after it, up to the next epoch, have what else moved. Who had
to wait for whom is in `member_epochs`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.changes import CHANGE_KINDS, GROUP_STARTED
from groupledger.schemas.words import EndedBy, GroupType, TimelineEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Row = Mapping[str, Any]
    Entry = dict[str, Any]

REBALANCE_COLUMNS = (
    "from_generation",
    "is_hole",
    "hole_cause",
    "protocol_kind",
    "caused_by_generation",
    *("trigger", "trigger_at", "trigger_reason", "trigger_client_reason", "trigger_is_certain"),
    "inferred_trigger",
    "inferred_trigger_confidence",
    "inferred_trigger_explanation",
    "members_idle",
    "partitions_kept",
    "partitions_moved",
    "partitions_gained",
    "partitions_lost",
    "pause_scope",
    "pause_lower_ms",
    "pause_upper_ms",
)
# The event at the end of a generation that no other generation of its incarnation follows.
ENDINGS = {
    EndedBy.TOMBSTONE: TimelineEvent.GROUP_DELETED,
    EndedBy.UPGRADE: TimelineEvent.UPGRADED,
    EndedBy.DOWNGRADE: TimelineEvent.DOWNGRADED,
    EndedBy.HOLE: TimelineEvent.NOT_COVERED,
    EndedBy.GENERATION_DECREASE: TimelineEvent.GENERATION_DECREASED,
}
_REPLACEMENTS = {kind.name for kind in CHANGE_KINDS if kind.is_replacement}
_KNOWN_FROM_MEMBERS = {kind.name for kind in CHANGE_KINDS if kind.is_known_from_members}


def timeline(
    generations: Iterable[Row],
    rebalances: Iterable[Row],
    members: Sequence[Row],
    assignments: Iterable[Row],
    steps: Iterable[Row] = (),
) -> list[Entry]:
    """Returns the entries of the timeline, in the order of the log. All rows are of one group; `steps` are rows of
    `member_epochs`. `assignments` may lack intervals that ended before the first of `generations`."""
    by_generation = {(row["incarnation"], row["to_generation"]): row for row in rebalances}
    ordered = sorted(generations, key=itemgetter("kafka_offset"))
    places = _Epochs(ordered)
    joined = _by_offset(members, "from_offset", places.caused_by)
    left = _by_offset(members, "to_offset", places.caused_by)
    departures = {(row["member_id"], row["left_at"]) for row in members}

    def end_of(row: Row) -> int | None:
        offset: int | None = row["to_offset"]
        return places.caused_by(offset) if (row["member_id"], row["valid_to"]) in departures else offset

    moves = _at_epochs(moves_by_offset(assignments, end_of), places)
    waits = waits_by_epoch(steps)
    entries: list[Entry] = []
    for row in ordered:
        offset = row["kafka_offset"]
        rebalance = None if row["revision"] else by_generation.get((row["incarnation"], row["generation"]))
        changes = (row["changes"] if rebalance is None else rebalance["changes"]) or []
        is_hole = rebalance is not None and rebalance["is_hole"]
        # The members of an epoch that only repeats its number were there before.
        is_turnover = not (row["revision"] and _is_epoch(row))
        entries.append(
            {
                **_place(row, offset, row["started_at"], _event(row, rebalance)),
                **{name: row[name] for name in ("revision", "protocol_type", "protocol", "leader", "member_count")},
                "generation_gap": row["generation_gap"],
                "finding": row["finding"],
                **_turnover(joined[offset] if is_turnover else (), left[offset] if is_turnover else (), changes),
                "other_changes": [each for each in changes if each["kind"] not in _KNOWN_FROM_MEMBERS | _REPLACEMENTS],
                "moves": [] if is_hole else moves[offset],
                "targeted_at": row.get("targeted_at"),
                "converged_at": row.get("converged_at"),
                "waited_for": waits.get((row["incarnation"], row["generation"]), []) if _is_epoch(row) else [],
                **{name: rebalance and rebalance.get(name) for name in REBALANCE_COLUMNS},
            }
        )
        if row["ended_by"] in ENDINGS:
            is_decrease = row["ended_by"] == EndedBy.GENERATION_DECREASE
            gone = {} if is_decrease else _turnover([], left[row["to_offset"]], [])
            entries.append({**_place(row, row["to_offset"], row["ended_at"], ENDINGS[row["ended_by"]]), **gone})
    return entries


class _Epochs:
    """Finds the record of a generation that another record of its group belongs to."""

    def __init__(self, ordered: Sequence[Row]) -> None:
        self._offsets = [row["kafka_offset"] for row in ordered]
        self._are_epochs = [_is_epoch(row) for row in ordered]
        self._ends = {row["to_offset"] for row in ordered if row["ended_by"] in ENDINGS}

    def caused_by(self, offset: int | None) -> int | None:
        """Returns the offset of the epoch that a record before it is the cause of; else the record's own."""
        if offset is None or offset in self._ends:
            return offset
        place = bisect_left(self._offsets, offset)
        return self._offsets[place] if place < len(self._offsets) and self._are_epochs[place] else offset

    def followed_by(self, offset: int | None) -> int | None:
        """Returns the offset of the epoch that a record after it follows from; else the record's own."""
        place = bisect_right(self._offsets, offset) - 1 if offset is not None else -1
        return self._offsets[place] if place >= 0 and self._are_epochs[place] else offset


def _is_epoch(row: Row) -> bool:
    return row.get("group_type") not in (None, GroupType.CLASSIC)


def _at_epochs(moves: Mapping[int | None, list[Entry]], places: _Epochs) -> defaultdict[int | None, list[Entry]]:
    """Returns the moves by the record that they follow from. A partition that is released and taken in one epoch has
    moved once."""
    by_unit: defaultdict[int | None, dict[tuple[str, int], Entry]] = defaultdict(dict)
    for offset, of_record in sorted(moves.items(), key=lambda each: -1 if each[0] is None else each[0]):
        of_epoch = by_unit[places.followed_by(offset)]
        for move in of_record:
            first = of_epoch.setdefault((move["topic"], move["partition"]), move)
            of_epoch[move["topic"], move["partition"]] = move | {"from_member_id": first["from_member_id"]}
    return defaultdict(list, {offset: list(units.values()) for offset, units in by_unit.items()})


def waits_by_epoch(steps: Iterable[Row]) -> dict[tuple[int, int], list[Entry]]:
    """Returns, by incarnation and epoch, the members that others waited for. Each entry has the partitions that the
    member held back, and `waited_ms`: the longest time from a target to the end of a step that waited for the member;
    None if a step still waits."""
    waits: defaultdict[tuple[int, int], dict[str | None, Entry]] = defaultdict(dict)
    for step in sorted(steps, key=itemgetter("from_offset")):
        for wait in step["waits_for"] or ():
            of_epoch = waits[step["incarnation"], step["member_epoch"]]
            one = of_epoch.setdefault(
                wait["held_by"], {"held_by": wait["held_by"], "partitions": set(), "waited_ms": 0}
            )
            one["partitions"].add((wait["topic"], wait["partition"]))
            is_over = step["valid_to"] is not None and step["targeted_at"] is not None
            waited_ms = (step["valid_to"] - step["targeted_at"]) // timedelta(milliseconds=1) if is_over else None
            one["waited_ms"] = (
                None if waited_ms is None or one["waited_ms"] is None else max(one["waited_ms"], waited_ms)
            )
    return {
        epoch: [{**one, "partitions": sorted(one["partitions"])} for one in of_epoch.values()]
        for epoch, of_epoch in waits.items()
    }


def _by_offset(
    rows: Iterable[Row], column: str, place: Callable[[int | None], int | None]
) -> defaultdict[int | None, list[Row]]:
    found = defaultdict(list)
    for row in sorted(rows, key=itemgetter("member_id")):
        found[place(row[column])].append(row)
    return found


def _place(row: Row, offset: int, at: Any, event: str) -> Entry:
    return {
        "at": at,
        "kafka_offset": offset,
        "event": event,
        "incarnation": row["incarnation"],
        "generation": row["generation"],
    }


def _event(row: Row, rebalance: Row | None) -> str:
    if row["revision"]:
        return TimelineEvent.REVISION
    if rebalance is None:
        return TimelineEvent.GROUP_STARTED if row["is_start_known"] else TimelineEvent.FIRST_SEEN
    kinds = {change["kind"] for change in rebalance["changes"] or ()}
    return TimelineEvent.GROUP_STARTED if GROUP_STARTED.name in kinds else TimelineEvent.REBALANCE


def _turnover(joined: Iterable[Row], left: Iterable[Row], changes: Iterable[Row]) -> Entry:
    replaced = [change for change in changes if change["kind"] in _REPLACEMENTS]
    came = {change["member_id"] for change in replaced}
    went = {change["previous_member_id"] for change in replaced}
    who = ("member_id", "client_id", "client_host", "group_instance_id")
    how = ("leave_cause", "leave_cause_confidence")
    return {
        "joined": [{name: row[name] for name in who} for row in joined if row["member_id"] not in came],
        "left": [{name: row[name] for name in (*who, *how)} for row in left if row["member_id"] not in went],
        "replaced": [
            {name: change[name] for name in ("kind", "member_id", "previous_member_id", "group_instance_id")}
            for change in replaced
        ],
    }


def moves_by_offset(
    assignments: Iterable[Row], end_of: Callable[[Row], int | None] = itemgetter("to_offset")
) -> defaultdict[int | None, list[Entry]]:
    """Returns, by the offset of a record, which partitions changed hands there. A move goes from the last owner to the
    next, even if nobody owned the partition in between. `end_of(row)` gives the offset of the record at which an
    interval ended."""
    moves = defaultdict(list)
    last: dict[tuple[Any, ...], Row] = {}
    for row in sorted(assignments, key=itemgetter("from_offset", "topic", "partition")):
        place = (row["incarnation"], row["topic"], row["partition"])
        before = last.get(place)
        if before is None or before["member_id"] != row["member_id"]:
            owner_before = None if before is None else before["member_id"]
            moves[row["from_offset"]].append(_move(row, owner_before, row["member_id"]))
        if before is not None and before["to_offset"] != row["from_offset"]:
            moves[end_of(before)].append(_move(before, before["member_id"], None))
        last[place] = row
    for row in last.values():
        if row["to_offset"] is not None:
            moves[end_of(row)].append(_move(row, row["member_id"], None))
    return moves


def _move(row: Row, from_member: str | None, to_member: str | None) -> Entry:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "from_member_id": from_member,
        "to_member_id": to_member,
    }

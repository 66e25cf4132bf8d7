"""Builds the timeline of one classic group from its rows, with an entry for each record that changed something.

Who came and went is in the tenures of `members`, and what moved in the intervals of `assignments`, both found by the
offset of the record; the other changes, the trigger and the pauses are in `rebalances`. Over a hole an entry states
only the generations, and the members of the record that were not seen before.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kinds.changes import CHANGE_KINDS, GROUP_STARTED
from groupledger.schemas.words import EndedBy, TimelineEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
_TOLD_BY_MEMBERS = {kind.name for kind in CHANGE_KINDS if kind.is_told_by_members}


def timeline(
    generations: Iterable[Row], rebalances: Iterable[Row], members: Sequence[Row], assignments: Iterable[Row]
) -> list[Entry]:
    """Returns the entries in the order of the log. All rows are of one group; `assignments` may begin later."""
    by_generation = {(row["incarnation"], row["to_generation"]): row for row in rebalances}
    joined, left = _by_offset(members, "from_offset"), _by_offset(members, "to_offset")
    moves = moves_by_offset(assignments)
    entries: list[Entry] = []
    for row in sorted(generations, key=itemgetter("kafka_offset")):
        offset = row["kafka_offset"]
        rebalance = None if row["revision"] else by_generation.get((row["incarnation"], row["generation"]))
        changes = (row["changes"] if rebalance is None else rebalance["changes"]) or []
        is_hole = rebalance is not None and rebalance["is_hole"]
        entries.append(
            {
                **_place(row, offset, row["started_at"], _event(row, rebalance)),
                **{name: row[name] for name in ("revision", "protocol_type", "protocol", "leader", "member_count")},
                "generation_gap": row["generation_gap"],
                "finding": row["finding"],
                **_turnover(joined[offset], left[offset], changes),
                "other_changes": [each for each in changes if each["kind"] not in _TOLD_BY_MEMBERS | _REPLACEMENTS],
                "moves": [] if is_hole else moves[offset],
                **{name: rebalance and rebalance.get(name) for name in REBALANCE_COLUMNS},
            }
        )
        if row["ended_by"] in ENDINGS:
            is_decrease = row["ended_by"] == EndedBy.GENERATION_DECREASE
            gone = {} if is_decrease else _turnover([], left[row["to_offset"]], [])
            entries.append({**_place(row, row["to_offset"], row["ended_at"], ENDINGS[row["ended_by"]]), **gone})
    return entries


def _by_offset(rows: Iterable[Row], column: str) -> defaultdict[int | None, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[row[column]].append(row)
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


def moves_by_offset(assignments: Iterable[Row]) -> defaultdict[int | None, list[Entry]]:
    """Returns which partitions changed hands at each record, from the last owner to the next, even if nobody owned them
    in between."""
    moves = defaultdict(list)
    last: dict[tuple[Any, ...], Row] = {}
    for row in sorted(assignments, key=itemgetter("from_offset")):
        place = (row["incarnation"], row["topic"], row["partition"])
        before = last.get(place)
        if before is None or before["member_id"] != row["member_id"]:
            owner_before = None if before is None else before["member_id"]
            moves[row["from_offset"]].append(_move(row, owner_before, row["member_id"]))
        if before is not None and before["to_offset"] != row["from_offset"]:
            moves[before["to_offset"]].append(_move(before, before["member_id"], None))
        last[place] = row
    for row in last.values():
        if row["to_offset"] is not None:
            moves[row["to_offset"]].append(_move(row, row["member_id"], None))
    return moves


def _move(row: Row, from_member: str | None, to_member: str | None) -> Entry:
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        "from_member_id": from_member,
        "to_member_id": to_member,
    }

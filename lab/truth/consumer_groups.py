"""Folds records of KIP-848 groups that were read from a broker, and compares the rows with the broker's
descriptions."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness, MemberState
from groupledger.transforms.history.rules.content import content_of
from groupledger.transforms.history.rules.events import Coverage, GroupTombstone, OtherGroupType, group_record
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.history.rules.modern_records import AWAY
from groupledger.transforms.records.decoded_record import record_json
from lab.truth.histories import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.transforms.history.rules.events import Event

CLASSIC = "group_metadata"

Table = dict[tuple[Any, ...], dict[str, Any]]


def event_of(
    place: tuple[int, int], record_type: str, fields: Mapping[str, Any], names: Mapping[str, str], *, is_tombstone: bool
) -> Event:
    """Returns the event that the fold takes for a record. `place` is the record's offset and time in milliseconds,
    `fields` are those of `record_json`, and `names` has topic names by topic id."""
    if record_type == CLASSIC:
        return GroupTombstone(*place) if is_tombstone else group_record(*place, record_json(fields))
    group_type = record_type.partition("_group_")[0]
    is_epoch = record_type == f"{group_type}_group_metadata"
    return OtherGroupType(
        *place,
        group_type,
        fields["epoch"] if is_epoch and not is_tombstone else None,
        is_epoch and is_tombstone,
        is_tombstone,
        content_of(record_type, fields, names, is_tombstone=is_tombstone),
    )


def event_of_line(record: Mapping[str, Any], names: Mapping[str, str]) -> Event:
    """Returns the event that the fold takes for a record in the form of `lab.kafka.consumer_protocol_log`."""
    place = record["kafka_offset"], record["after_ms"]
    fields = record["key"] | (record["value"] or {})
    return event_of(place, record["record_type"], fields, names, is_tombstone=record["value"] is None)


class History:
    """Folds one group batch by batch, and has in `tables` its rows, by table and key."""

    def __init__(self, group_id: str, marks: Sequence[Coverage] = (Coverage(0, Completeness.COMPLETE),)) -> None:
        self.tables: dict[str, Table] = {name: {} for name in KEYS}
        self._group_id, self._marks = group_id, marks
        self._state: str | None = None

    def fold(self, events: Iterable[Event]) -> None:
        events = sorted(
            [*self._marks, *events],
            key=lambda each: (each.from_offset, 0) if isinstance(each, Coverage) else (each.last_kafka_offset, 1),
        )
        folded = fold(self._group_id, 0, self._state, events)
        self._state = folded.open_group["state"]
        for name, rows in folded.rows.items():
            self.tables[name] |= {tuple(row[column] for column in KEYS[name]): row for row in rows}


def as_described(tables: Mapping[str, Table], *, counts_pending: bool = False) -> dict[str, Any]:
    """Returns the present state of a group by its rows, in the form of `comparable_description`. A member without an
    assignment has the epoch 0. If `counts_pending` is true, partitions that the member has to give up count as
    assigned, as in descriptions of a broker since 4.3."""
    (generation,) = (row for row in tables["generations"].values() if row["is_current"])
    steps = {row["member_id"]: row for row in tables["member_epochs"].values() if row["valid_to"] is None}
    owned: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(tables["assignments"].values(), key=itemgetter("topic", "partition")):
        for member_id in (row["member_id"], *row["other_member_ids"]) if row["valid_to"] is None else ():
            owned.setdefault(member_id, []).append(row)
    members = []
    for row in tables["members"].values():
        step = steps.get(row["member_id"])
        if row["left_at"] is None:
            members.append(
                {
                    "member_id": row["member_id"],
                    "instance_id": row["group_instance_id"],
                    "client_id": row["client_id"],
                    "member_epoch": 0 if step is None else step["member_epoch"],
                    "assigned": {} if step is None else _assigned(step, counts_pending=counts_pending),
                    "owned": {}
                    if step is None
                    else _kept(owned.get(row["member_id"], []), step, counts_pending=counts_pending),
                }
            )
    return {
        "epoch": generation["generation"],
        "is_targeted": generation["targeted_at"] is not None,
        "members": sorted(members, key=itemgetter("member_id")),
    }


def comparable_description(said: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of a broker's description (`lab.kafka.consumer_protocol_log.described_group`) that can be
    compared with rows. The members' targets are left out, since they change without a record of the member."""
    members = [
        {
            **{name: member[name] for name in member if name != "target"},
            "owned": {} if member["member_epoch"] == AWAY else member["assigned"],
        }
        for member in said["members"]
    ]
    return {
        "epoch": said["epoch"],
        "is_targeted": said["assignment_epoch"] == said["epoch"],
        "members": sorted(members, key=itemgetter("member_id")),
    }


def is_stable(said: Mapping[str, Any]) -> bool | None:
    """Returns whether the broker calls the group stable. Returns None for an empty group, and for one with a static
    member that is away, because their state says nothing about convergence."""
    if not said["members"] or any(member["member_epoch"] == AWAY for member in said["members"]):
        return None
    return bool(said["state"] == "Stable")


def wrong_state(tables: Mapping[str, Table], said: Mapping[str, Any]) -> bool:
    """Returns whether the rows contradict the state in the broker's description. If the group is stable, its generation
    must have converged. A generation that has converged may be unstable again, while a member subscribes to a regular
    expression that is not resolved yet."""
    (generation,) = (row for row in tables["generations"].values() if row["is_current"])
    stable = is_stable(said)
    if stable is None:
        return False
    steps = [row for row in tables["member_epochs"].values() if row["valid_to"] is None]
    are_stable = [
        step["state"] == MemberState.STABLE and step["member_epoch"] == generation["generation"] for step in steps
    ]
    is_settled = len(steps) == len(said["members"]) and all(are_stable) and generation["targeted_at"] is not None
    return stable != is_settled or (stable and generation["converged_at"] is None)


def _assigned(step: Mapping[str, Any], *, counts_pending: bool) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in (*step["assigned"], *(step["pending_revocation"] if counts_pending else ())):
        found[each["topic"]] = sorted([*found.get(each["topic"], ()), *each["partitions"]])
    return found


def _kept(
    intervals: Iterable[Mapping[str, Any]], step: Mapping[str, Any], *, counts_pending: bool
) -> dict[str, list[int]]:
    """Returns a member's partitions, without those it has to give up if the broker does not report them."""
    pending = {(each["topic"], number) for each in step["pending_revocation"] for number in each["partitions"]}
    found: dict[str, list[int]] = {}
    for row in intervals:
        if counts_pending or (row["topic"], row["partition"]) not in pending:
            found.setdefault(row["topic"], []).append(row["partition"])
    return found

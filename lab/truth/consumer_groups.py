"""Folds records of KIP-848 groups as they were read from a broker, and compares the rows with what the broker says."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import Completeness, GroupType
from groupledger.transforms.history.rules import Coverage, GroupTombstone, OtherGroupType, fold, group_record
from groupledger.transforms.history.rules.consumer_records import AWAY, consumer_content
from lab.truth.histories import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.transforms.history.rules import Event

CLASSIC, EPOCH = "group_metadata", "consumer_group_metadata"

Table = dict[tuple[Any, ...], dict[str, Any]]


def event_of(
    place: tuple[int, int],
    record_type: str,
    key: Mapping[str, Any],
    value: Mapping[str, Any] | None,
    names: Mapping[str, str],
) -> Event:
    """Returns what the fold is told of a record: `place` is its offset and time, `names` are those of topics by id."""
    is_gone = value is None
    if record_type == CLASSIC:
        return GroupTombstone(*place) if is_gone else group_record(*place, json.dumps(value))
    is_epoch = record_type == EPOCH
    content = consumer_content(record_type, {**key, **(value or {})}, names, is_tombstone=is_gone)
    epoch = value["epoch"] if is_epoch and value is not None else None
    return OtherGroupType(*place, GroupType.CONSUMER, epoch, is_epoch and is_gone, is_gone, content)


class History:
    """The rows of one group, by table and key, as batch after batch is folded."""

    def __init__(self, group_id: str, marks: Sequence[Coverage] = (Coverage(0, Completeness.COMPLETE),)) -> None:
        self.tables: dict[str, Table] = {name: {} for name in KEYS}
        self._group_id, self._marks = group_id, marks
        self._state: str | None = None

    def fold(self, events: Iterable[Event]) -> None:
        told = sorted(
            [*self._marks, *events],
            key=lambda each: (each.from_offset, 0) if isinstance(each, Coverage) else (each.last_kafka_offset, 1),
        )
        folded = fold(self._group_id, 0, self._state, told)
        self._state = folded.open_group["state"]
        for name, rows in folded.rows.items():
            self.tables[name] |= {tuple(row[column] for column in KEYS[name]): row for row in rows}


def as_described(tables: Mapping[str, Table]) -> dict[str, Any]:
    """Returns the open rows in the form of `as_told`. A member without an assignment has the epoch 0."""
    (generation,) = (row for row in tables["generations"].values() if row["is_current"])
    steps = {row["member_id"]: row for row in tables["member_epochs"].values() if row["valid_to"] is None}
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
                    "assigned": {} if step is None else _by_topic(step["assigned"]),
                }
            )
    return {
        "epoch": generation["generation"],
        "is_targeted": generation["targeted_at"] is not None,
        "members": sorted(members, key=itemgetter("member_id")),
    }


def as_told(said: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is compared of a broker's answer (`lab.kafka.consumer_protocol_log.told`). What a member is to own
    is left out, since it changes without a step of the member."""
    members = [{name: member[name] for name in member if name != "target"} for member in said["members"]]
    return {
        "epoch": said["epoch"],
        "is_targeted": said["assignment_epoch"] == said["epoch"],
        "members": sorted(members, key=itemgetter("member_id")),
    }


def is_stable(said: Mapping[str, Any]) -> bool | None:
    """Returns whether the broker calls the group stable; None where that says something else than convergence: of an
    empty group, and of one with a member that is away."""
    if not said["members"] or any(member["member_epoch"] == AWAY for member in said["members"]):
        return None
    return bool(said["state"] == "Stable")


def _by_topic(units: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
    return {each["topic"]: each["partitions"] for each in units}

"""Parses and holds scripts: the events of the members and topics of a group, the same for every protocol.

A script says when members join, leave in order, crash or pause (a long garbage collection: nothing runs, not even a
thread for heartbeats), when they are slow (the application works on one batch, while the client's threads continue),
and when a topic grows. All members of `members_at_start` join at 0 ms. Costs are measured from the first event on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELDS: Final = frozenset({"topics", "members", "events", "until_ms", "records_per_second"})
ACTIONS: Final = {
    "join": frozenset({"member"}),
    "leave": frozenset({"member"}),
    "crash": frozenset({"member"}),
    "pause": frozenset({"member", "for_ms"}),
    "slow": frozenset({"member", "for_ms"}),
    "grow": frozenset({"topic", "partitions"}),
}


class ScriptError(ValueError):
    """A script can't be played. The message is one sentence with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at_ms: int
    action: str
    member: str = ""
    for_ms: int = 0
    topic: str = ""
    partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    name: str
    topics: tuple[tuple[str, int], ...]
    members_at_start: tuple[str, ...]
    events: tuple[Event, ...]
    until_ms: int
    records_per_second: int = 10

    @property
    def from_ms(self) -> int:
        """Returns the time of the first event, at which measuring begins."""
        return min(event.at_ms for event in self.events)


def script_of(name: str, given: Mapping[str, Any]) -> Script:
    """Returns the script that `given` describes, a mapping with the fields of a script file. Raises ScriptError if they
    are wrong."""
    strange = given.keys() - FIELDS
    if strange:
        raise ScriptError(
            f"The script {name} has the unknown field {min(strange)!r}: give only {', '.join(sorted(FIELDS))}."
        )
    counts, happens = given.get("topics"), given.get("events")
    if not isinstance(counts, dict) or not counts or not isinstance(happens, list) or not happens:
        raise ScriptError(f"The script {name} needs topics with their partitions, and a list of events: add them.")
    topics = tuple((str(topic), _count(count, f"the partitions of {topic}")) for topic, count in counts.items())
    members = given.get("members", 0)
    at_start = tuple(map(str, members)) if isinstance(members, list) else member_names(_count(members, "members"))
    events = tuple(sorted(map(_event, happens), key=lambda event: event.at_ms))
    until_ms = _count(given.get("until_ms", events[-1].at_ms + 600_000), "until_ms")
    if until_ms <= events[-1].at_ms:
        raise ScriptError(f"The script {name} ends before its last event: raise until_ms.")
    rate = _count(given.get("records_per_second", 10), "records_per_second")
    script = Script(
        name=name, topics=topics, members_at_start=at_start, events=events, until_ms=until_ms, records_per_second=rate
    )
    _check_members(script)
    return script


def member_names(count: int) -> tuple[str, ...]:
    """Returns the names m01, m02 and so on, with enough digits that they sort as their numbers do."""
    width = max(2, len(str(count)))
    return tuple(f"m{number:0{width}}" for number in range(1, count + 1))


def _event(given: object) -> Event:
    if not isinstance(given, dict):
        raise ScriptError(f"The event {given!r} has no fields: give at_ms and do.")
    action = given.get("do")
    if action not in ACTIONS:
        raise ScriptError(f"An event can't do {action!r}: give one of {', '.join(ACTIONS)}.")
    wanted = ACTIONS[action] | {"do", "at_ms"}
    if given.keys() != wanted:
        raise ScriptError(f"An event that does {action} needs just the fields {', '.join(sorted(wanted))}.")
    return Event(
        at_ms=_count(given["at_ms"], "at_ms"),
        action=action,
        member=str(given.get("member", "")),
        for_ms=_count(given.get("for_ms", 0), "for_ms"),
        topic=str(given.get("topic", "")),
        partitions=_count(given.get("partitions", 0), "partitions"),
    )


def _check_members(script: Script) -> None:
    """Raises ScriptError for an invalid name, for a join of a present member, and for an event of an absent one."""
    there = dict.fromkeys(script.members_at_start)
    strange = [name for name in [*there, *(event.member for event in script.events)] if "#" in name]
    if strange:
        raise ScriptError(f"{strange[0]} has a # in it: give the member another name.")
    topics = dict(script.topics)
    for event in script.events:
        if event.action == "grow":
            if event.partitions <= topics.get(event.topic, event.partitions):
                raise ScriptError(f"The topic {event.topic} can only grow: give it more partitions, or declare it.")
            topics[event.topic] = event.partitions
        elif (event.action == "join") == (event.member in there):
            is_what = "is there already" if event.member in there else "is not there"
            raise ScriptError(f"At {event.at_ms} ms {event.member} {is_what}: change its {event.action}.")
        elif event.action == "join":
            there[event.member] = None
        elif event.action in ("leave", "crash"):
            del there[event.member]


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ScriptError(f"{what} must be a whole number from 0 on.")
    return value


def _rolling_deploy() -> dict[str, Any]:
    stops = [(60_000 + 40_000 * number, name) for number, name in enumerate(member_names(10))]
    events = [
        event
        for at_ms, name in stops
        for event in (
            {"at_ms": at_ms, "do": "leave", "member": name},
            {"at_ms": at_ms + 12_000, "do": "join", "member": name},
        )
    ]
    return {"topics": {"orders": 30}, "members": 10, "events": events, "until_ms": 1_200_000}


def _scale_out() -> dict[str, Any]:
    joins = [
        {"at_ms": 60_000 + 400 * number, "do": "join", "member": name}
        for number, name in enumerate(member_names(30)[3:])
    ]
    return {"topics": {"orders": 60}, "members": 3, "events": joins, "until_ms": 600_000}


SCRIPTS: Final[dict[str, Script]] = {
    name: script_of(name, given)
    for name, given in {
        "rolling-deploy": _rolling_deploy(),
        "crash": {
            "topics": {"orders": 30},
            "members": 10,
            "events": [{"at_ms": 62_500, "do": "crash", "member": "m04"}],
            "until_ms": 600_000,
        },
        "long-gc": {
            "topics": {"orders": 30},
            "members": 10,
            "events": [{"at_ms": 62_500, "do": "pause", "member": "m04", "for_ms": 50_000}],
            "until_ms": 600_000,
        },
        "slow-batch": {
            "topics": {"orders": 30},
            "members": 10,
            "events": [
                {"at_ms": 62_500, "do": "slow", "member": "m04", "for_ms": 40_000},
                {"at_ms": 70_000, "do": "join", "member": "m11"},
            ],
            "until_ms": 600_000,
        },
        "scale-out": _scale_out(),
        "topic-grows": {
            "topics": {"orders": 30},
            "members": 10,
            "events": [{"at_ms": 60_000, "do": "grow", "topic": "orders", "partitions": 40}],
            "until_ms": 900_000,
        },
    }.items()
}

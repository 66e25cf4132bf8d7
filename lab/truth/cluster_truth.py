"""Knows what was true while a cluster was broken: what was done, what clients reported, and what brokers answered.
Pure.

Times are milliseconds since the epoch, by the clock of one machine. A place is a topic and a partition.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import GroupType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]
    Place = tuple[str, int]

QUIET_MS = 3_000
"""What a client was given or gave up so near to an instant may not be in the log yet, or was there before."""
DESCRIBED_MS = 15_000
"""A coordinator describes what it has written as soon as all replicas in sync have it, after a frozen one is out of
sync."""
UNDESCRIBED_MS = 10_000
"""Between two answers further apart than a session lasts, a coordinator may have given a partition away and back."""
AFTER_FAULT_MS = 90_000
BROKER_FAULTS = ("kill_broker", "freeze_broker")
MOVES = ("move_leaders", "elect_leaders")
WITHOUT_REPORTS = (GroupType.SHARE, GroupType.STREAMS)
"""Clients of these types of groups do not report what they are given."""
OF_A_THREAD = re.compile(r"-StreamThread-\d+-consumer$")


@dataclass(frozen=True, slots=True)
class Span:
    """The smallest and the largest value that a number had in the answers of some time."""

    least: int
    most: int


@dataclass(slots=True)
class Samples:
    """The answers to a question for one number that was asked many times: `asked_ms` has the time of each question,
    `answered_ms` that of its answer, and `values` the number."""

    asked_ms: list[int] = field(default_factory=list)
    answered_ms: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def add(self, asked_ms: int, answered_ms: int, value: int) -> None:
        self.asked_ms.append(asked_ms)
        self.answered_ms.append(answered_ms)
        self.values.append(value)

    def between(self, from_ms: int, to_ms: int) -> Span | None:
        """Returns the span of the number from the last answer before `from_ms` to the answer to the first question
        after `to_ms`. Returns None if one of these two is missing."""
        first = bisect_right(self.answered_ms, from_ms) - 1
        last = bisect_left(self.asked_ms, to_ms)
        if first < 0 or last >= len(self.values):
            return None
        found = self.values[first : last + 1]
        return Span(min(found), max(found))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a broker, or a move of leaders. `led` are the partitions of `__consumer_offsets` that it concerned."""

    what: str
    from_ms: int
    until_ms: int
    led: frozenset[int]
    broker: int | None = None

    @property
    def is_move(self) -> bool:
        return self.what in MOVES

    def holds(self, at_ms: int, after_ms: int = AFTER_FAULT_MS) -> bool:
        return self.from_ms <= at_ms <= self.until_ms + after_ms

    def __str__(self) -> str:
        broker = "" if self.broker is None else f" {self.broker}"
        return f"{self.what}{broker} at {self.from_ms}"


@dataclass(frozen=True)
class Truth:
    """Everything that is known of a run. `happened`, `lives` (by client id), `reported` and `asked` are the rows of the
    files `happened`, `lives`, `reported` and `truth` of `lab.kafka.cluster_play`. `expired` has, by member id, the
    times at which brokers logged that its session expired, and `fenced` those at which the controller took a broker for
    dead, be it played or only slow. `left` has, by member id, when brokers last logged that it left by itself."""

    happened: Sequence[Row]
    lives: Mapping[str, Row]
    reported: Sequence[Row]
    asked: Sequence[Row]
    expired: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fenced: Sequence[int] = ()
    left: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def begun_ms(self) -> int:
        return self._at_ms("begin")

    @cached_property
    def rest_ms(self) -> int:
        return self._at_ms("rest")

    def _at_ms(self, what: str) -> int:
        at_ms: int = next(row["at_ms"] for row in self.happened if row["what"] == what)
        return at_ms

    @cached_property
    def faults(self) -> list[Fault]:
        return [
            Fault(row["what"], row["at_ms"], row["until_ms"], frozenset(row["led"]), row.get("broker"))
            for row in self.happened
            if row["what"] in (*BROKER_FAULTS, *MOVES)
        ]

    @cached_property
    def groups(self) -> dict[str, str]:
        """Returns the type of each group, in the order of names."""
        return dict(sorted((row["group_id"], row["group_type"]) for row in self.lives.values()))

    def life(self, client_id: str | None) -> Row | None:
        return self.lives.get(client_of(client_id))

    def places(self, group_id: str) -> list[Place]:
        """Returns all places that members of a group ever had."""
        described = {
            (topic, number)
            for row in self.described.get(group_id, ())
            for *_, places in row["members"]
            for topic, number in places
        }
        return sorted(described | {place for place in self.holders if place[0] == group_id})

    @cached_property
    def committed(self) -> dict[Place, Samples]:
        """Returns the samples of the committed offset of each place. Each topic is read by the one group that has its
        name."""
        return _samples(row for row in self.asked if row["of"] == "commits")

    @cached_property
    def ends(self) -> dict[Place, Samples]:
        return _samples(row for row in self.asked if row["of"] == "ends")

    @cached_property
    def described(self) -> dict[str, list[Row]]:
        """Returns, for each group, its descriptions in the order of time."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        for row in self.asked:
            if row["of"] == "group":
                found[row["group_id"]].append(row)
        for rows in found.values():
            rows.sort(key=lambda row: row["asked_ms"])
        return dict(found)

    @cached_property
    def holders(self) -> dict[Place, list[tuple[int, frozenset[str]]]]:
        """Returns, for each place, the times at which its holders changed, each with all client ids that held it from
        then on, as the clients reported."""
        changes: defaultdict[Place, list[tuple[int, str, bool]]] = defaultdict(list)
        had: defaultdict[str, set[Place]] = defaultdict(set)
        ends = [
            {"name": name, "event": "ended", "at_ms": row["ended_ms"], "partitions": []}
            for name, row in self.lives.items()
            if row["ended"] == "killed"
        ]
        for row in sorted((*self.reported, *ends), key=lambda row: row["at_ms"]):
            name, event = row["name"], row["event"]
            if event == "failed":
                continue
            is_gain = event == "assigned"
            places = {(topic, number) for topic, number in row["partitions"]}
            changed = places if is_gain or event == "revoked" else set(had[name])
            had[name] = had[name] | changed if is_gain else had[name] - changed
            for place in changed:
                changes[place].append((row["at_ms"], name, is_gain))
        return {place: _in_turn(of_place) for place, of_place in changes.items()}

    def owners(self, group_id: str, place: Place, at_ms: int) -> frozenset[str]:
        """Returns the clients that held a place at an instant; an empty set if nobody did, or if it is not known. Of
        clients that report what they hold, it is the one that alone held it, by its own reports and by the group's
        descriptions before and after. Of others, all descriptions of that time must agree."""
        if self.groups[group_id] not in WITHOUT_REPORTS:
            return self._reported_owner(group_id, place, at_ms)
        found = {owners_by(row, place) for row in self.around(group_id, at_ms)}
        return found.pop() if len(found) == 1 else frozenset()

    def around(self, group_id: str, at_ms: int) -> Sequence[Row]:
        """Returns the group's descriptions from the last one before `QUIET_MS` before an instant to the first one after
        `DESCRIBED_MS` after it. Returns none if one of these two is missing, or if nobody answered for a while: what
        held for a moment in between is not known."""
        rows = self.described.get(group_id, [])
        first = bisect_right(rows, at_ms - QUIET_MS, key=lambda row: row["answered_ms"]) - 1
        last = bisect_left(rows, at_ms + DESCRIBED_MS, key=lambda row: row["asked_ms"])
        if first < 0 or last >= len(rows):
            return ()
        found = rows[first : last + 1]
        is_dense = all(after["asked_ms"] - before["asked_ms"] <= UNDESCRIBED_MS for before, after in pairwise(found))
        return found if is_dense else ()

    def _reported_owner(self, group_id: str, place: Place, at_ms: int) -> frozenset[str]:
        turns = self.holders.get(place, [])
        number = bisect_right(turns, (at_ms, frozenset({"\U0010ffff"}))) - 1
        if number < 0 or len(turns[number][1]) != 1 or at_ms - turns[number][0] < QUIET_MS:
            return frozenset()
        if number + 1 < len(turns) and turns[number + 1][0] - at_ms < QUIET_MS:
            return frozenset()
        owner = turns[number][1]
        return owner if self._is_described(group_id, place, at_ms, owner) else frozenset()

    def _is_described(self, group_id: str, place: Place, at_ms: int, owner: frozenset[str]) -> bool:
        rows = self.described.get(group_id, [])
        after = bisect_left(rows, at_ms, key=lambda row: row["asked_ms"])
        if not 0 < after < len(rows):
            return False
        return all(owners_by(row, place) == owner for row in rows[after - 1 : after + 1])

    def stayed(self, group_id: str, member_id: str, from_ms: int, to_ms: int) -> bool:
        """Returns whether the member is in every description of its group from `from_ms` to `to_ms`. Returns False if
        there are fewer than two."""
        rows = [row for row in self.described.get(group_id, ()) if from_ms <= row["asked_ms"] <= to_ms]
        return len(rows) > 1 and all(any(each[0] == member_id for each in row["members"]) for row in rows)

    def is_ended(self, client_id: str | None, at_ms: int, within_ms: int) -> bool:
        """Returns whether the play had ended the client at most `within_ms` before `at_ms`."""
        life = self.life(client_id)
        if life is None or life["ended"] is None:
            return False
        return -1_000 <= at_ms - int(life["ended_ms"]) <= within_ms


def client_of(client_id: str | None) -> str:
    """Returns the client id that a client was given: Kafka Streams adds the name of its thread."""
    return OF_A_THREAD.sub("", client_id or "")


def owners_by(description: Row, place: Place) -> frozenset[str]:
    return frozenset(
        client_of(client) for _, client, places in description["members"] if list(place) in map(list, places)
    )


def positions_in(answers: Iterable[Row]) -> dict[Place, tuple[int, int]]:
    """Returns the start offset and the lag of share groups, by place, in the answers that have them."""
    return {
        (topic, number): (start, lag)
        for row in answers
        if row["of"] == "positions"
        for topic, number, start, lag in row["offsets"]
    }


def offsets_in(answers: Iterable[Row], of: str) -> dict[Place, int]:
    """Returns the offsets, by place, in those answers whose `of` is the given one: `commits` or `ends`."""
    return {(topic, number): at for row in answers if row["of"] == of for topic, number, at in row["offsets"]}


def _samples(rows: Iterable[Row]) -> dict[Place, Samples]:
    found: defaultdict[Place, Samples] = defaultdict(Samples)
    for row in sorted(rows, key=lambda row: row["asked_ms"]):
        for topic, number, offset in row["offsets"]:
            of_place = found[topic, number]
            if not of_place.answered_ms or row["answered_ms"] >= of_place.answered_ms[-1]:  # one overtook the other
                of_place.add(row["asked_ms"], row["answered_ms"], offset)
    return dict(found)


def _in_turn(changes: Sequence[tuple[int, str, bool]]) -> list[tuple[int, frozenset[str]]]:
    found: list[tuple[int, frozenset[str]]] = []
    now: frozenset[str] = frozenset()
    for at_ms, name, is_gain in changes:
        now = now | {name} if is_gain else now - {name}
        found.append((at_ms, now))
    assert all(one[0] <= other[0] for one, other in pairwise(found))
    return found

"""Goal: a real broker's log of KIP-848, share and streams groups is true, and each lie planted in it is found."""

from __future__ import annotations

import json
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.kafka.errors import Error
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.replay.rules import Finding, replay
from tests.coordinator.model.consumers import Cluster
from tests.transforms.history.rules.consumer_groups import consumer_groups, event, of_group, topic_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Record = dict[str, Any]

SOURCES = {
    **dict.fromkeys(("dynamic", "static", "migrated"), "consumer_groups"),
    **dict.fromkeys(("shared", "application"), "modern_groups"),
}
COMPLETE = (Coverage(0, "complete"),)


def found(group_id: str, log: Sequence[Record], marks: Sequence[Coverage] = COMPLETE) -> list[Finding]:
    names = topic_names(consumer_groups(SOURCES[group_id]))
    events = [*marks, *(event(record, names) for record in log)]
    events.sort(key=lambda each: (each.from_offset, 0) if isinstance(each, Coverage) else (each.last_kafka_offset, 1))
    return list(replay(group_id, 3, events))


def log_of(group_id: str) -> list[Record]:
    return of_group(consumer_groups(SOURCES[group_id]), group_id)


@pytest.mark.parametrize("group_id", SOURCES)
def test_a_real_log_is_true(group_id: str) -> None:
    """Goal: nothing is found in it whole, after a hole anywhere, nor where a cleaner left the newest records."""
    log = log_of(group_id)
    assert found(group_id, log) == []
    for place, record in [*enumerate(log)][::5]:
        offset = record["kafka_offset"]
        hole = (Coverage(0, "complete"), Coverage(offset, "unknown"), Coverage(offset + 1, "complete"))
        assert found(group_id, [each for each in log if each is not record], hole) == []
        newest = {(each["record_type"], *each["key"].values()): each for each in log[:place]}
        kept = sorted(newest.values(), key=lambda each: int(each["kafka_offset"]))
        assert found(group_id, [*kept, *log[place:]], [Coverage(0, "compacted"), Coverage(offset, "complete")]) == []


def ending(log: Sequence[Record], suffix: str, **having: Any) -> list[Record]:
    """Returns the records of a type whose value has certain fields."""
    return [
        record
        for record in log
        if record["record_type"].endswith(suffix)
        and record["value"]
        and all(record["value"].get(name) == value for name, value in having.items())
    ]


STEP, TARGET, EPOCH = "_current_member_assignment", "_target_assignment_metadata", "_group_metadata"


def epoch_back(log: list[Record]) -> Record:
    record = [each for each in ending(log, EPOCH) if "epoch" in each["value"]][1]
    record["value"]["epoch"] = 0
    return record


def target_ahead(log: list[Record]) -> Record:
    record = ending(log, TARGET)[-1]
    record["value"]["assignment_epoch"] += 50
    return record


def member_ahead(log: list[Record]) -> Record:
    record = ending(log, STEP)[-1]
    record["value"]["member_epoch"] += 50
    return record


def is_streams(log: Sequence[Record]) -> bool:
    return str(log[0]["record_type"]).startswith("streams")


def nothing_to_give_up(log: list[Record]) -> Record:
    record = ending(log, STEP, state=2 if is_streams(log) else 1)[0]
    for name in record["value"]:
        if "pending_revocation" in name:
            record["value"][name] = []
    return record


def given_twice(log: list[Record]) -> Record:
    """One that waits for a partition gets it before the other has given it up."""
    waiting = ending(log, STEP, state=3 if is_streams(log) else 2)[0]
    holder = [record for record in ending(log[: log.index(waiting)], STEP) if record["key"] != waiting["key"]][-1]
    name = "active_tasks" if is_streams(log) else "assigned_partitions"
    waiting["value"][name] = deepcopy(holder["value"][name])
    return waiting


LIES: list[tuple[str, Callable[[list[Record]], Record], str]] = [
    *((group_id, epoch_back, "generation_decreased") for group_id in ("dynamic", "shared", "application")),
    *((group_id, target_ahead, "illegal_transition") for group_id in ("dynamic", "shared", "application")),
    *((group_id, member_ahead, "illegal_transition") for group_id in ("dynamic", "shared", "application")),
    *((group_id, nothing_to_give_up, "illegal_record") for group_id in ("dynamic", "application")),
    *((group_id, given_twice, "partition_with_two_owners") for group_id in ("dynamic", "application")),
]


@pytest.mark.parametrize(("group_id", "lie", "kind"), LIES)
def test_a_lie_is_found(group_id: str, lie: Callable[[list[Record]], Record], kind: str) -> None:
    """Goal: an impossible record is reported, with the epoch in force, and with its subject."""
    log = deepcopy(log_of(group_id))
    record = lie(log)
    findings = found(group_id, log)
    assert findings[0].kafka_offset == record["kafka_offset"]
    assert findings[0].finding == kind
    assert {each.finding for each in findings} == {kind}
    assert (findings[0].severity, findings[0].incarnation) == ("error", 2 if lie is epoch_back else 1)
    assert findings[0].explanation.endswith(".")
    json.loads(findings[0].evidence)


class Member:
    """A member of a `consumer` group that gives up what it has to at once, or later."""

    def __init__(self, cluster: Cluster, member_id: str, instance_id: str | None, topics: Sequence[str]) -> None:
        self.member_id, self.instance_id = member_id, instance_id
        self._cluster, self._epoch = cluster, 0
        self._owned: dict[str, tuple[int, ...]] = {}
        self._assigned: dict[str, tuple[int, ...]] = {}
        self.is_there = self._follow(cluster.join(member_id, *topics, instance_id=instance_id))

    def beat(self, epoch: int | None = None, *, has_given_up: bool = False, **fields: Any) -> bool:
        """Sends a heartbeat, and returns whether the member is still there."""
        if has_given_up:
            self._owned = dict(self._assigned)
        names = {"instance_id": self.instance_id, "owned": dict(self._owned), **fields}
        answer = self._cluster.beat(self.member_id, self._epoch if epoch is None else epoch, **names)
        self.is_there = self._follow(answer) and epoch is None
        return self.is_there

    def _follow(self, answer: Any) -> bool:
        if answer.error is Error.NONE and answer.assignment is not None:
            self._assigned = dict(answer.assignment)
            self._owned |= self._assigned
        self._epoch = answer.member_epoch if answer.error is Error.NONE else self._epoch
        return answer.error is Error.NONE


def play(dice: Random) -> list[Record]:
    """Returns the log of a group whose members join, give up, subscribe anew, leave, go away, come back and expire."""
    cluster = Cluster()
    members: list[Member] = []
    away: list[str | None] = []
    for number in range(40):
        topics = dice.sample(["orders", "payments"], dice.randint(1, 2))
        what = dice.choices(["join", "beat", "subscribe", "leave", "go", "come", "wait"], [4, 16, 2, 2, 2, 3, 2])[0]
        member = dice.choice(members) if members else None
        if what == "join" or (what == "come" and away):
            instance_id = away.pop() if what == "come" else dice.choice([None, f"i{number}"])
            members.append(Member(cluster, f"m{number}", instance_id, topics))
        elif what == "wait":
            cluster.wait(dice.choice([100, 20_000, 50_000]))
        elif member is not None and what == "go" and member.instance_id is not None:
            member.beat(-2)
            away.append(member.instance_id)
        elif member is not None and what == "leave":
            member.beat(-1)
        elif member is not None and what in ("beat", "subscribe"):
            anew: dict[str, Any] = {"subscribed_topic_names": tuple(topics)} if what == "subscribe" else {}
            member.beat(has_given_up=dice.random() < 0.7, **anew)
        members = [each for each in members if each.is_there]
    return [
        {
            "kafka_offset": offset,
            "after_ms": batch.timestamp_ms,
            "record_type": record.record_type,
            "key": dict(record.key),
            "value": record.value,
        }
        for batch in cluster.log
        for offset, record in enumerate(batch.records, batch.base_offset)
    ]


def test_random_groups_are_true() -> None:
    """Goal: nothing is found in the reference coordinator's records of random groups either."""
    states: set[tuple[int, bool]] = set()
    for seed in range(25):
        log = play(Random(seed))
        assert found("dynamic", log) == []
        states |= {(record["value"]["state"], record["value"]["member_epoch"] < 0) for record in ending(log, STEP)}
    assert {(0, False), (1, False), (2, False), (0, True), (1, True)} <= states

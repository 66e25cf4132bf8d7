"""Histories with one lie each: it is found, where it is, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.java_hash_map import hash_map_order
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.tables.replay_findings import REPLAY_FINDINGS
from groupledger.transforms.history.rules.events import Coverage, GroupMember, GroupRecord
from groupledger.transforms.replay.rules import Finding, replay
from lab.truth.histories import ALL_COMPLETE, GROUP, Log, member, position, summaries
from tests.transforms.history.rules.live import ACTIONS, play

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.truth.histories import Entry

COOPERATIVE = "cooperative-sticky"
PROTOCOLS = ("range", "roundrobin", "sticky", COOPERATIVE)


def dynamic(name: str, *assigned: int, **options: Any) -> GroupMember:
    return member(f"{name}-1", *assigned, **{"client_id": name, "client_host": f"/{name}", **options})


def static(name: str, restart: int, *assigned: int, **options: Any) -> GroupMember:
    return member(f"{name}-{restart}", *assigned, client_id="c", group_instance_id=name, **options)


def found(log: Log | Sequence[Entry], marks: Sequence[Coverage] = ALL_COMPLETE) -> list[Finding]:
    entries = log.entries if isinstance(log, Log) else log
    return list(replay(GROUP, 3, summaries(sorted([*marks, *entries], key=position))))


def kinds(log: Log | Sequence[Entry], marks: Sequence[Coverage] = ALL_COMPLETE) -> list[tuple[int, str]]:
    return [(each.kafka_offset, each.finding) for each in found(log, marks)]


# What the issue is about: the four lies, in histories of a real coordinator with Kafka's assignors


def two_owners(record: GroupRecord, _: GroupRecord) -> GroupRecord | None:
    if len(record.members) < 2 or not record.owners:
        return None
    unit, (owner,) = next(iter(record.owners.items()))
    return _give(record, next(m for m in record.members if m.facts.member_id != owner), unit)


def outside_subscription(record: GroupRecord, before: GroupRecord) -> GroupRecord | None:
    if record.generation == before.generation or not record.members:
        return None
    return _give(record, record.members[0], TopicPartition("nowhere", 0))


def leader_is_no_member(record: GroupRecord, _: GroupRecord) -> GroupRecord | None:
    return replace(record, leader="nobody-1") if record.members else None


def generation_back(record: GroupRecord, before: GroupRecord) -> GroupRecord | None:
    return replace(record, generation=before.generation - 1) if record.members and before.generation > 1 else None


def _give(record: GroupRecord, receiver: GroupMember, unit: TopicPartition) -> GroupRecord:
    members = (replace(m, assigned=(*(m.assigned or ()), unit)) if m is receiver else m for m in record.members)
    return replace(record, members=tuple(members))


LIES: dict[str, Callable[[GroupRecord, GroupRecord], GroupRecord | None]] = {
    "partition_with_two_owners": two_owners,
    "assignment_outside_subscription": outside_subscription,
    "leader_is_no_member": leader_is_no_member,
    "generation_decreased": generation_back,
}


@settings(max_examples=30, deadline=None)
@given(
    lie=st.sampled_from(sorted(LIES)),
    protocol=st.sampled_from(PROTOCOLS),
    actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 5)), min_size=4, max_size=12),
    where=st.integers(0, 50),
)
def test_a_planted_lie_is_found(lie: str, protocol: str, actions: list[tuple[str, int]], where: int) -> None:
    """Goal: wherever it is planted in whatever history, the lie is found in its record."""
    log = play(protocol, [("join", 0), ("join", 0), *actions]).log()
    records = [(index, entry) for index, entry in enumerate(log) if not hasattr(entry, "topic")]
    planted = [
        (index, forged)
        for (_, before), (index, entry) in pairwise(records)
        if isinstance(before, GroupRecord) and isinstance(entry, GroupRecord)
        for forged in [LIES[lie](entry, before)]
        if forged is not None
    ]
    if not planted:
        return
    index, forged = planted[where % len(planted)]
    assert (forged.kafka_offset, lie) in kinds([*log[:index], forged, *log[index + 1 :]])


# By hand, one after the other

A, B, C = "a", "b", "c"
# Three names in the order of the coordinator's map, which decides who succeeds a leader.
FIRST, SECOND, THIRD = (each[:-2] for each in hash_map_order(["a-1", "b-1", "c-1"]))


def pair(generation: int = 1, **options: Any) -> Log:
    log = Log()
    log.offset = 10 * generation
    return log.record(generation, dynamic(A, 0), dynamic(B, 1), **options)


BY_HAND: dict[str, tuple[Log, list[str]]] = {
    "two owners": (Log().record(1, dynamic(A, 0, 1), dynamic(B, 1)), ["partition_with_two_owners"]),
    "outside the subscription": (
        Log().record(1, dynamic(A, 0), dynamic(B, 1, units=[("payments", 0)])),
        ["assignment_outside_subscription"],
    ),
    "leader is no member": (Log().record(1, dynamic(A, 0), leader="z-1"), ["leader_is_no_member"]),
    "generation goes back": (pair(5).record(4, dynamic(A, 0), dynamic(B, 1)), ["generation_decreased"]),
    "members in generation 0": (Log().record(0, dynamic(A, 0)), ["illegal_record"]),
    "no protocol": (Log().record(1, dynamic(A, 0), protocol=None), ["illegal_record"]),
    "no protocol type": (Log().record(1, dynamic(A), protocol_type=""), ["illegal_record"]),
    "no leader": (Log().record(1, dynamic(A, 0), leader=None), ["illegal_record"]),
    "empty with a leader": (pair().record(2, leader="a-1"), ["illegal_record"]),
    "a member twice": (Log().record(1, dynamic(A, 0), dynamic(A, 1)), ["illegal_record"]),
    "an instance twice": (Log().record(1, static("i", 1, 0), static("i", 2, 1)), ["illegal_record"]),
    "range elsewhere": (Log().record(1, dynamic(A, 0), dynamic(B, 1, 2)), ["assignment_differs"]),
    "round robin elsewhere": (
        Log().record(1, dynamic(A, 0, 1), dynamic(B, 2, 3), protocol="roundrobin"),
        ["assignment_differs"],
    ),
    "sticky without balance": (
        Log().record(1, dynamic(A, 0, 1, 2), dynamic(B, 3), protocol="sticky"),
        ["assignment_differs"],
    ),
    "not revoked first": (
        Log().record(1, dynamic(A, 0, owned=[0, 1]), dynamic(B, 1), protocol=COOPERATIVE),
        ["partition_not_revoked_first"],
    ),
    "a dynamic member is replaced": (
        pair().record(1, dynamic(A, 0), member("b-2", 1, client_id=B)),
        ["static_replacement_without_instance"],
    ),
    "another instance in its place": (
        Log().record(1, static("i", 1, 0)).record(1, static("j", 1, 0)),
        ["illegal_transition"],
    ),
    "a revision moves a partition": (
        Log().record(1, static("i", 1, 0), static("j", 1, 1)).record(1, static("i", 2, 1), static("j", 1, 0)),
        ["illegal_transition"],
    ),
    "a revision changes the leader": (
        Log().record(1, static("i", 1, 0), static("j", 1, 1)).record(1, static("j", 2, 1), static("i", 1, 0)),
        ["illegal_transition"],
    ),
    "members where none were": (pair().record(2).record(2, dynamic(A, 0)), ["illegal_transition"]),
    "the leader changes": (pair().record(2, dynamic(B, 1), dynamic(A, 0)), ["illegal_transition"]),
    "the third succeeds the first": (
        Log()
        .record(1, dynamic(FIRST, 0), dynamic(SECOND, 1), dynamic(THIRD, 2), protocol="mine")
        .record(2, dynamic(SECOND, 0), dynamic(THIRD, 1), protocol="mine", leader=f"{THIRD}-1"),
        ["illegal_transition"],
    ),
    "another host": (pair().record(2, dynamic(A, 0), dynamic(B, 1, client_host="/z")), ["illegal_transition"]),
    "another instance id": (
        pair().record(2, dynamic(A, 0), dynamic(B, 1, group_instance_id="b")),
        ["illegal_transition"],
    ),
    "another protocol type": (pair().record(2, dynamic(A), dynamic(B), protocol_type="mine"), ["illegal_transition"]),
    "emptied with another protocol type": (pair().record(2, protocol_type="mine"), ["illegal_transition"]),
    "born with a protocol type": (Log().record(0, protocol_type="consumer"), ["illegal_transition"]),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_lie_is_found_and_nothing_else(name: str) -> None:
    """Goal: each rule speaks of the record that breaks it, and is not echoed by the others."""
    log, expected = BY_HAND[name]
    assert [kind for _, kind in kinds(log)] == expected
    (finding,) = found(log)
    assert finding.kafka_offset == log.offset
    assert finding.severity == ("warning" if expected == ["assignment_differs"] else "error")
    assert finding.explanation.endswith(".")
    json.loads(finding.evidence)


TRUE: dict[str, Log] = {
    "the leader left and the second follows": Log()
    .record(1, dynamic(FIRST, 0), dynamic(SECOND, 1), dynamic(THIRD, 2), protocol="mine")
    .record(2, dynamic(SECOND, 0, 1), dynamic(THIRD, 2), protocol="mine"),
    "everybody is new": pair().record(2, dynamic(C, 0, 1)),
    "everybody left": Log().birth().record(1, dynamic(A, 0)).record(2),
    "somebody came and went": Log().birth().record(1),
    "a static leader did not rejoin": Log()
    .record(1, static("i", 1, 0), dynamic(B, 1), leader="i-1", protocol="mine")
    .record(2, static("i", 1, 0), dynamic(B, 1), leader="b-1", protocol="mine"),
    "a static leader is replaced": Log()
    .record(1, static("i", 1, 0), static("j", 1, 1), leader="j-1")
    .record(1, static("i", 1, 0), static("j", 2, 1), leader="j-2"),
    "two instances are replaced at once": Log()
    .record(1, static("i", 1, 0), static("j", 1, 1))
    .record(1, static("i", 2, 0), static("j", 2, 1)),
    "a replaced instance subscribes to something else": Log()
    .record(1, static("i", 1, 0))
    .record(1, static("i", 2, 0, topics=("payments",))),
    "the protocol changes": pair().record(2, dynamic(A, 0), dynamic(B, 1), protocol=COOPERATIVE),
    "a hole of generations": pair().record(3, dynamic(B, 1, client_host="/z"), dynamic(A, 0)),
    "a gap in what is known": pair().mark("unknown").commit(0).mark("complete").record(2, dynamic(B, 1), dynamic(A, 0)),
    "back over a tombstone": pair(5).tombstone().record(1, dynamic(A, 0)),
    "racks": Log().record(1, dynamic(A, 0), dynamic(B, 1, 2, rack_id="r1")),
    "a partition is missing": Log().record(1, dynamic(A, 0), dynamic(B, 2, 3)),
    "an unreadable assignment": Log().record(1, dynamic(A, 0), dynamic(B, is_readable=False)),
    "an unreadable subscription": Log().record(1, dynamic(A, 0, 1), dynamic(B, topics=None)),
    "sticky gives to who asked for nothing": Log().record(
        1, dynamic(A, 0), dynamic(B, 1, topics=()), protocol="sticky"
    ),
    "an assignor of their own": Log().record(1, dynamic(A, 0), dynamic(B, 0, units=[("x", 0)]), protocol="mine"),
    "ids of another form": Log().record(1, member("a", 0)).record(2, member("a", 0), member("b", 1)),
    "a round that withholds": Log().record(1, dynamic(A, 0, owned=[0, 1]), dynamic(B, owned=[]), protocol=COOPERATIVE),
    "cooperative, before a claim is given up": Log().record(
        1, dynamic(A, 0, owned=[0, 1]), dynamic(B, 1, owned=[1]), protocol=COOPERATIVE
    ),
    "a consumer group between": pair(5).other("consumer", 6).other("consumer", gone=True).record(2, dynamic(A, 0)),
    "a consumer group that goes on as a classic one": pair(5)
    .tombstone()
    .other("consumer", 5, same_time=True)
    .other("consumer", 6)
    .other("consumer", gone=True)
    .record(6, dynamic(A, 0), same_time=True),
    "an old record without a rebalance timeout": Log()
    .record(1, dynamic(A, 0, rebalance_timeout_ms=-1))
    .record(2, dynamic(A, 0)),
}


@pytest.mark.parametrize("name", TRUE)
def test_what_may_be_is_not_found(name: str) -> None:
    """Goal: an odd but possible record, and one that nobody can judge, are no findings."""
    assert found(TRUE[name]) == []


def test_going_back_in_compacted_coverage_is_no_finding() -> None:
    """Goal: a tombstone may have been cleaned away."""
    assert found(pair(5).record(4, dynamic(A, 0)), [Coverage(0, "compacted")]) == []


def test_one_row_for_each_kind_in_a_record() -> None:
    """Goal: the columns name the first place, the evidence all of them, and the row is that of the table."""
    (finding,) = found(Log().record(1, dynamic(A, 0, 1, 2), dynamic(B, 1, 2)))
    assert (finding.member_id, finding.topic, finding.partition) == ("a-1", "orders", 1)
    assert json.loads(finding.evidence) == {"owners": [["orders", n, ["a-1", "b-1"]] for n in (1, 2)]}
    names = [*Finding.__dataclass_fields__]
    assert REPLAY_FINDINGS.schema.fieldNames() == ["cluster", *names]
    assert set(REPLAY_FINDINGS.key) <= {"cluster", *names}

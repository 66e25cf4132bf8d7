"""Goal: a fault of brokers is one episode of the cluster, with the groups that it hit, and nobody else's fault.

`tests/data/situations/broker_faults` was played on three brokers with twelve groups (`lab.kafka.broker_faults`): one
broker stood still for 16 s, another was killed, leaders were moved back in good order. Then, with all brokers well, a
process with a member of three groups was killed, and at the end one with the last member of the other nine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.transforms.history.rules.departures import with_unknown_causes, with_unknown_triggers
from groupledger.transforms.incidents.rules import GroupFacts, incidents
from groupledger.transforms.incidents.rules.coordinator_faults import (
    DETECTION_MS,
    CoordinatorFault,
    Outage,
    PartitionLine,
    Second,
    coordinators,
    faults_of,
    moves,
    silences,
)
from lab.truth.captured import facts_of_capture
from lab.truth.made import RULES, T, commit, event, facts, generation, rebalance, tenure
from tests.transforms.incidents.rules.test_rewinds import steps
from tests.transforms.incidents.rules.test_waiting import gone

if TYPE_CHECKING:
    from collections.abc import Container

RECORDED = Path(__file__).parents[3] / "data" / "situations" / "broker_faults"
LOGS = sorted(RECORDED.glob("server-*.log"))
HIT = [{"rd-0", "rd-1", "rd-3"}, {"rd-0", "rd-1", "rd-2", "rd-3"}]
KILLED = {"java-0", "rd-0", "new-0"}  # groups with a member that was killed while the brokers were well
ALL = KILLED | {*(f"java-{n}" for n in (1, 2)), *(f"rd-{n}" for n in (1, 2, 3)), "new-1", "new-2", "python-0"}

Row = dict[str, Any]


def recorded(*, with_logs: bool) -> tuple[list[Row], list[Row]]:
    """Returns the incidents of groups that alarm somebody or are a broker's fault, and those of the cluster."""
    groups = facts_of_capture(RECORDED / "capture" / "part-0.parquet", LOGS if with_logs else [])
    found = [row for of_group in groups.values() for row in incidents(of_group, RULES)]
    some = next(iter(groups.values()))
    of_cluster = incidents(GroupFacts(None, some.as_of_ms, faults=some.faults), RULES)
    return [row for row in found if row["severity"] != "info" or row["kind"] == "coordinator_failed"], of_cluster


@pytest.mark.parametrize("with_logs", [True, False], ids=["with logs", "the topic alone"])
def test_a_frozen_and_a_killed_coordinator(*, with_logs: bool) -> None:
    """Goal: each fault is one episode of all groups that it hit, with logs and without; no advice is to change a
    client. The members that were really killed are found as before, and a kill of all of them at once is no fault of a
    broker."""
    rows, of_cluster = recorded(with_logs=with_logs)
    faults = [row for row in rows if row["kind"] == "coordinator_failed"]
    episodes = [row["episode_id"] for row in of_cluster]
    assert [{row["group_id"] for row in faults if row["episode_id"] == each} for each in episodes] == HIT
    assert {row["kind"] for row in of_cluster} == {"coordinator_failed"}
    assert len({row["incident_id"] for row in (*faults, *of_cluster)}) == len(faults) + len(of_cluster)
    for row in (*faults, *of_cluster):
        assert (row["evidence"], row["probable_root"]) == (
            "observed" if with_logs else "inferred",
            "coordinator_failover",
        )
        assert row["severity"] == ("warning" if with_logs else "info")
        assert row["setting_to_change"] is None
        assert row["member_id"] is None
        assert "garbage collection" not in row["explanation"]
    assert "3 groups were hit; partition 1 of __consumer_offsets" in of_cluster[0]["explanation"]
    expired = {row["group_id"]: row["first_seen_at"] for row in rows if row["kind"] == "session_expired"}
    is_modern = {"new-0", "new-1", "new-2"}  # without a log nobody knows why these went
    assert set(expired) == ALL - (set() if with_logs else is_modern)
    assert min(expired.values()) > max(row["last_seen_at"] for row in faults)


def test_two_brokers_that_speak_for_one_group() -> None:
    """Goal: the broker that stood still woke and removed a member of a group that another one had loaded. That is no
    removal, and belongs to the episode."""
    rows, _ = recorded(with_logs=True)
    (zombie,) = (row for row in rows if row["kind"] == "zombie_coordinator")
    assert zombie["group_id"] == "rd-0"
    assert zombie["explanation"].startswith(
        "Broker 2 logged once that it acted for the group, which it no longer coordinated"
    )
    assert "another broker had loaded the group before" in zombie["explanation"]
    assert zombie["episode_id"] in {row["episode_id"] for row in rows if row["kind"] == "coordinator_failed"}


# By hand


def line(kind: str, broker_id: int, after_s: float, **fields: Any) -> PartitionLine:
    at_ms = T + round(after_s * 1_000)
    row = {"kafka_partition": 7, "source_file": f"{broker_id}.log", "line_number": at_ms, **fields}
    return PartitionLine(kind=kind, broker_id=broker_id, at_ms=at_ms, **row)


LOADS = [line("partition_loaded", 1, 0), line("partition_loaded", 2, 100)]


def test_moves() -> None:
    """Goal: a partition that was given up moved in good order; else its broker was gone for some time. One that was
    loaded empty had been nobody's."""
    first, second = moves(LOADS)
    assert (first.is_clean, second.is_clean, second.until_ms - second.from_ms) == (False, False, DETECTION_MS)
    _, second = moves([*LOADS, line("partition_unloading", 1, 99)])
    assert (second.is_clean, second.until_ms - second.from_ms) == (True, 1_000)
    _, second = moves([*LOADS, line("partition_unloading", 1, 108)])  # it woke
    assert not second.is_clean
    assert list(moves([line("partition_loaded", 1, 0, loading="11ms. Loaded 0 records which total to 0 bytes.")])) == []


def test_who_speaks_for_a_partition() -> None:
    """Goal: a broker has lost a partition when another one has loaded it, and not before."""
    who = coordinators(LOADS)
    assert [who.has_lost(1, 7, T + s * 1_000) for s in (50, 100, 102)] == [False, False, True]
    assert not who.has_lost(2, 7, T + 102_000)
    assert not who.has_lost(None, 7, T + 102_000)
    assert not who.has_lost(1, 8, T + 102_000)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_an_assignment_that_a_woken_broker_could_not_store(*, is_loaded: bool) -> None:
    """Goal: a broker that stood still gives the group's members partitions, and its write fails since it no longer
    leads. That is no trouble of `__consumer_offsets`, whether or not the log of the other broker is there."""
    reason = "Error NOT_COORDINATOR when storing group assignmentduring SyncGroup (member: m-1)."
    of_broker: dict[str, Any] = {"broker_id": 1, "kafka_partition": 7}
    lines = [
        event("stabilized", T + 101_900, generation=3, **of_broker),
        event("preparing_rebalance", T + 102_000, "m-1", trigger="assignment_not_stored", reason=reason, **of_broker),
    ]
    known = facts(events=lines)
    known.coordinators = coordinators(LOADS if is_loaded else LOADS[:1])
    rows = [row for row in incidents(known, RULES) if row["severity"] != "info"]
    (row,) = rows
    assert (row["kind"], row["probable_root"]) == ("zombie_coordinator", "coordinator_failover")
    cause = "another broker had loaded the group before" if is_loaded else "it could not store an assignment"
    assert (
        f"Broker 1 logged once that it acted for the group, which it no longer coordinated: {cause}"
        in (row["explanation"])
    )


def seconds(counts: dict[int, int], cleaned: Container[int] = ()) -> dict[int, Second]:
    """Returns seconds with so many records; the cleaner has removed the first two of those in `cleaned`."""
    found, offset = {}, 0
    for second, count in counts.items():
        removed = 2 if second in cleaned else 0
        found[second] = Second(count - removed, offset + removed, offset + count - 1)
        offset += count
    return found


def test_silences() -> None:
    """Goal: a partition that was busy and has no record for longer than usual had no coordinator, if others went on; if
    all are silent, or one is always slow, there is no outage."""
    busy = seconds(dict.fromkeys([*range(40), *range(52, 80)], 2))
    steady = seconds(dict.fromkeys(range(80), 1))
    (outage,) = silences({0: busy, 1: steady})
    assert (outage.kafka_partition, outage.from_ms, outage.until_ms) == (0, 39_000, 52_000)
    assert list(silences({0: busy, 1: busy})) == []
    assert list(silences({0: busy})) == []
    assert list(silences({0: seconds(dict.fromkeys(range(0, 80, 10), 2)), 1: steady})) == []


def test_silences_of_a_cleaned_log() -> None:
    """Goal: where offsets are missing beside a silence, the cleaner may have removed its records: it is no outage."""
    counts = dict.fromkeys([*range(40), *range(52, 80)], 3)
    steady = seconds(dict.fromkeys(range(80), 1))
    assert list(silences({0: seconds(counts, cleaned=[52]), 1: steady})) == []
    assert len(list(silences({0: seconds(counts, cleaned=[39, 53]), 1: steady}))) == 1


def test_outages_of_one_time() -> None:
    """Goal: outages that lie together are one fault, and a silence says when that of a move began."""
    silent = Outage(kafka_partition=7, from_ms=T + 85_000, until_ms=T + 99_000, detail="silent")
    other = Outage(kafka_partition=8, from_ms=T + 90_000, until_ms=T + 99_000, detail="silent, too")
    far = Outage(kafka_partition=8, from_ms=T + 300_000, until_ms=T + 310_000, detail="later")
    fault, later = faults_of([*moves(LOADS[1:]), silent, other, far])
    assert (set(fault.partitions), fault.from_ms, fault.is_logged) == ({7, 8}, T + 85_000, True)
    assert [each.detail for each in later.outages] == ["later"]


GENERATIONS = [generation(3, 10, 50, kafka_partition=7), generation(4, 50, None, kafka_partition=7)]
FAULT = CoordinatorFault(
    outages=(Outage(kafka_partition=7, from_ms=T + 30_000, until_ms=T + 40_000, detail="it moved", is_clean=True),),
    departures=2,
    groups=2,
)
LEFT = {"leave_cause": "left", "leave_cause_confidence": 0.95}


def reported(fault: CoordinatorFault, **parts: Any) -> dict[str, Row]:
    given = facts(**{"generations": GENERATIONS, "members": [tenure("m-1", 10, 50, **LEFT)], **parts})
    given.faults = [fault]
    return {row["kind"]: row for row in incidents(given, RULES)}


def test_a_departure_at_that_time() -> None:
    """Goal: a member that dropped out then is one of those hit, whatever the topic lets one guess, unless a line says
    that it left. A move in good order is a fault where several groups were hit."""
    assert set(reported(FAULT)) == {"coordinator_failed"}
    closing = event("member_left", T + 49_000, "m-1", client_reason="the consumer is being closed")
    assert reported(FAULT, events=[closing]) == {}
    assert reported(replace(FAULT, groups=1)) == {}
    elsewhere = replace(FAULT, outages=(replace(FAULT.outages[0], kafka_partition=8),))
    assert reported(elsewhere) == {}
    expired = tenure("m-1", 10, 50, leave_cause="session_expired", leave_cause_confidence=0.85)
    assert set(reported(elsewhere, members=[expired])) == {"session_expired"}
    dead = replace(elsewhere, outages=(replace(elsewhere.outages[0], is_clean=False),))
    assert set(reported(dead, members=[expired])) == {"coordinator_failed"}


@pytest.mark.parametrize(("is_clean", "flaps"), [(False, False), (True, True)])
def test_members_that_drop_out_with_each_fault(*, is_clean: bool, flaps: bool) -> None:
    """Goal: a client whose sessions expire each time a broker dies does not flap, also if that broker coordinates other
    groups only; it does if other coordinators only moved."""
    silent = {"leave_cause": "session_expired", "leave_cause_confidence": 0.85}
    tenures = [tenure(f"m-{number}", number * 300, number * 300 + 100, **silent) for number in range(1, 4)]
    given = facts(generations=GENERATIONS, members=tenures)
    outage = replace(FAULT.outages[0], kafka_partition=8, is_clean=is_clean)
    given.faults = [
        replace(FAULT, outages=(replace(outage, from_ms=T + at_s * 1_000, until_ms=T + (at_s + 20) * 1_000),))
        for at_s in (380, 680, 980)
    ]
    assert ("member_flapping" in {row["kind"] for row in incidents(given, RULES)}) == flaps


@pytest.mark.parametrize(("is_clean", "storms"), [(False, False), (True, True)])
def test_rebalances_that_come_with_a_fault(*, is_clean: bool, storms: bool) -> None:
    """Goal: members of a group that drop out and come back because a broker died make no storm, also if that broker
    coordinates other groups only."""
    given = facts(generations=GENERATIONS, rebalances=[rebalance(n, 100 + n * 50) for n in range(2, 14)])
    outage = replace(FAULT.outages[0], kafka_partition=8, until_ms=T + 750_000, is_clean=is_clean)
    given.faults = [replace(FAULT, outages=(outage,))]
    assert ("rebalance_storm" in {row["kind"] for row in incidents(given, RULES)}) == storms


def test_a_commit_that_was_sent_again() -> None:
    """Goal: an offset that goes back as the coordinator moves is a commit that was sent again: nothing is read twice
    for certain, and nobody sought back."""
    back = steps(commit(100, T + 31_000, 31), commit(88, T + 41_000, 41))
    row = reported(replace(FAULT, groups=0), members=[], steps=back)["offset_rewind"]
    assert (row["severity"], row["probable_root"]) == ("info", "coordinator_failover")
    assert (row["duplicates_min"], row["duplicates_max"]) == (0, 12)


@pytest.mark.parametrize(("is_clean", "root"), [(False, "unknown"), (True, "client_seek_or_reset")])
def test_a_commit_that_another_broker_held_up(*, is_clean: bool, root: str) -> None:
    """Goal: while a broker that coordinates other groups stands still, a lower offset may be a commit that was sent
    again: it is not known that the client went back."""
    given = facts(steps=steps(commit(100, T + 31_000, 31), commit(88, T + 41_000, 41)))
    outage = replace(FAULT.outages[0], kafka_partition=8, until_ms=T + 50_000, is_clean=is_clean)
    given.faults = [replace(FAULT, outages=(outage,))]
    (row,) = (row for row in incidents(given, RULES) if row["kind"] == "offset_rewind")
    assert (row["probable_root"], row["duplicates_min"]) == (root, 12 if is_clean else 0)


def test_a_group_that_lost_all_members() -> None:
    """Goal: a group that was empty only while a fault had its effects is one of those hit. If nobody comes back, that
    is an incident of its own, and says nothing about the clients; a group whose members were closed then is not due to
    the fault."""
    expired = tenure("m-1", 10, 50, leave_cause="session_expired", leave_cause_confidence=0.85)
    dead = replace(FAULT, outages=(replace(FAULT.outages[0], is_clean=False),), groups=1)

    def of_empty_group(back_s: int | None, **others: Any) -> dict[str, Row]:
        given = gone(expired, back_s=back_s, **others)
        given.faults = [dead]
        for row in given.generations:
            row["kafka_partition"] = 7
        return {row["kind"]: row for row in incidents(given, RULES)}

    assert set(of_empty_group(110, ends=((51, 160), (90, 160)))) == {"coordinator_failed"}
    rows = of_empty_group(None)
    assert set(rows) == {"coordinator_failed", "group_without_members"}
    row = rows["group_without_members"]
    assert (row["severity"], row["probable_root"], row["is_open"]) == ("warning", "coordinator_failover", True)
    assert "did not come back after their coordinator had failed" in row["explanation"]
    assert "without leaving" not in row["explanation"]
    failed = event("member_failed", T + 50_000, "m-1")
    assert of_empty_group(None, events=[failed])["group_without_members"]["probable_root"] == "coordinator_failover"
    closing = event("member_left", T + 50_000, "m-1", client_reason="the consumer is being closed")
    assert of_empty_group(None, events=[closing])["group_without_members"]["probable_root"] == "members_gone"


def test_no_storm_comes_of_a_fault() -> None:
    """Goal: rebalances and tenures that a fault ended are no pattern of the group."""
    storm = [rebalance(number, 30 + number * 5) for number in range(2, 14)]
    assert "rebalance_storm" in reported(replace(FAULT, groups=1), rebalances=storm)
    assert "rebalance_storm" not in reported(FAULT, rebalances=storm)


def test_causes_at_that_time_are_unknown() -> None:
    """Goal: a guess about a departure in a fault is no cause; a cause that a log states stays."""
    row = reported(FAULT)["coordinator_failed"]
    assert row["first_seen_at"] < row["last_seen_at"]
    guess = tenure("m-1", 10, 50, **LEFT)
    later = tenure("m-1", 10, 500, **LEFT)
    logged = tenure("m-1", 10, 50, leave_cause="left", leave_cause_confidence=1.0)
    causes = [each["leave_cause"] for each in with_unknown_causes([guess, later, logged], [row])]
    assert causes == ["unknown", "left", "left"]
    then, joined, later = (
        rebalance(4, 50, inferred_trigger="left"),
        rebalance(5, 49, inferred_trigger="joined"),
        rebalance(6, 900, inferred_trigger="left"),
    )
    events_of = with_unknown_triggers([then, joined, later], [row])
    assert [each["inferred_trigger"] for each in events_of] == ["unknown", "joined", "left"]

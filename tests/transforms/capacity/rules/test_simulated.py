"""Goal: the capacity of simulated groups, whose members have a known pace, agrees with the simulator's truth."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios.registry import Scenario
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, Settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import CapacityFinding
from groupledger.transforms.capacity.rules.capacity import Capacity, capacity
from groupledger.transforms.capacity.rules.seen import rounds_of
from groupledger.transforms.lag.rules import Commit, End, GroupFacts, LagState, Owner, Round, Watermark

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.coordinator.simulator.simulation import Simulation
    from groupledger.transforms.lag.rules import LagRow

pytestmark = pytest.mark.slow

SAMPLE_MS, MINUTES, MINUTE_MS = 15_000, 20, 60_000
FIRST_MINUTES = 5  # in which the group gathers
PROCESSING_MS = (1_000, 5_000)
RECORDS_PER_POLL = 50
PACE_PER_S = RECORDS_PER_POLL / 3.0  # a poll is processed for three seconds, on average
SEEDS = range(4)


class Case(NamedTuple):
    """Members that process at a known pace, and the records that each partition gets in a minute."""

    members: int
    per_minute: tuple[int, ...]
    slow_members: int = 0  # which take twice as long


OVERLOADED = Case(2, (600,) * 6)
QUIET = Case(2, (60,) * 6)
HOT = Case(3, (60, 60, 60, 60, 60, 1_500))
IDLE = Case(5, (120,) * 3)
UNEVEN = Case(4, (1_500,) * 4, slow_members=2)


class Truth(NamedTuple):
    """What the simulator knows of members: those that are slow, and how many records a second each has processed."""

    slow: set[str]
    processed_per_s: dict[str, float]


@lru_cache
def found(case: Case, seed: int) -> tuple[Capacity, Truth]:
    """What the rules say of a group, once it has gathered, and the truth of that time."""
    scripts: list[Script] = []
    scenario = Scenario(
        name="pace",
        summary="",
        play=lambda script: play(script, case, scripts),
        settings=Settings(sample_interval_ms=SAMPLE_MS),
    )
    simulation = prepare(scenario, seed)
    (script,) = scripts
    owners: dict[int, dict[TopicPartition, str]] = {}
    positions: list[dict[str, int]] = []
    first_ms = BEGAN_AT_MS + FIRST_MINUTES * MINUTE_MS
    for at_ms in range(BEGAN_AT_MS + SAMPLE_MS, BEGAN_AT_MS + MINUTES * MINUTE_MS, SAMPLE_MS):
        simulation.at(at_ms, lambda at_ms=at_ms: owners.update({at_ms: owners_of(script)}))
    last_ms = BEGAN_AT_MS + MINUTES * MINUTE_MS - SAMPLE_MS
    for at_ms in (first_ms, last_ms):
        simulation.at(at_ms, lambda: positions.append(positions_of(script)))
    simulation.run(BEGAN_AT_MS + MINUTES * MINUTE_MS)
    slow = {each.consumer.member_id for each in script.applications[: case.slow_members] if each.consumer}
    rows = [row for row in lag_of(simulation, script.group_id, owners) if row.sampled_at_ms >= first_ms]
    begin, end = positions
    lasts_s = (last_ms - first_ms) / 1_000
    truth = Truth(slow, {name: (end[name] - begin[name]) / lasts_s for name in end})
    return capacity(rounds_of(rows), case.members, "range"), truth


def play(script: Script, case: Case, scripts: list[Script]) -> None:
    scripts.append(script)
    script.processing_ms = PROCESSING_MS
    topic = script.topic("orders", len(case.per_minute))
    for partition, rate in zip(script.simulation.topics.by_name[topic].partitions, case.per_minute, strict=True):
        partition.produce(rate, script.began_at_ms)
    members = script.deploy(case.members, [topic], max_poll_records=RECORDS_PER_POLL)
    for each in members[: case.slow_members]:
        each.processing_ms = (2 * PROCESSING_MS[0], 2 * PROCESSING_MS[1])
    script.start(members)


def owners_of(script: Script) -> dict[TopicPartition, str]:
    return {
        place: each.consumer.member_id
        for each in script.applications
        if each.consumer is not None
        for place in each.consumer.assignment
    }


def positions_of(script: Script) -> dict[str, int]:
    consumers = [each.consumer for each in script.applications if each.consumer is not None]
    return {each.member_id: sum(each.position(*place) or 0 for place in each.assignment) for each in consumers}


def lag_of(simulation: Simulation, group_id: str, owners: dict[int, dict[TopicPartition, str]]) -> list[LagRow]:
    outputs = simulation.take(is_last=True)
    state = LagState()
    for batch in outputs.batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            if record.record_type == "offset_commit" and record.value:
                value, key = record.value, record.key
                commit = Commit(value["offset"], value["commit_timestamp_ms"], batch.partition, offset)
                state.commit(key["group_id"], key["topic"], key["partition"], commit)
    rows: list[LagRow] = []
    for at_ms in sorted({row.sampled_at_ms for row in outputs.watermarks}):
        sampled = [row for row in outputs.watermarks if row.sampled_at_ms == at_ms]
        ends = {row.partition: End(row.last_stable_offset) for row in sampled if row.topic == OFFSETS_TOPIC}
        marks = {
            TopicPartition(row.topic, row.partition): Watermark(
                at_ms, row.log_start_offset, row.high_watermark, row.last_stable_offset, 0, row.topic_id
            )
            for row in sampled
            if row.topic != OFFSETS_TOPIC
        }
        held = {place: Owner(owned=True, member_id=member) for place, member in owners.get(at_ms, {}).items()}
        rows += state.round(Round(at_ms, ends, marks), {group_id: GroupFacts("Stable", held)})
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_six_would_do(seed: int) -> None:
    """Goal: two members can't carry six partitions of ten records a second; six members with one partition each would
    work at four fifths of their pace."""
    reported, _ = found(OVERLOADED, seed)
    assert reported.members_needed == 6
    assert CapacityFinding.MORE_NEEDED in reported.findings
    assert CapacityFinding.MORE_WONT_HELP not in reported.findings


def test_the_pace_of_members_with_a_backlog() -> None:
    """Goal: over all seeds, the error of the pace is small, and the interval holds."""
    errors, held = [], 0
    for seed in SEEDS:
        reported, truth = found(OVERLOADED, seed)
        for each in reported.members:
            pace, processed = each.pace, truth.processed_per_s[each.member_id]
            assert pace.per_s is not None
            assert pace.per_s == pytest.approx(PACE_PER_S, rel=0.15)
            errors.append(abs(pace.per_s / processed - 1))
            held += (pace.low or 0.0) <= processed <= (pace.high or 0.0)
    assert len(errors) == 2 * len(SEEDS)
    assert median(errors) < 0.01
    assert held == len(errors)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pace_that_nobody_can_know(seed: int) -> None:
    """Goal: members that always keep up have a lower bound, which is true; fewer are never promised beyond it."""
    reported, _ = found(QUIET, seed)
    assert all(each.pace.per_s is None for each in reported.members)
    assert all(0 < (each.pace.at_least or 0.0) <= PACE_PER_S for each in reported.members)
    assert reported.is_bound
    assert CapacityFinding.ENOUGH in reported.findings
    assert not {CapacityFinding.MORE_NEEDED, CapacityFinding.MORE_WONT_HELP} & {*reported.findings}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_hot_partition(seed: int) -> None:
    """Goal: a partition that gets more than a member can process is named, and no number of members is asked for."""
    reported, _ = found(HOT, seed)
    assert [place.partition for place in reported.hot] == [5]
    assert {CapacityFinding.HOT_PARTITION, CapacityFinding.MORE_WONT_HELP} <= {*reported.findings}
    assert reported.members_needed is None


@pytest.mark.parametrize("seed", SEEDS)
def test_more_members_than_partitions(seed: int) -> None:
    reported, _ = found(IDLE, seed)
    assert reported.idle_members == 2
    assert CapacityFinding.IDLE_MEMBERS in reported.findings


def test_uneven_pace() -> None:
    """Goal: members that take twice as long are seen as slower, and no member is called slow among equal ones."""
    uneven = Counter(CapacityFinding.UNEVEN_PACE in found(UNEVEN, seed)[0].findings for seed in SEEDS)
    alike = Counter(CapacityFinding.UNEVEN_PACE in found(OVERLOADED, seed)[0].findings for seed in SEEDS)
    assert alike[True] == 0
    assert uneven[False] == 0
    for seed in SEEDS:
        reported, (slow, _) = found(UNEVEN, seed)
        paces = {each.member_id: each.pace.per_s or 0.0 for each in reported.members}
        assert max(paces[name] for name in slow) < min(pace for name, pace in paces.items() if name not in slow)

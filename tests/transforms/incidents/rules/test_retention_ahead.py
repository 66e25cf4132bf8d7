"""Goal: a group that is about to lose records to retention is warned while they can still be read, and no other group
is."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.kinds.incidents import LOST_TO_RETENTION, RETENTION_OVERTAKES
from groupledger.schemas.words import LagStatus, Severity
from groupledger.transforms.incidents.rules import LagRound, incidents
from lab.truth.made import RULES, T, facts

MINUTE_MS = 60_000
ROUNDS = 60
Row = dict[str, Any]


def rounds(
    *, consumed: int, segment: int = 300, begin: int = 10_000, partition: int = 0, **last: Any
) -> list[LagRound]:
    """Returns an hour of rounds: 60 records a minute are produced, `consumed` are committed, and the log's start
    follows by segments."""
    found = []
    for number in range(ROUNDS):
        commit, end = begin + consumed * number, 20_000 + 60 * number
        seen: Row = {"committed_offset": commit, "log_start_offset": (6_000 + 60 * number) // segment * segment}
        seen |= {"lag": end - commit, "status": LagStatus.OK} | (last if number == ROUNDS - 1 else {})
        at_ms = T + number * MINUTE_MS
        found.append(LagRound(topic="orders", partition=partition, sampled_at_ms=at_ms, **seen))
    return found


def reported(*of_rounds: list[LagRound]) -> list[Row]:
    seen = [each for line in of_rounds for each in line]
    as_of_ms = T + ROUNDS * MINUTE_MS
    return incidents(facts(lag_rounds=seen, as_of_ms=as_of_ms, assignments=[], members=[], rebalances=[]), RULES)


def test_a_group_that_stands_still() -> None:
    """Goal: all its partitions are one open incident, with the time of the first loss, the waiting records, the rows of
    the last round, and the setting to change; its id stays when it is looked at later."""
    line = rounds(consumed=0, status=LagStatus.STOPPED)
    (row,) = reported(line, rounds(consumed=0, partition=1, status=LagStatus.STOPPED))
    assert (row["kind"], row["severity"], row["is_open"]) == (RETENTION_OVERTAKES.name, Severity.WARNING, True)
    assert [(each["partition"], each["refused_offset"]) for each in row["partitions"]] == [(0, 10_000), (1, 10_000)]
    last_ms = T + (ROUNDS - 1) * MINUTE_MS
    assert row["proofs"][0] == {"table_name": "lag", "row_key": f"{last_ms}/g/orders/0"}
    left_s = 10_000 - (6_000 + 60 * (ROUNDS - 1)) // 300 * 300  # at a record a second
    assert f"from about 1970-01-12 {clock(last_ms + left_s * 1_000)} UTC on, and 27,080 records" in row["explanation"]
    assert row["setting_to_change"] == "retention.ms, retention.bytes, auto.offset.reset"
    assert row["first_seen_at"] == T * 1_000
    (later,) = reported(rounds(consumed=0, status=LagStatus.STOPPED, committed_offset=10_001))
    assert later["incident_id"] == row["incident_id"]


def clock(at_ms: int) -> str:
    return f"{at_ms // 3_600_000 % 24:02}:{at_ms // 60_000 % 60:02}"


def test_a_group_that_is_too_slow() -> None:
    """Goal: a group that reads more slowly than retention removes is warned, too, if that is certain."""
    (row,) = reported(rounds(consumed=30))
    assert row["kind"] == RETENTION_OVERTAKES.name


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(rounds(consumed=60, begin=20_000), id="a quiet group that has committed everything"),
        pytest.param(rounds(consumed=0, begin=9_560, status="stopped", lag=0), id="nothing is left, as markers show"),
        pytest.param(rounds(consumed=0, begin=17_000, status="stopped"), id="in the newer half of the log"),
        pytest.param(rounds(consumed=60), id="as fast as retention"),
        pytest.param(rounds(consumed=120), id="faster"),
        pytest.param(rounds(consumed=0, segment=100_000, status="stopped"), id="the start rests"),
        pytest.param(rounds(consumed=0, segment=1_200, status="stopped"), id="the start has hardly moved"),
        pytest.param(rounds(consumed=0)[-4:], id="too few rounds"),
        pytest.param(rounds(consumed=0, lag=None), id="the lag is not known"),
        pytest.param(rounds(consumed=0, log_start_offset=None), id="the start is not known"),
        pytest.param(rounds(consumed=0, log_start_offset=10_001), id="it is passed already"),
        pytest.param([], id="no rounds"),
    ],
)
def test_nobody_is_alarmed(line: list[LagRound]) -> None:
    """Goal: there is no warning if nothing is lost, if there is time, or if nobody can know."""
    assert reported(line) == []


def test_before_a_simulated_group_loses_records() -> None:
    """Goal: a simulated group is stopped for longer than its topic keeps records: the warning comes before the first
    record is lost, and none comes while the group reads."""
    simulation = prepare(SCENARIOS["retention-passes"], 1, 1)
    simulation.run(BEGAN_AT_MS + round(SCENARIOS["retention-passes"].hours * 3_600_000))
    outputs = simulation.take(is_last=True)
    commits = [
        (batch.timestamp_ms, record.key["partition"], record.value["offset"])
        for batch in outputs.batches
        for record in batch.records
        if record.record_type == "offset_commit" and record.value is not None
    ]
    stopped_ms = max(at_ms for at_ms, *_ in commits if at_ms < BEGAN_AT_MS + 20 * MINUTE_MS)
    seen: list[LagRound] = []
    warned: list[int] = []
    lost_ms = None
    for sample in outputs.watermarks:
        made = [offset for at_ms, number, offset in commits if number == 0 and at_ms <= sample.sampled_at_ms]
        if sample.topic.startswith("__") or sample.partition != 0 or not made:
            continue
        if sample.log_start_offset > made[-1]:
            lost_ms = sample.sampled_at_ms
            break
        status = LagStatus.STOPPED if sample.sampled_at_ms > stopped_ms else LagStatus.OK
        ends: Row = {"committed_offset": made[-1], "log_start_offset": sample.log_start_offset, "status": status}
        ends |= {"topic": sample.topic, "partition": 0, "lag": sample.high_watermark - made[-1]}
        seen.append(LagRound(sampled_at_ms=sample.sampled_at_ms, **ends))
        if reported_kinds(seen) == [RETENTION_OVERTAKES.name]:
            warned.append(sample.sampled_at_ms)
    assert lost_ms is not None
    assert warned
    assert stopped_ms < warned[0] < lost_ms
    assert LOST_TO_RETENTION.root == RETENTION_OVERTAKES.root


def reported_kinds(seen: list[LagRound]) -> list[str]:
    known = facts(lag_rounds=[*seen], as_of_ms=seen[-1].sampled_at_ms, assignments=[], members=[], rebalances=[])
    return [row["kind"] for row in incidents(known, RULES)]

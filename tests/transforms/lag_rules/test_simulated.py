"""Goal: on simulated clusters, lag is what the simulator knows to be true, round by round."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from coordinator.simulator.run import prepare
from coordinator.simulator.scenarios import SCENARIOS
from coordinator.simulator.simulation import BEGAN_AT_MS
from transforms.lag_rules import Commit, End, GroupFacts, LagRow, LagState, Round, Watermark

if TYPE_CHECKING:
    from coordinator.simulator.simulation import Outputs, Simulation

OFFSETS_TOPIC = "__consumer_offsets"
MINUTE_MS = 60_000


@lru_cache
def played(name: str) -> tuple[Simulation, list[list[LagRow]]]:
    """The rows of each round, after the whole log was read."""
    simulation = prepare(SCENARIOS[name], 1, None)
    simulation.run(BEGAN_AT_MS + round(SCENARIOS[name].hours * 60) * MINUTE_MS)
    outputs = simulation.take(is_last=True)
    state = LagState()
    for batch in outputs.batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            if record.record_type == "offset_commit":
                value = record.value or {"offset": None, "commit_timestamp_ms": batch.timestamp_ms}
                commit = Commit(value["offset"], value["commit_timestamp_ms"], batch.partition, offset)
                state.commit(record.key["group_id"], record.key["topic"], record.key["partition"], commit)
    return simulation, [list(state.round(*each)) for each in rounds(outputs)]


def rounds(outputs: Outputs) -> list[tuple[Round, dict[str, GroupFacts]]]:
    found: dict[int, tuple[Round, dict[str, GroupFacts]]] = {}
    ends: dict[int, dict[int, End]] = {}
    watermarks: dict[int, dict[tuple[str, int], Watermark]] = {}
    for row in outputs.watermarks:
        if row.topic == OFFSETS_TOPIC:
            ends.setdefault(row.sampled_at_ms, {})[row.partition] = End(row.last_stable_offset)
        else:
            watermarks.setdefault(row.sampled_at_ms, {})[row.topic, row.partition] = Watermark(
                row.sampled_at_ms, row.log_start_offset, row.high_watermark, row.last_stable_offset, 0, row.topic_id
            )
    for at_ms, read_ends in ends.items():
        states = {row.group_id: GroupFacts(row.state) for row in outputs.group_states if row.sampled_at_ms == at_ms}
        found[at_ms] = (Round(at_ms, read_ends, watermarks.get(at_ms, {})), states)
    return [found[at_ms] for at_ms in sorted(found)]


@pytest.mark.parametrize("name", ["stuck-consumer", "partitions-added"])
def test_time_lag(name: str) -> None:
    """Goal: the next record was appended within one sampling interval of when we say."""
    simulation, found = played(name)
    answers = [row for rows in found for row in rows if row.lag_seconds_method == "interpolated"]
    assert answers
    for row in answers:
        assert row.committed_offset is not None
        assert row.lag_seconds is not None
        log = simulation.topics.by_name[row.topic].partitions[row.partition]
        said_ms = row.sampled_at_ms - round(row.lag_seconds * 1_000)
        assert log.end_offset(said_ms - MINUTE_MS) <= row.committed_offset < log.end_offset(said_ms + MINUTE_MS)


def test_stuck_consumer_is_stalled() -> None:
    """Goal: the one that commits the same offset again and again is told, and only its partitions."""
    _, found = played("stuck-consumer")
    stalled = {(row.topic, row.partition) for rows in found for row in rows if row.status == "stalled"}
    assert len(stalled) == 2
    assert all(row.status != "stopped" for rows in found for row in rows)


def test_partitions_added() -> None:
    """Goal: a new partition has no row before its first commit, and never a lag of its whole log by mistake."""
    _, found = played("partitions-added")
    sizes = [len(rows) for rows in found if rows]
    assert (sizes[0], sizes[-1]) == (6, 9)
    assert sizes == sorted(sizes)
    assert all(row.lag is not None and row.raw_lag == row.lag for rows in found for row in rows)


def test_expired_offsets_have_no_lag() -> None:
    """Goal: when the group and its offsets are gone, so are its rows."""
    _, found = played("offset-expiry")
    assert any(found)
    assert found[-1] == []


def test_admin_reset_is_rewound() -> None:
    """Goal: a rewind by an administrator is told until it is made good."""
    _, found = played("admin-reset")
    statuses = [row.status for rows in found for row in rows]
    assert "rewound" in statuses
    assert statuses[-1] != "rewound"

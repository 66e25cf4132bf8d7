"""Goal: on simulated clusters, lag agrees with the simulator's truth, round by round."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import Commit, End, GroupFacts, LagRow, LagState, Round, Watermark

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.simulation import Outputs, Simulation

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
    watermarks: dict[int, dict[TopicPartition, Watermark]] = {}
    for row in outputs.watermarks:
        if row.topic == OFFSETS_TOPIC:
            ends.setdefault(row.sampled_at_ms, {})[row.partition] = End(row.last_stable_offset)
        else:
            watermarks.setdefault(row.sampled_at_ms, {})[TopicPartition(row.topic, row.partition)] = Watermark(
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
    """Goal: the one that commits the same offset again and again is reported, and only its partitions."""
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
    """Goal: a rewind by an administrator is reported until it is made good."""
    _, found = played("admin-reset")
    statuses = [row.status for rows in found for row in rows]
    assert "rewound" in statuses
    assert statuses[-1] != "rewound"


def between(name: str, first_minute: int, last_minute: int) -> list[LagRow]:
    """The rows of the rounds of some minutes; a run shifts its group's beginning by up to one."""
    _, found = played(name)
    first_ms, last_ms = (BEGAN_AT_MS + minute * MINUTE_MS for minute in (first_minute, last_minute))
    return [row for rows in found for row in rows if first_ms <= row.sampled_at_ms <= last_ms]


def test_topic_recreated() -> None:
    """Goal: while only commits of the former topic are there, no lag is given on the new one; then it is again."""
    before, after = between("topic-recreated", 3, 11), between("topic-recreated", 14, 19)
    assert {row.flags for row in before if row.status == "ok"} == {()}
    assert len(after) == 6 * 4
    assert all("topic_recreated" in row.flags and row.lag is None and row.lag_seconds is None for row in after)
    assert all(row.lag is not None and not row.flags for row in between("topic-recreated", 25, 30))


def test_retention_passes_the_consumer() -> None:
    """Goal: records that retention removed unread are lost, not lag, and grow by those produced; a restart ends the
    loss."""
    simulation, _ = played("retention-passes")
    lost = between("retention-passes", 17, 21)
    assert len(lost) == 5 * 4
    for row in lost:
        log_start = simulation.topics.by_name[row.topic].start_offset(row.partition, row.sampled_at_ms)
        assert row.committed_offset is not None
        assert row.messages_lost == log_start - row.committed_offset > 0
        assert row.lag == simulation.topics.by_name[row.topic].end_offset(row.partition, row.sampled_at_ms) - log_start
        assert "messages_lost" in row.flags
    assert all(row.messages_lost == 0 for row in between("retention-passes", 26, 30))


def test_idle_topic() -> None:
    """Goal: a group that has read all of a quiet topic is ok, with a lag of zero records and zero seconds, however old
    its last commit is; when records come again, no lag from before is made up."""
    idle = between("idle-topic", 9, 21)
    assert len(idle) == 13 * 4
    assert {(row.status, row.lag, row.lag_seconds) for row in idle} == {("ok", 0, 0.0)}
    again = [row for row in between("idle-topic", 23, 30) if row.lag_seconds is not None]
    assert again
    assert all(row.lag_seconds <= 2 * MINUTE_MS / 1_000 for row in again if row.lag_seconds is not None)


@pytest.mark.parametrize("name", ["idle-topic", "retention-passes", "stuck-consumer", "partitions-added"])
def test_commits_newer_than_the_sample(name: str) -> None:
    """Goal: a round counts what lay below the ends that it read, and so is never ahead of the log, though the whole log
    was known when it was computed; the last commit of all would have been, most of the time."""
    simulation, found = played(name)
    last = {(row.topic, row.partition): row.committed_offset or 0 for row in found[-1]}
    early = [row for rows in found[: len(found) // 2] for row in rows]
    ends = [simulation.topics.by_name[row.topic].end_offset(row.partition, row.sampled_at_ms) for row in early]
    assert all(row.raw_lag is not None and row.raw_lag >= 0 for row in early)
    assert sum(end < last[row.topic, row.partition] for end, row in zip(ends, early, strict=True)) > len(early) // 2

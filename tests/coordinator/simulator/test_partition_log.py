"""Goal: cleaning loses nothing that counts, and a read_committed reader sees what Kafka's would."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.handlers.offset_records import (
    new_offset_commit_record,
    new_offset_commit_tombstone_record,
)
from groupledger.coordinator.model.messages import OffsetToCommit
from groupledger.coordinator.model.operation import Batch
from groupledger.coordinator.simulator.partition_log import DELETE_RETENTION_MS, PartitionLog, cleaned

PRODUCERS = st.sampled_from([-1, -1, 5, 6])
COMMIT = st.tuples(st.just("commit"), PRODUCERS, st.integers(0, 2))
STEPS = st.lists(
    st.one_of(
        COMMIT,
        COMMIT,
        st.tuples(st.just("tombstone"), st.just(-1), st.integers(0, 2)),
        st.tuples(st.just("marker"), st.sampled_from([5, 6]), st.booleans()),
    ),
    max_size=25,
)


def log_of(steps: list[Any]) -> PartitionLog:
    log = PartitionLog()
    for number, (kind, producer_id, what) in enumerate(steps):
        records: tuple[Any, ...] = ()
        if kind == "commit":
            records = (
                new_offset_commit_record("g", OffsetToCommit(topic="t", partition=what, offset=number), number, -1),
            )
        elif kind == "tombstone":
            records = (new_offset_commit_tombstone_record("g", "t", what),)
        committed = what if kind == "marker" else None
        log.append(
            Batch(
                partition=0,
                base_offset=log.end_offset,
                timestamp_ms=number,
                records=records,
                producer_id=producer_id,
                producer_epoch=0,
                committed=committed,
            )
        )
    return log


def offsets_of(batches: list[Batch]) -> dict[int, int]:
    """Committed offset by partition, as a coordinator that loads these batches knows them."""
    coordinator = Coordinator(Config(offsets_topic_num_partitions=1))
    coordinator.load(0, batches, now_ms=0)
    shard = coordinator.shard(0)
    assert shard is not None
    return {partition: stored.value["offset"] for _, partition, stored in shard.offsets.committed.of_group("g")}


@settings(max_examples=200)
@given(STEPS)
def test_cleaning_keeps_the_state(steps: list[Any]) -> None:
    """Goal: a coordinator that loads a cleaned log knows the same as from the uncleaned one, now and after open
    transactions end."""
    log = log_of(steps)
    thin = cleaned(log.batches, log.last_stable_offset, DELETE_RETENTION_MS * 2)
    ends = [
        Batch(
            partition=0,
            base_offset=log.end_offset + number,
            timestamp_ms=0,
            records=(),
            producer_id=producer,
            producer_epoch=0,
            committed=True,
        )
        for number, producer in enumerate((5, 6))
    ]
    assert offsets_of(thin) == offsets_of(log.batches)
    assert offsets_of([*thin, *ends]) == offsets_of([*log.batches, *ends])
    offsets = [batch.base_offset for batch in thin]
    assert offsets == sorted(set(offsets))


@settings(max_examples=200)
@given(STEPS, st.integers(0, 25))
def test_reader_is_read_committed(steps: list[Any], cut: int) -> None:
    """Goal: however often it reads, the reader gets each committed batch below the last stable offset once."""
    whole = log_of(steps)
    log = log_of(steps[:cut])
    got = log.take_committed()
    for batch in whole.batches[cut:]:
        log.append(batch)
    got += log.take_committed()
    ended: dict[int, list[tuple[int, bool]]] = {}
    for batch in whole.batches:
        if batch.committed is not None:
            ended.setdefault(batch.producer_id, []).append((batch.base_offset, batch.committed))
    expected = []
    for batch in whole.batches:
        verdicts = [verdict for offset, verdict in ended.get(batch.producer_id, []) if offset > batch.base_offset]
        is_committed = batch.producer_id == -1 or (verdicts and verdicts[0])
        if batch.committed is None and is_committed and batch.base_offset < whole.last_stable_offset:
            expected.append(batch)
    assert got == expected


def test_long_logs_are_cleaned_as_they_grow() -> None:
    """Goal: a log with few keys stays short, and its reader still gets every record."""
    log = log_of([("commit", -1, number % 3) for number in range(10_000)])
    assert len(log.batches) < 2_100
    assert len(log.take_committed()) == 10_000

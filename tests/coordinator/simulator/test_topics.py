"""Goal: the ends of logs are a function of time that grows steadily, whatever the order of questions."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.client.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchPartition,
    ListOffsetsPartition,
)
from groupledger.coordinator.simulator.random_source import RandomSource
from groupledger.coordinator.simulator.topics import PartitionOfTopic, Topics
from groupledger.schemas.kafka.errors import Error

RATES = st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 5_000)), max_size=5)


@settings(max_examples=100)
@given(RATES, st.lists(st.integers(0, 600_000), min_size=2, max_size=6))
def test_ends_grow(changes: list[tuple[int, int]], times: list[int]) -> None:
    """Goal: a later time has no lower end, and a record comes when `next_record_ms` says, not before."""
    partition = PartitionOfTopic([0], [100], [60])
    now_ms = 0
    for after_ms, rate in changes:
        now_ms += after_ms
        partition.produce(rate, now_ms)
    ends = [partition.end_offset(time_ms) for time_ms in sorted(times)]
    assert ends == sorted(ends)
    assert ends[0] >= 100
    asked_ms = now_ms + times[0]
    next_ms = partition.next_record_ms(asked_ms)
    if next_ms is not None:
        assert partition.end_offset(next_ms) == partition.end_offset(asked_ms) + 1
        assert partition.end_offset(next_ms - 1) == partition.end_offset(asked_ms)


def test_what_brokers_answer() -> None:
    """Goal: listed offsets, fetches and their errors follow retention and production."""
    topics = Topics()
    topics.create("orders", 1, records_per_minute=60, now_ms=0, source=RandomSource(1), retention_ms=60_000)
    first = topics.by_name["orders"].end_offset(0, 0)
    now_ms = 180_000
    earliest = topics.listed(ListOffsetsPartition("orders", 0, EARLIEST_TIMESTAMP), now_ms)
    latest = topics.listed(ListOffsetsPartition("orders", 0, LATEST_TIMESTAMP), now_ms)
    assert (earliest.offset, latest.offset) == (first + 120, first + 180)
    fetched = topics.fetched(FetchPartition("orders", 0, first + 150), 10, now_ms)
    assert (fetched.next_offset, fetched.high_watermark, fetched.error) == (first + 160, first + 180, Error.NONE)
    assert topics.fetched(FetchPartition("orders", 0, first), 10, now_ms).error is Error.OFFSET_OUT_OF_RANGE
    assert topics.metadata("payments").error is Error.UNKNOWN_TOPIC_OR_PARTITION
    topics.add_partitions("orders", 3, records_per_minute=60, now_ms=now_ms)
    assert len(topics.metadata("orders").partitions) == 3
    assert topics.by_name["orders"].end_offset(2, now_ms) == 0

"""Goal: records come in the order of the log, all of them, or the last ones, also when they don't fit into memory."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from groupledger.jobs.ask.log_order import in_log_order, last_of_the_log

PLACES = [(partition, offset) for partition in range(7) for offset in range(40)]
SCHEMA = pa.schema([("kafka_partition", pa.int32()), ("kafka_offset", pa.int64()), ("name", pa.string())])


def batches(size: int) -> list[pa.RecordBatch]:
    """Returns the places in no order, in batches of that size."""
    shuffled = random.Random(size).sample(PLACES, len(PLACES))
    rows = [{"kafka_partition": one, "kafka_offset": two, "name": f"{one}/{two}"} for one, two in shuffled]
    found: list[pa.RecordBatch] = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=size)
    return found


def places(tables: list[pa.Table]) -> list[tuple[int, int]]:
    rows = [row for table in tables for row in table.to_pylist()]
    assert all(row["name"] == f"{row['kafka_partition']}/{row['kafka_offset']}" for row in rows)
    return [(row["kafka_partition"], row["kafka_offset"]) for row in rows]


@pytest.mark.parametrize("size", [1, 33, 500])
@pytest.mark.parametrize("bytes_max", [0, 1_000, 1 << 20])
def test_in_log_order(size: int, bytes_max: int) -> None:
    """Goal: whatever the batches are, and however little fits into memory, every row comes once and in order."""
    assert places([*in_log_order(batches(size), bytes_max)]) == PLACES


@pytest.mark.parametrize("count", [1, 5, 41, 1_000])
def test_the_last(count: int) -> None:
    """Goal: the last rows of the order, and all if there are no more."""
    assert places([*last_of_the_log(batches(33), count)]) == PLACES[-count:]


def test_no_rows() -> None:
    """Goal: nothing comes of nothing."""
    assert [*in_log_order([])] == []
    assert [*last_of_the_log([], 5)] == []

"""Goal: the offsets of an instant are those below its position in the log, and unknown where that is."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.transforms.offsets.offset_commits import commit_log
from groupledger.transforms.offsets.offsets_at import offsets_at
from tests.transforms.history.history_frames import START_MS, cooperative_group, frames, simple_group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime.fromtimestamp(START_MS / 1_000, timezone.utc)
CASES = [
    ("simple", 0.5, {0: 7, 2: 5}),  # offset -1 is no commit
    ("simple", 1.2, {0: 7}),  # 2 is removed
    ("simple", 1.7, {0: None}),  # the clocks disagree on whether 8 and 9 came before
    ("simple", 3, {0: 9}),  # by the log, not by the clocks
    ("g1", 68, {0: 4, 1: 9, 7: None}),  # nobody knows what the hole did to 7
]


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[tuple[str, float], dict[int, int | None]]:
    """All cases in one job."""
    tables = frames(spark, cooperative_group(), simple_group())
    log = commit_log(tables[COORDINATOR_RECORDS])
    parts = [
        offsets_at(log.where(F.col("group_id") == name), tables[COVERAGE], START + timedelta(seconds=seconds))
        .withColumn("seconds", F.lit(float(seconds)))
        .select("group_id", "seconds", "partition", "committed_offset", "status")
        for name, seconds, _ in CASES
    ]
    found: dict[tuple[str, float], dict[int, int | None]] = {}
    union: DataFrame = reduce(lambda one, other: one.union(other), parts)
    for name, seconds, partition, offset, status in union.collect():
        assert (status == "unknown") == (offset is None)
        found.setdefault((name, seconds), {})[partition] = offset
    return found


@pytest.mark.parametrize(("name", "seconds", "offsets"), CASES)
def test_offsets_at(
    answers: dict[tuple[str, float], dict[int, int | None]], name: str, seconds: float, offsets: dict[int, int | None]
) -> None:
    """Goal: the newest commit of each partition; no row for a removal or offset -1; null where nobody knows."""
    assert answers.get((name, seconds), {}) == offsets

"""Makes a warehouse as the jobs leave it, for the tests that only read it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.ingest.coverage import write_coverage
from groupledger.jobs.warehouse.source import read_source
from groupledger.schemas.tables.coverage import COVERAGE
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.simulated_log import HOUR_MS
from tests.transforms.history.history_frames import (
    compacted_group,
    cooperative_group,
    emptied_group,
    frames,
    simple_group,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SIMULATED = "test"
BY_HAND = "by_hand"
BY_HAND_DATE = "2025-10-09"
END_OFFSET = 1 << 20  # after all that an hour brings


def with_logs_by_hand(spark: SparkSession, history: Path, warehouse: Path) -> Path:
    """A copy of the simulated hour with its history, the cluster `test`; and in the same tables, as another cluster,
    the logs of `history_frames`, which were written by hand: holes, compaction and simple consumers."""
    shutil.copytree(history, warehouse)
    with open_test_ledger(spark, warehouse, SIMULATED) as ledger:
        source = read_source(ledger.storage, SIMULATED)
        assert source is not None
        ends = dict.fromkeys(source.readings, END_OFFSET)
        ledger.create(COVERAGE)
        write_coverage(ledger, source, ends, BEGAN_AT_MS + HOUR_MS)
    by_hand = frames(spark, cooperative_group(), compacted_group(), simple_group(), emptied_group())
    for table, rows in by_hand.items():
        changed = rows.withColumn("cluster", F.lit(BY_HAND))
        if "ingest_date" in rows.columns:
            changed = changed.withColumn("ingest_date", F.lit(BY_HAND_DATE).cast("date"))
        changed.write.format("delta").mode("append").save(str(warehouse / table.name))
    return warehouse

"""Goal: values of 1 MiB, together more than twice the heap, go through it: decoded or kept, none lost."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.warehouses.rows import group_metadata

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 2_500
ROWS_PER_FILE = 500
MEBIBYTE = 1 << 20
PROGRAM = """
import sys, threading
from groupledger.jobs.ingest.ingest_capture import ingest_capture
from groupledger.jobs.warehouse.ledger import Ledger
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.process.settings import load_settings
from groupledger.jobs.warehouse.storage import LocalStorage
from pathlib import Path

warehouse, capture = sys.argv[1:]
spark = spark_session("large values", {"spark.driver.memory": "1g"})
storage = LocalStorage(Path(warehouse))
with Lease(storage, "test", "pytest", 60) as lease:
    ledger = Ledger(spark, warehouse, "test", storage=storage, lease=lease, say=print, settings=load_settings())
    totals = ingest_capture(ledger, capture, threading.Event(), recover=False)
print(totals.rows, totals.quarantined)
"""


def is_whole(offset: int) -> bool:
    return offset % 50 == 0


@pytest.mark.spark
@pytest.mark.slow
def test_values_of_one_mebibyte(tmp_path: Path) -> None:
    """Goal: with a 1 GiB driver all rows arrive; one in fifty is a group's metadata, the others are kept undecoded."""
    capture = tmp_path / "capture"
    capture.mkdir()
    # Bytes that compress, so that the test's disk stays small; on their way they are as large as any.
    broken = bytes(MEBIBYTE)
    key, value = group_metadata("consumer", subscription=broken)
    for first in range(0, ROWS, ROWS_PER_FILE):
        offsets = range(first, first + ROWS_PER_FILE)
        table = pa.table(
            {
                "key": pa.array([key if is_whole(offset) else b"\x7f\x7f" for offset in offsets], pa.binary()),
                "value": pa.array([value if is_whole(offset) else broken for offset in offsets], pa.binary()),
                "topic": pa.array(["__consumer_offsets"] * ROWS_PER_FILE),
                "partition": pa.array([0] * ROWS_PER_FILE, pa.int32()),
                "offset": pa.array(offsets, pa.int64()),
                "timestamp": pa.array([0] * ROWS_PER_FILE, pa.timestamp("ms", tz="UTC")),
            }
        )
        pq.write_table(table, capture / f"{first}.parquet", compression="zstd", row_group_size=50)
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "warehouse"), str(capture)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"},
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    assert answer.stdout.splitlines()[-1] == f"{ROWS} {ROWS - ROWS // 50}"

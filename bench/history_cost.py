"""Does an upsert cost more as the history grows? The `assignments` of a thousand groups, from small to large.

Each size is written as closed rows in ten commits, beside 5,000 open rows; then batches that end 200 intervals and
begin 200 others are upserted as `groupledger history` does it. Printed are the median of five, what Delta says it
rewrote, and the ratio to the smallest size. The first size also pays for warming up.

    python -m bench.history_cost [--rows 1000000 10000000 50000000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from jobs.session import spark_session
from jobs.upsert import upsert
from jobs.warehouse import create_table, table_path
from schemas.tables.assignments import ASSIGNMENTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPEN_ROWS, BATCH_ROWS, RUNS, COMMITS, GROUPS = 5_000, 200, 5, 10, 1_000
INTERVAL = 1_000  # offsets, and seconds, that an interval lasts
MICROS = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 50_000_000])
    spark = spark_session("groupledger history cost")
    first: float | None = None
    for rows in parser.parse_args().rows:
        with tempfile.TemporaryDirectory(prefix="groupledger-cost-") as warehouse:
            seconds, copied, files = measure(spark, warehouse, rows)
        first = first or seconds
        print(
            f"{rows:>12,} rows: {seconds:5.2f} s, {seconds / first:4.2f} of the smallest; {copied:,} rows copied and"
            f" {files} files rewritten by each upsert",
            flush=True,
        )
    spark.stop()


def measure(spark: SparkSession, warehouse: str, rows: int) -> tuple[float, int, int]:
    """Median seconds of an upsert, and the most rows copied and files removed by one."""
    from delta.tables import DeltaTable

    create_table(spark, warehouse, ASSIGNMENTS)
    path = table_path(warehouse, ASSIGNMENTS)
    for number in range(COMMITS):
        part = rows // COMMITS
        intervals(spark, number * part, part, is_open=False).write.format("delta").mode("append").save(path)
    intervals(spark, rows, OPEN_ROWS, is_open=True).write.format("delta").mode("append").save(path)
    seconds, copied, files = [], 0, 0
    for run in range(RUNS):
        ended = intervals(spark, rows + run * BATCH_ROWS, BATCH_ROWS, is_open=False)
        begun = intervals(spark, rows + OPEN_ROWS + run * BATCH_ROWS, BATCH_ROWS, is_open=True)
        started = time.perf_counter()
        upsert(warehouse, ASSIGNMENTS, ended.unionByName(begun))
        seconds.append(time.perf_counter() - started)
        (row,) = DeltaTable.forPath(spark, path).history(1).select("operationMetrics").collect()
        copied = max(copied, int(row[0]["numTargetRowsCopied"]))
        files = max(files, int(row[0]["numTargetFilesRemoved"]))
    return statistics.median(seconds), copied, files


def intervals(spark: SparkSession, first: int, count: int, *, is_open: bool) -> DataFrame:
    number = F.col("id")
    values = {
        "cluster": F.lit("bench"),
        "group_id": F.concat(F.lit("group-"), (number % GROUPS).cast("string")),
        "incarnation": F.lit(1),
        "topic": F.lit("orders"),
        "partition": number % 50,
        "from_offset": number,
        "valid_from": F.timestamp_micros(number * MICROS),
        "member_id": F.concat(F.lit("member-"), number.cast("string")),
        "is_open": F.lit(int(is_open)),
    }
    if not is_open:
        values |= {"to_offset": number + INTERVAL, "valid_to": F.timestamp_micros((number + INTERVAL) * MICROS)}
    rows = spark.range(first, first + count, 1, 2)
    return rows.select(
        *[values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in ASSIGNMENTS.schema]
    )


if __name__ == "__main__":
    main()

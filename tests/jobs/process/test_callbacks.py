"""Goal: a process that starts streaming queries time and again keeps no connection for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.process.session import close_idle_callbacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES, KEPT_MAX = 6, 3  # queries that were used since the last time are kept


def sockets() -> int:
    links = (path.readlink().name for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum(name.startswith("socket:") for name in links)


def run_query(spark: SparkSession, folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / f"{number}.txt").write_text("a line\n")
    seen: list[int] = []
    query = (
        spark.readStream.text(str(folder / "in"))
        .writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert seen == [1]


def test_connections_of_queries_that_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: their number does not grow with the number of queries, and a later query still calls back."""
    close_idle_callbacks(spark)
    close_idle_callbacks(spark)
    before = sockets()
    for number in range(QUERIES):
        run_query(spark, tmp_path, number)
        close_idle_callbacks(spark)
    assert sockets() - before <= KEPT_MAX

"""Goal: a task of Python begins without reading archives, and is answered without a wait, however many came before."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pytest

from groupledger.jobs.process.jar_hashes import OLDER, spark_release
from groupledger.jobs.process.python_daemon import answered_at_once, without_archives

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


def told_by_a_task(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys
    from zipimport import zipimporter

    import pyspark

    archives = [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    yield pa.RecordBatch.from_pydict({"pyspark": [pyspark.__file__], "archives": [archives]})


@pytest.mark.skipif(spark_release() != OLDER, reason="from Spark 4.1 on a task does not read the archives again")
def test_a_task_has_no_archives(spark: SparkSession) -> None:
    """Goal: Spark's own modules come from files, in the process of one task and of the next."""
    import pyspark

    rows = spark.range(1, numPartitions=1).mapInArrow(told_by_a_task, "pyspark string, archives array<string>")
    found = [row for _ in range(2) for row in rows.toArrow().to_pylist()]
    assert [row["archives"] for row in found] == [[], []]
    assert {row["pyspark"] for row in found} == {pyspark.__file__}


def test_another_spark_keeps_its_archives(tmp_path: Path) -> None:
    """Goal: only what pip has installed is found beside the archives, and what others have put there stays."""
    home = tmp_path / "pyspark"
    archive = str(home / "python/lib/pyspark.zip")
    path = ["/work", archive, str(home / "jars/spark-core.jar"), "/mine.zip", str(tmp_path)]
    assert without_archives(path, home) == path
    home.mkdir()
    (home / "__init__.py").touch()
    assert without_archives(path, home) == ["/work", "/mine.zip", str(tmp_path)]
    assert without_archives([archive], home) == [archive]


def test_work_is_done() -> None:
    """Goal: a task reads and writes as it would, on a connection that stays open."""

    def work(told: BinaryIO, answers: BinaryIO) -> None:
        answers.write(told.readline())
        answers.flush()

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as jvm:
        worker, _ = server.accept()
        with worker, worker.makefile("rb") as told, worker.makefile("wb") as answers:
            for task in (b"one\n", b"two\n"):
                jvm.sendall(task)
                answered_at_once(work)(told, answers)
                assert jvm.recv(10) == task

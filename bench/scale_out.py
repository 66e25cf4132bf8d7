"""Measures the same work on one, two and four cores of a Spark cluster whose executors are processes of their own.

    python -m bench.scale_out [--records 3000000] [--groups 10000]

The work is to ingest a capture, and to fold the first history of as many records. Each case is a `spark-submit` of its
own, which first does the same with a tenth of the records, to warm up. The program prints the seconds, how many times
as fast as one core they are, and how the cluster shared the tasks. It ends with 1 if an executor had no task, or if the
cases' tables have different numbers of rows. Executors, driver and writer share the machine: if it has two cores, four
can't be faster than two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from deltalake import DeltaTable

from bench.first_fold import BEGAN_AT, PARTITIONS, write_records
from groupledger.jobs.derive.history import update_history
from groupledger.jobs.process.session import local_jars, spark_session
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.warehouses.ledgers import ingest, open_test_ledger
from lab.warehouses.rows import offset_commit

# Workers, and cores of each.
CASES = ((1, 1), (2, 1), (2, 2))
FILES, WARM_UP = 8, 10
SIZES = {"spark.driver.memory": "3g", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
EXECUTOR_MB = 2_048
COUNTED = ("coordinator_records", "generations", "members", "open_groups")


def write_commits(folder: Path, records: int, groups: int) -> None:
    """Writes a capture: commits of one topic by all groups in turns."""
    folder.mkdir()
    of_groups = [offset_commit(group_id=f"group-{group}", partition=group % 4) for group in range(groups)]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*of_groups, strict=True))
    each = -(-records // FILES)
    for number in range(FILES):
        offsets = pa.array(range(number * each, min((number + 1) * each, records)), pa.int64())
        of_record = pa.array([offset % groups for offset in offsets.to_pylist()])
        columns = {
            "key": keys.take(of_record),
            "value": values.take(of_record),
            "topic": pa.array([OFFSETS_TOPIC] * len(offsets)),
            "partition": pa.array([group % PARTITIONS for group in of_record.to_pylist()], pa.int32()),
            "offset": offsets,
            "timestamp": pa.array([int(BEGAN_AT.timestamp() * 1_000) + at for at in offsets.to_pylist()]).cast(
                pa.timestamp("ms", "UTC")
            ),
        }
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")


def work(spark: Any, folder: Path) -> dict[str, Any]:
    """Does the work in new warehouses, and returns its seconds and the numbers of rows written."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        ingested, folded = Path(made) / "ingested", Path(made) / "folded"
        shutil.copytree(folder / "records", folded)
        began_s = time.perf_counter()
        ingest(spark, ingested, folder / "capture")
        ingest_s = time.perf_counter() - began_s
        with open_test_ledger(spark, folded) as ledger:
            began_s = time.perf_counter()
            update_history(ledger, threading.Event())
            fold_s = time.perf_counter() - began_s
        places = [ingested / COUNTED[0], *(folded / name for name in COUNTED[1:])]
        return {"ingest": ingest_s, "fold": fold_s, "rows": [DeltaTable(at).count() for at in places]}


def measure(folder: Path) -> None:
    """Runs in the submitted session, and prints the measurements as JSON."""
    spark: Any = spark_session("groupledger scale out")
    work(spark, folder / "small")
    found = work(spark, folder / "large")
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 - no public way
    executor_settings = [executors.apply(number) for number in range(executors.size())]
    found["tasks"] = {each.id(): each.totalTasks() for each in executor_settings if each.id() != "driver"}
    found["shuffle"] = spark.conf.get("spark.sql.shuffle.partitions")
    spark.stop()
    print(json.dumps(found))


def submitted(folder: Path, workers: int, cores: int) -> dict[str, Any]:
    home = Path(pyspark.__file__).parent
    executor_settings = {"spark.cores.max": str(workers * cores), "spark.executor.memory": f"{EXECUTOR_MB}m"}
    settings = {**SIZES, **executor_settings, "spark.pyspark.python": sys.executable}
    command = [
        *(str(home / "bin" / "spark-submit"), "--master", f"local-cluster[{workers},{cores},{EXECUTOR_MB}]"),
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        *("--jars", ",".join(local_jars()), __file__, "--work", str(folder)),
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=folder, env=environment)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        measure(asked.work)
        return
    with tempfile.TemporaryDirectory(prefix="groupledger-scale-out-") as made:
        for name, records in (("small", asked.records // WARM_UP), ("large", asked.records)):
            (Path(made) / name).mkdir()
            write_commits(Path(made) / name / "capture", records, asked.groups)
            write_records(Path(made) / name / "records", records, asked.groups)
        cases = [(workers * cores, submitted(Path(made), workers, cores)) for workers, cores in CASES]
    _, one = cases[0]
    for cores, found in cases:
        figures = [f"{name} {found[name]:.1f} s, {one[name] / found[name]:.2f} times" for name in ("ingest", "fold")]
        print(f"{cores} cores: {'; '.join(figures)}; tasks {found['tasks']}, shuffles of {found['shuffle']}")
    is_shared = all(found["tasks"] and all(found["tasks"].values()) for _, found in cases)
    sys.exit(int(not is_shared or any(found["rows"] != one["rows"] for _, found in cases)))


if __name__ == "__main__":
    main()

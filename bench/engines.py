"""Shows that both engines of `groupledger sql` answer alike: all tables, the view and every named query of warehouses.

    python -m bench.engines DIRECTORY_OR_ARCHIVE...

    groupledger demo && python -m bench.engines demo/warehouse tests/data/warehouses/*.tar.gz

The answers are compared as multisets. The parameters of a query are the group with the most commits, the topic with the
most intervals of ownership, and the middle of the time that is covered. The run ends with 1 if an answer differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger.jobs.ask import engine, spark_engine
from groupledger.jobs.ask.named_queries import named_queries
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.session import spark_session
from groupledger.jobs.warehouse.tables import Tables
from lab.warehouses.releases import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

TIMEOUT_S = 600
VALUES = {
    "group": "SELECT group_id FROM offset_commits GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
    "topic": "SELECT topic FROM assignments GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
    "at": "SELECT CAST(min(from_time) + (max(to_time) - min(from_time)) / 2 AS VARCHAR) FROM coverage",
}


def opened(path: Path, stack: ExitStack) -> Path:
    """Returns a warehouse, unpacked if it is an archive of one."""
    if path.is_dir():
        return path
    return unpacked(path, Path(stack.enter_context(tempfile.TemporaryDirectory()))) / "warehouse"


def questions(warehouse: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yields the name of each question, its text and its parameters; of the named queries, those whose tables exist."""
    snapshots = Snapshots(str(warehouse))
    yield from ((f"TABLE {name}", f"TABLE {name}", {}) for name in [*sorted(snapshots.existing), "offset_commits"])
    for query in named_queries():
        needed = [each.name for each in query.parameters if each.value is None]
        given = {name: str(by_duckdb(warehouse, VALUES[name], {}).column(0)[0].as_py()) for name in needed}
        yield query.name, query.text, query.arguments(given)


def by_duckdb(warehouse: Path, text: str, parameters: dict[str, str]) -> pa.Table:
    return engine.ask(Snapshots(str(warehouse)), text, parameters)


def rows(answer: pa.Table) -> Counter[str]:
    return Counter(map(repr, answer.to_pylist()))


def differences(spark: SparkSession, warehouse: Path) -> int:
    """Prints a line for each question, and returns how many got different answers."""
    views, different = spark_engine.register_views(Tables(spark, str(warehouse))), 0
    for name, text, parameters in questions(warehouse):
        try:
            begin = time.perf_counter()
            one = by_duckdb(warehouse, text, parameters)
            middle = time.perf_counter()
        except InputError as error:
            if "has no table" not in str(error):
                raise
            print(f"{'':25}  not there: {name}")
            continue
        other = spark_engine.ask(spark, views, text, parameters, timeout_s=TIMEOUT_S)
        is_equal = (one.column_names, rows(one)) == (other.column_names, rows(other))
        different += not is_equal
        took = f"{middle - begin:6.2f} s {time.perf_counter() - middle:6.2f} s"
        print(f"{one.num_rows:7,} {took}  {'equal' if is_equal else 'DIFFERENT'}: {name}", flush=True)
    return different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouses", nargs="+", type=Path, metavar="DIRECTORY_OR_ARCHIVE")
    spark, different = spark_session("engines"), 0
    with ExitStack() as stack:
        for path in parser.parse_args().warehouses:
            print(f"\n{path}: rows, by DuckDB, by Spark")
            different += differences(spark, opened(path, stack))
    spark.stop()
    print(f"\n{different} answers differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()

"""Runs one simulated day through the pipeline of several environments, and compares all tables and the times.

    python -m bench.spark_versions PYTHON PYTHON... [--rounds 2] [--seed 1]

Each PYTHON is the interpreter of an environment with groupledger and a version of Spark, such as
`.matrix/spark-4.0/bin/python` (`make test-matrix` makes these environments, and runs this). All environments read the
same capture, samples and logs, and take turns, so that other work on the machine affects all of them. The tables of
each run have to equal those of the first run, as multisets of rows without the columns about the run; otherwise the
exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.faults.contents import contents, differences

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "groupledger.jobs.cli.main"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pythons", nargs="+", type=Path, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        day = Path(folder) / "day"
        run(sys.executable, "simulate", "--scenario", "demo", "--seed", str(asked.seed), "--out", str(day))
        return compare(asked.pythons, asked.rounds, day, Path(folder))


def compare(pythons: list[Path], rounds: int, day: Path, folder: Path) -> int:
    expected, wrong = None, 0
    for number in range(rounds):
        for index, python in enumerate(pythons):
            warehouse = folder / f"{number}-{index}"
            times = [play(str(python), day, warehouse, step) for step in ("import-logs", "pipeline")]
            found = contents(warehouse)
            rows = sum(each.total() for each in found.values())
            print(f"{spark_of(python)}: {len(found)} tables, {rows:,} rows")
            print(f"  import-logs {times[0]:.1f} s, pipeline {times[1]:.1f} s")
            expected = expected or found
            lines = differences(found, expected)
            print("\n".join(lines or ["  all tables equal those of the first run"]), flush=True)
            wrong += bool(lines)
    return 1 if wrong else 0


def play(python: str, day: Path, warehouse: Path, step: str) -> float:
    """Runs a step in an environment, and returns its seconds, including the start of Spark."""
    began = time.monotonic()
    logs = ("--request-log", str(day / "request-log"), "--server-log", str(day / "server-log"))
    topic = ("--capture", str(day / "capture"), "--samples", str(day))
    run(python, step, *(logs if step == "import-logs" else topic), "--warehouse", str(warehouse), "--cluster", "demo")
    return time.monotonic() - began


def run(python: str, *words: str) -> None:
    """Runs a groupledger command; its output is shown only if it fails."""
    jars = Path(python).parent.parent / "jars"
    environment = {**os.environ, **({"GROUPLEDGER_JARS": str(jars)} if jars.is_dir() else {})}
    answer = subprocess.run(
        [python, "-m", COMMAND, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        sys.exit(f"{python} {' '.join(words)} ended with {answer.returncode}:\n{answer.stderr}")


def spark_of(python: Path) -> str:
    question = 'from importlib.metadata import version as v; print(f\'pyspark {v("pyspark")}, DuckDB {v("duckdb")}\')'
    return subprocess.run([python, "-c", question], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

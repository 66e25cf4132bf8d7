"""Shows that Telegraf's input `burrow` reads our Burrow interface: all groups, partitions and topics, without an error.

    python -m bench.telegraf [--version v1.34.0]

It builds a program from Telegraf's own package (`telegraf_burrow.go`), which requires Go and, the first time, a
download and some minutes. The program gathers from a server with the demo's tables. It has to find everything that is
in the newest round of these tables.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import copy

from bench.asking import served
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.clusters import clusters_of
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.ask.snapshots import Snapshots
from groupledger.jobs.demo.shipped import ends_now, unpack

PROGRAM = Path(__file__).with_name("telegraf_burrow.go")
MODULE = "github.com/influxdata/telegraf"


def built(folder: Path, version: str) -> Path:
    copy(PROGRAM, folder / "main.go")
    for words in (
        ("mod", "init", "telegraf_burrow"),
        ("get", f"{MODULE}@{version}"),
        ("mod", "tidy", "-e"),
        ("build", "-o", "gather", "."),
    ):
        subprocess.run(["go", *words], cwd=folder, check=True, capture_output=True)
    return folder / "gather"


def expected(warehouse: Path) -> dict[str, int]:
    """Returns how many points of each kind the newest rounds of the tables give."""
    (cluster,) = clusters_of(Snapshots(str(warehouse)))
    tables = ClusterRows(str(warehouse), cluster)
    rounds = {table: last_round(tables, table) for table in ("lag", "watermarks")}
    lag, ends = (tables.rows(table, *of_round(at)) for table, at in rounds.items() if at is not None)
    with_commit = [row for row in lag if row["committed_offset"] is not None]
    return {
        "burrow_group": len({row["group_id"] for row in lag}),
        "burrow_partition": len(with_commit),
        # A point for each partition of a topic, from the first on.
        "burrow_topic": sum(
            1 + max(row["partition"] for row in ends if row["topic"] == topic)
            for topic in {row["topic"] for row in ends}
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="v1.34.0")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gather, warehouse = built(Path(folder), asked.version), Path(folder, "warehouse")
        unpack(warehouse, ends_now())
        counts = expected(warehouse)
        server, port, _ = served(warehouse)
        try:
            words = [str(gather), f"http://127.0.0.1:{port}"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        finally:
            server.terminate()
            server.wait(timeout=60)
    print(f"Telegraf {asked.version} gathered:\n{done.stdout}{done.stderr}In the tables are:")
    there = "".join(f"{name} {count}\n" for name, count in counts.items())
    print(there, end="")
    sys.exit(0 if done.stdout == there else 1)


if __name__ == "__main__":
    main()

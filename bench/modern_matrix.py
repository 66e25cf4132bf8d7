"""Measures how true the history of real share and streams groups is, with a broker and Kafka's own clients.

    python -m bench.modern_matrix [--runs 1] [--steps 12] [--seed N]

In each run a share group and a streams group go through random joins, leaves, kills, stalls, subscriptions, standbys
and more partitions (`lab.kafka.modern_matrix`). Differences are printed, and the run ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from lab.kafka.local_broker import LocalBroker
from lab.kafka.modern_groups_log import PROPERTIES
from lab.kafka.modern_matrix import play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=12, help="of each group")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    counts, wrong = Counter[str](), 0
    for run in range(arguments.runs):
        with (
            tempfile.TemporaryDirectory(prefix="groupledger-modern-") as directory,
            LocalBroker(Path(directory), properties=PROPERTIES) as broker,
        ):
            dice = Random(f"{arguments.seed} {run}")  # noqa: S311 - repeatable, not secret
            found = play(broker, dice, arguments.steps)
        counts += found.counts
        wrong += len(found.wrong)
        print(f"seed {arguments.seed}, run {run}: {len(found.wrong)} wrong", flush=True)
        for line in found.wrong:
            print(f"  {line}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"{what:<34}{count:>9,}")
    print(f"{'wrong':<34}{wrong:>9,}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

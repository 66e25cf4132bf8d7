"""Measures how true the history of KIP-848 groups is: compares it with what the simulator's coordinator knew.

Each scenario of the consumer protocol is played with several seeds, and the history folded from its records; owners are
compared behind every operation, epochs with their causes and members row by row. The run ends with 1 if one is wrong.

    python -m bench.modern_accuracy [--seeds 20]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from lab.truth.modern_simulated import PLAYED, compare

PROCESSES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    played = [*product(PLAYED, range(1, parser.parse_args().seeds + 1))]
    compared, wrong = Counter[str](), Counter[str]()
    with ProcessPoolExecutor(PROCESSES) as pool:
        for (name, seed), found in zip(played, pool.map(compare, *zip(*played, strict=True)), strict=True):
            for what, (count, differences) in found.items():
                compared[what] += count
                wrong[what] += len(differences)
                for line in differences[:3]:
                    print(f"{name}, seed {seed}, {what}: {line}", flush=True)
    print(f"{len(played):,} lives\n{'compared':<30}{'rows':>10}{'wrong':>7}")
    for what, count in compared.items():
        print(f"{what:<30}{count:>10,}{wrong[what]:>7,}")
    sys.exit(1 if wrong.total() else 0)


if __name__ == "__main__":
    main()

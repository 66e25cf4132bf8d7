"""Measures how true the history of KIP-848, share and streams groups is: compares it with the simulator's truth.

Each scenario of such groups is played with several seeds, and the history is folded from its records. The holders of
partitions are compared after every operation; epochs with their causes, and members, are compared row by row. The run
ends with 1 if one of them is wrong. With --only, only the scenarios whose names begin with its value are played.

    python -m bench.modern_accuracy [--seeds 20] [--only share-]
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
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    names = [name for name in PLAYED if name.startswith(arguments.only)]
    played = [*product(names, range(1, arguments.seeds + 1))]
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

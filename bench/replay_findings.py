"""Plays runs without faults, and passes them through the replay of `validate`: none may give a finding.

The runs are every scenario of the simulator except the day, and scaling and rolling restarts with every assignor and
with dynamic, static and mixed members, one seed after the other. Findings are printed, and the run ends with 1 if there
is one.

    python -m bench.replay_findings [--runs 100] [--seed 1]
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import count, islice

from groupledger.transforms.history.rules.events import GroupRecord
from lab.truth.runs import RUNS, play_run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    runs = islice(((name, seed) for seed in count(arguments.seed) for name in RUNS), arguments.runs)
    records = findings = 0
    seconds = 0.0
    for name, seed in runs:
        for group in play_run(name, seed):
            records += sum(isinstance(entry, GroupRecord) for entry in group.log)
            started = time.process_time()
            found = group.findings()
            seconds += time.process_time() - started
            findings += len(found)
            for finding in found:
                print(f"{name}, seed {seed}: {finding}")
    print(
        f"{arguments.runs} clean runs: {findings} findings in {records:,} group records,"
        f" replayed in {seconds:.2f} s of CPU time"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

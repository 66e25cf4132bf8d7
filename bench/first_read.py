"""Measures how much of an old topic its first read recovers.

An hour of ten groups is simulated, and Kafka's cleaner works on their log until a ledger reads it for the first time.
The program counts the rebalances whose two records are left, and how many of these have their changes in the history:
once if everything that was read counts as compacted, as in earlier releases, and once with what the log's batch headers
prove. The run ends with 1 if a claim is false.

    python -m bench.first_read [--hours 2] [--cleanings 30]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage
from lab.truth.claims import false_claims
from lab.truth.histories import Tables
from lab.truth.thinned_passes import Passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=2, help="simulated, each with its own seed")
    parser.add_argument("--cleanings", type=int, default=30, help="of each hour")
    arguments = parser.parse_args()
    counts, false = Counter[str](), 0
    for seed in range(arguments.hours):
        for cleaning in range(arguments.cleanings):
            passes = Passes(seed, cleaning)
            passes.run(read_share=0)
            counts.update(rebalances(passes))
            false += false_count(passes)
        print(f"seed {seed}: {false:,} false claims so far", flush=True)
    of_left = counts["with both records left"]
    print(f"\n{'rebalances':<44}{'number':>9}{'of those left':>15}")
    for what, count in counts.items():
        print(f"{what:<44}{count:>9,}{count / of_left if of_left else 0:>15.1%}")
    sys.exit(1 if false else 0)


def rebalances(passes: Passes) -> Counter[str]:
    """Returns how many rebalances there were, have both records left, and are recovered by each rule."""
    before = {group_id: Tables() for group_id in passes.truth}
    passes.take(before, passes.read, [Coverage(0, Completeness.COMPACTED)])
    found = Counter[str]()
    for group_id, truth in passes.truth.items():
        offsets = sorted(row["kafka_offset"] for row in truth.table("generations"))
        left = {
            at for last, at in zip([None, *offsets], offsets, strict=False) if at in passes.read and last in passes.read
        }
        happened = {row["kafka_offset"] for row in truth.table("rebalances") if not row["is_hole"]}
        found["in the whole log"] += len(happened)
        found["with both records left"] += len(happened & left)
        found["found where all is taken for compacted"] += len(rebalance_offsets(before[group_id]) & happened)
        found["found by what the headers prove"] += len(rebalance_offsets(passes.tables[group_id]) & happened)
    return found


def rebalance_offsets(tables: Tables) -> set[int]:
    return {row["kafka_offset"] for row in tables.table("rebalances") if not row["is_hole"]}


def false_count(passes: Passes) -> int:
    found = passes.stretches(passes.known_until_ms)
    until_ms = (BEGAN_AT_MS, passes.cleaned.now_ms)
    return sum(
        len(false_claims(tables, passes.truth[group_id], found, until_ms, passes.random))
        for group_id, tables in passes.tables.items()
    )


if __name__ == "__main__":
    main()

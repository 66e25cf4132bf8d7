"""Measures how true groupledger is while brokers fail, the log cleaner works, and the machine is slow.

Three real brokers coordinate groups of all types: Java, librdkafka and kafka-python consumers of the classic protocol
and of KIP-848, and Java's share consumers and Streams applications. A seed decides when the brokers are killed and come
back, are frozen, or lose leadership. In calm times clients are killed or closed (`lab.kafka.cluster_play`). A monitor
runs beside the cluster, and a pipeline afterwards. `tests/broker/test_broken_cluster.py` is a short form.

    python -m bench.cluster [--seed 1] [--minutes 20] [--release 4.4] [--monitor-cpu-share 0.3] [--keep FOLDER]
    python -m bench.cluster --again FOLDER     # judges a run that was kept, with today's rules

Owners are compared with what the clients reported and Admin described, members and epochs with what Admin described
each second. Each row of live lag is compared with what the brokers reported before and after it, and at rest with
Admin. The causes of departures, incidents and `why` are compared with what was done. The run prints how many answers
were right, not known and wrong, each wrong one in a line, and ends with 1 if there is a wrong one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.kafka.cluster_answers import judged, read_truth
from lab.kafka.cluster_play import Plan, play
from lab.kafka.cluster_product import AFTER, AGAIN, judge_again
from lab.kafka.local_broker import JARS_OF_RELEASE
from lab.kafka.monitor_process import LIVE
from lab.truth.cluster_judge import OUTCOMES

if TYPE_CHECKING:
    from lab.truth.cluster_judge import Tally

SAID = {LIVE: "the monitor's warehouse", AFTER: "a pipeline afterwards", AGAIN: "the monitor's records, judged again"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--release", default="4.4", help="of Kafka: 4.2 or 4.4")
    parser.add_argument("--monitor-cpu-share", type=float, help="the part of the time in which the monitor may run")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where all of it stays")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="judge a run that was kept")
    arguments = parser.parse_args()
    release = ".".join(arguments.release.split(".")[:2])
    if release not in JARS_OF_RELEASE:
        parser.error(f"--release is one of {', '.join(JARS_OF_RELEASE)}.")
    if arguments.monitor_cpu_share is not None and not 0 < arguments.monitor_cpu_share < 1:
        parser.error("--monitor-cpu-share is above 0 and below 1.")
    with tempfile.TemporaryDirectory(prefix="groupledger-cluster-") as made:
        folder = (arguments.again or arguments.keep or Path(made)).resolve()
        if arguments.again is None:
            jars, share = JARS_OF_RELEASE[release], arguments.monitor_cpu_share
            play(folder, Plan(seed=arguments.seed, seconds=arguments.minutes * 60, jars=jars, monitor_share=share))
        else:
            judge_again(folder)
        return report(folder, (LIVE, AFTER) if arguments.again is None else (LIVE, AGAIN), arguments.seed)


def report(folder: Path, warehouses: tuple[str, ...], seed: int) -> int:
    truth = read_truth(folder)
    print(f"{len(truth.groups)} groups, {len(truth.lives)} consumers; {len(truth.faults)} faults of brokers:")
    for row in truth.happened:
        seconds = "" if row["until_ms"] is None else f" for {(row['until_ms'] - row['at_ms']) / 1_000:.1f} s"
        print(f"  {row['at_ms']} {row['what']} {row.get('broker', '')} {row.get('clients', '')}{seconds}")
    wrong = 0
    for warehouse in warehouses:
        tally = judged(folder, warehouse, truth, seed)
        print_tally(SAID[warehouse], tally)
        wrong += len(tally.wrong)
    return int(bool(wrong))


def print_tally(name: str, tally: Tally) -> None:
    print(f"\n## {name}\n\n| | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}")
    for what in dict.fromkeys(what for what, _ in tally.counts):
        print(f"| {what} | {' | '.join(f'{tally.counts[what, each]:,}' for each in OUTCOMES)} |")
    print("\n".join(["", *tally.wrong]), flush=True)


if __name__ == "__main__":
    sys.exit(main())

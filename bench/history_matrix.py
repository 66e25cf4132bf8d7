"""Measures how true the history of real groups is, with a real broker, Kafka's Java client, librdkafka and
kafka-python.

Eleven groups, eager, cooperative and static ones, go through scaling, kills, stalls, restarts and more partitions side
by side (lab/kafka/matrix.py). Generations, leaders, sizes and rebalances are compared with the broker's server log, and
owners with the partitions that the consumers got. Differences are printed, and the run ends with 1 if there is one.
Then the inferred triggers are compared with the reasons in the log, by precision and recall.

    python -m bench.history_matrix [--runs 1]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.history_accuracy import report_guesses
from lab.kafka.local_broker import LocalBroker
from lab.kafka.matrix import LONG
from lab.kafka.matrix_truth import Comparison, measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    found = Comparison()
    for _ in range(parser.parse_args().runs):
        with (
            tempfile.TemporaryDirectory(prefix="groupledger-matrix-") as directory,
            LocalBroker(Path(directory)) as broker,
        ):
            one = measure(broker, LONG)
        found.counts += one.counts
        found.wrong += one.wrong
        found.triggers += one.triggers
        print("\n".join(one.wrong), end="\n" if one.wrong else "", flush=True)
    for what, count in found.counts.items():
        print(f"{what:<34}{count:>9,}")
    print(f"{'wrong, missing or too many':<34}{len(found.wrong):>9,}")
    report_guesses("inferred trigger", found.triggers)
    sys.exit(1 if found.wrong else 0)


if __name__ == "__main__":
    main()

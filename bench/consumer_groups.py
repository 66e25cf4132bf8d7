"""Plays random KIP-848 heartbeats on a real broker, and compares the history of their log with the broker's
descriptions.

Each sequence is played twice. The second time a classic member is in the group, too, so that the group changes its
protocol. Every run plays new sequences and prints its seed; `--seed` plays those of an earlier run again.

    python -m bench.consumer_groups [--sequences 1000] [--seed N]
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_sequences import PROPERTIES, Outcome, Play, play_all, prepare
from lab.kafka.conversion_sequences import ConversionPlay
from lab.kafka.local_broker import LocalBroker

CHUNK = 100  # sequences between two lines of progress
SHOWN_MAX = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    started = time.monotonic()
    total = Outcome()
    with (
        tempfile.TemporaryDirectory(prefix="groupledger-consumer-groups-") as directory,
        LocalBroker(Path(directory), properties={**SETTINGS, **PROPERTIES}) as broker,
    ):
        names = prepare(broker.bootstrap_servers)
        for first in range(0, arguments.sequences, CHUNK):
            numbers = range(first, min(first + CHUNK, arguments.sequences))
            for kind in (Play, ConversionPlay):
                found = play_all(broker.bootstrap_servers, names, numbers, arguments.seed, kind)
                total.compared += found.compared
                total.wrong += found.wrong
            print(f"{numbers.stop:,} sequences, {time.monotonic() - started:.0f} s", flush=True)
    print(", ".join(f"{number:,} {what}" for what, number in total.compared.items()))
    for sentence in total.wrong[:SHOWN_MAX]:
        print(sentence)
    sys.exit(f"different: {len(total.wrong):,}" if total.wrong else None)


if __name__ == "__main__":
    main()

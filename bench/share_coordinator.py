"""Plays random requests about share groups on a real broker and on the coordinator, and compares answers and records.

Every run plays new sequences; it prints its seed, and `--seed` plays them again.

    python -m bench.share_coordinator [--sequences 1000] [--seed N]
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import LocalBroker
from lab.kafka.share_differential import PROPERTIES, play_all

CHUNK = 250  # sequences between two lines of progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    started = time.monotonic()
    compared: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="groupledger-share-coordinator-") as directory,
        LocalBroker(Path(directory), properties={**SETTINGS, **PROPERTIES}) as broker,
    ):
        topic_ids = {name: topic_id for topic_id, name in prepare(broker.bootstrap_servers).items()}
        for first in range(0, arguments.sequences, CHUNK):
            numbers = range(first, min(first + CHUNK, arguments.sequences))
            outcome = play_all(broker.bootstrap_servers, topic_ids, numbers, arguments.seed)
            compared += outcome.compared
            print(f"{compared['sequences']:,} sequences, {time.monotonic() - started:.0f} s", flush=True)
            if outcome.wrong:
                sys.exit("\n".join(outcome.wrong))
    for kind, number in sorted(compared.items()):
        print(f"  {kind:<60}{number:>9,}")


if __name__ == "__main__":
    main()

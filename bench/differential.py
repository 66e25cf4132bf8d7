"""`make differential` plays more random sequences on a real broker and on the coordinator than a test has time for.

Every run plays new sequences and prints its seed; `--seed` plays those of an earlier run again. The first difference
ends the run, which prints the shortest sequence that shows it, and both answers.

    python -m bench.differential [--sequences 5000] [--release 4.4] [--seed N]
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lab.kafka.broker_driver import SETTINGS, Broker
from lab.kafka.differential import explained, generated, play_all
from lab.kafka.local_broker import JARS_OF_RELEASE, LocalBroker

CHUNK = 500  # sequences in memory; each chunk has a seed of its own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=5_000)
    parser.add_argument("--release", choices=JARS_OF_RELEASE, default="4.2", help="of the broker")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    started = time.monotonic()
    played = 0
    compared: Counter[tuple[str, str]] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="groupledger-differential-") as directory,
        LocalBroker(Path(directory), jars=JARS_OF_RELEASE[arguments.release], properties=SETTINGS) as local,
    ):
        broker = Broker.prepare(local.bootstrap_servers)
        while played < arguments.sequences:
            sequences = generated(min(CHUNK, arguments.sequences - played), arguments.seed + played)
            for outcome in play_all(broker, sequences, f"sequence-{played}"):
                if outcome.difference:
                    sys.exit(explained(broker, outcome))
                compared += outcome.compared
            played += len(sequences)
            print(f"{played:,} sequences, {time.monotonic() - started:.0f} s", flush=True)
    records = sum(count for (api, _), count in compared.items() if api == "Record")
    print(f"no difference in {compared.total() - records:,} answers and {records:,} records")
    for (api, error), count in sorted(compared.items()):
        print(f"  {api:<24}{error:<30}{count:>9,}")


if __name__ == "__main__":
    main()

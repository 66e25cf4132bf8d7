"""Plays random requests about KIP-848 groups on a real broker and on the coordinator, and compares answers and records.

Every run plays new sequences and prints its seed; `--seed` plays those of an earlier run again.

    python -m bench.consumer_coordinator [--sequences 3000] [--release 4.4] [--seed N]
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_differential import PROPERTIES, play_all
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import JARS_OF_RELEASE, LocalBroker
from lab.kafka.paired_play import PROPERTIES_OF_4_4

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.kafka.paired_play import Outcome

CHUNK = 500  # sequences between two lines of progress


def compare(
    about: str | None, plays: Sequence[tuple[Mapping[str, str], Callable[..., Outcome]]], sequences: int
) -> None:
    """Plays sequences as the command line says, an equal share of them on a broker with each of these settings, and
    exits with the first differences."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=sequences)
    parser.add_argument("--release", choices=JARS_OF_RELEASE, default="4.2", help="of the broker")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    started = time.monotonic()
    compared: Counter[str] = Counter()
    jars = JARS_OF_RELEASE[arguments.release]
    of_release = PROPERTIES_OF_4_4 if arguments.release == "4.4" else {}
    share = -(-arguments.sequences // len(plays))
    for place, (properties, play) in enumerate(plays):
        with (
            tempfile.TemporaryDirectory(prefix="groupledger-paired-") as directory,
            LocalBroker(Path(directory), jars=jars, properties={**SETTINGS, **of_release, **properties}) as broker,
        ):
            prepare(broker.bootstrap_servers)
            end = min((place + 1) * share, arguments.sequences)
            for first in range(place * share, end, CHUNK):
                numbers = range(first, min(first + CHUNK, end))
                outcome = play(broker.bootstrap_servers, numbers, arguments.seed, restart=broker.restart)
                compared += outcome.compared
                print(f"{compared['sequences']:,} sequences, {time.monotonic() - started:.0f} s", flush=True)
                if outcome.wrong:
                    sys.exit("\n".join(outcome.wrong))
    for kind, number in sorted(compared.items()):
        print(f"  {kind:<60}{number:>9,}")


if __name__ == "__main__":
    compare(__doc__, [(PROPERTIES, play_all)], sequences=3_000)

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.kafka.broker_driver import SETTINGS
from lab.kafka.consumer_differential import PROPERTIES
from lab.kafka.consumer_differential import play_all as play_consumers
from lab.kafka.consumer_sequences import prepare
from lab.kafka.local_broker import JARS_OF_RELEASE, LocalBroker
from lab.kafka.paired_play import PROPERTIES_OF_4_4, Outcome

CHUNK = 500  # sequences between two lines of progress

Play = tuple[Mapping[str, str], Callable[..., Outcome]]
"""The settings of a broker, and the function that plays sequences on it."""


def compare(about: str | None, plays: Sequence[Play], sequences: int) -> None:
    """Plays sequences as the command line says, an equal share of them on a broker with each of these settings. A
    sequence that differs is played again on a new broker, because a broker of a busy machine may write a record too
    late, or resolve an expression twice. Exits with the differences that repeat."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=sequences)
    parser.add_argument("--release", choices=JARS_OF_RELEASE, default="4.2", help="of the broker")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    compared, again = Counter[str](), 0
    share = -(-arguments.sequences // len(plays))
    for place, play in enumerate(plays):
        numbers = range(place * share, min((place + 1) * share, arguments.sequences))
        outcome = played(play, numbers, arguments)
        compared += outcome.compared
        again += len(outcome.different)
        if outcome.different:
            print("\n".join(["different:", *outcome.wrong, "these sequences are played again"]), flush=True)
            repeated = played(play, outcome.different, arguments)
            if repeated.wrong:
                sys.exit("\n".join(repeated.wrong))
    for kind, number in sorted(compared.items()):
        print(f"  {kind:<60}{number:>9,}")
    print(f"no difference that repeats; {again:,} sequences differed once")


def played(play: Play, numbers: Sequence[int], arguments: argparse.Namespace) -> Outcome:
    """Plays the sequences with these numbers on a new broker."""
    (properties, play_all), started = play, time.monotonic()
    of_release = PROPERTIES_OF_4_4 if arguments.release == "4.4" else {}
    outcome = Outcome()
    with (
        tempfile.TemporaryDirectory(prefix="groupledger-paired-") as directory,
        LocalBroker(
            Path(directory),
            jars=JARS_OF_RELEASE[arguments.release],
            properties={**SETTINGS, **of_release, **properties},
        ) as broker,
    ):
        prepare(broker.bootstrap_servers)
        for first in range(0, len(numbers), CHUNK):
            some = numbers[first : first + CHUNK]
            found = play_all(broker.bootstrap_servers, some, arguments.seed, restart=broker.restart)
            outcome.compared += found.compared
            outcome.wrong += found.wrong
            outcome.different += found.different
            print(f"{first + len(some):,} sequences, {time.monotonic() - started:.0f} s", flush=True)
    return outcome


if __name__ == "__main__":
    compare(__doc__, [(PROPERTIES, play_consumers)], sequences=3_000)

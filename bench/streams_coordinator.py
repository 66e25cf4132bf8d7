"""Plays random requests about streams groups on real brokers and on the coordinator, and compares answers and records.

Half of the sequences are played on a broker with a standby for each task that has a state. Every run plays new
sequences and prints its seed; `--seed` plays those of an earlier run again.

    python -m bench.streams_coordinator [--sequences 1000] [--release 4.4] [--seed N]
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.consumer_coordinator import compare
from lab.kafka.streams_differential import PROPERTIES, PROPERTIES_WITH_STANDBYS, play_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.kafka.paired_play import Outcome

if __name__ == "__main__":
    with_standbys = partial(play_all, standbys=1)
    plays: list[tuple[dict[str, str], Callable[..., Outcome]]]
    plays = [(PROPERTIES, play_all), (PROPERTIES_WITH_STANDBYS, with_standbys)]
    compare(__doc__, plays, sequences=1_000)

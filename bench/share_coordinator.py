"""Plays random requests about share groups on a real broker and on the coordinator, and compares answers and records.

Every run plays new sequences and prints its seed; `--seed` plays those of an earlier run again.

    python -m bench.share_coordinator [--sequences 1000] [--seed N]
"""

from __future__ import annotations

from bench.consumer_coordinator import compare
from lab.kafka.share_differential import PROPERTIES, play_all

if __name__ == "__main__":
    compare(__doc__, [(PROPERTIES, play_all)], sequences=1_000)

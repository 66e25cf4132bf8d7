"""Plays random requests of classic and KIP-848 members of one group on a real broker and on the coordinator, under each
`group.consumer.migration.policy`, and compares answers and records.

Every run plays new sequences and prints its seed; `--seed` plays those of an earlier run again.

    python -m bench.mixed_coordinator [--sequences 3000] [--seed N]
"""

from __future__ import annotations

from functools import partial

from bench.consumer_coordinator import compare
from groupledger.coordinator.model.config import MIGRATION_POLICIES
from lab.kafka.mixed_differential import play_all, properties

if __name__ == "__main__":
    plays = [(properties(policy), partial(play_all, policy=policy)) for policy in MIGRATION_POLICIES]
    compare(__doc__, plays, sequences=3_000)

"""Counts the requests of one sampling round, by kind, for a large cluster of simulated brokers.

    python -m bench.sampling_requests [--brokers 1000] [--groups 100000] [--partitions 20000]

`__consumer_offsets` has 50 partitions, and the groups are spread evenly over their leaders. The partitions of the data
topic are spread over all brokers. It also prints the processor time of the round, which includes that of the simulated
answers.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from groupledger.jobs.kafka.sampling import sample_ends, take_round
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.simulated_brokers import SimulatedBrokers

COORDINATORS, TOPIC = 50, "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=20_000)
    arguments = parser.parse_args()
    brokers = SimulatedBrokers({OFFSETS_TOPIC: COORDINATORS, TOPIC: arguments.partitions}, count=arguments.brokers)
    for number in range(arguments.groups):
        brokers.groups[number % COORDINATORS + 1].append(f"classic-{number}")
    settings, began_s = load_settings().sampling, time.process_time()
    ends = sample_ends(brokers, settings)
    sampled = take_round(brokers, settings, [TOPIC], 0, ends)
    took_s = time.process_time() - began_s
    assert len(sampled.group_states) == arguments.groups
    assert not sampled.errors()
    sent = Counter(type(request).__name__ for _, request in brokers.requests)
    asked = {node for node, _ in brokers.requests if node is not None}
    for kind, count in sorted(sent.items()):
        print(f"{kind:<32}{count:>8,}")
    print(
        f"{'all, to ' + format(len(asked), ',') + ' brokers':<32}{sent.total():>8,}; {took_s:.1f} s of processor time"
    )


if __name__ == "__main__":
    main()

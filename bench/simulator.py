"""Measures how many hours of one group, and how many requests, a core simulates in a second.

The groups have three consumers with Kafka's defaults (heartbeats every 3 s, auto-commits every 5 s), half of them eager
and half cooperative, on topics of six partitions that always get records. One member of every tenth group restarts
every five minutes. All requests count, including those that fetch records; nothing is written to files. The second line
has the figures for the pace of the scenario `day`, with heartbeats every 15 s.

    python -m bench.simulator [--groups 50] [--minutes 20]
"""

from __future__ import annotations

import argparse
import time

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS, Scenario
from groupledger.coordinator.simulator.scenarios.day import at_pace_of_day
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS, Script

MEMBERS = 3
PARTITIONS = 6
RESTARTS_ONE_IN = 10
RESTART_EVERY_MINUTES = 5
WARM_UP_MS = MINUTE_MS + 30_000  # until every group is Stable


def steady(group: Script) -> None:
    assignors = ("range",) if group.number % 2 else ("cooperative-sticky",)
    applications = group.deploy(MEMBERS, [group.topic("orders", PARTITIONS)], assignors=assignors)
    group.start(applications)
    if group.number % RESTARTS_ONE_IN == 0:
        for minutes in range(RESTART_EVERY_MINUTES, 24 * 60, RESTART_EVERY_MINUTES):
            group.bounce(applications[0], minutes, "rolling_restart", 20)


def steady_at_pace_of_day(group: Script) -> None:
    at_pace_of_day(group)
    steady(group)


def measure(name: str, scenario: Scenario, groups: int, minutes: int) -> None:
    simulation = prepare(scenario, 1, groups)
    simulation.run(simulation.now_ms + WARM_UP_MS)
    requests, states = simulation.request_count, []
    started = time.process_time()
    for _ in range(minutes):
        simulation.run(simulation.now_ms + MINUTE_MS)
        states += simulation.take().group_states
    seconds = time.process_time() - started
    requests = simulation.request_count - requests
    # Nine of ten groups are left alone: a lost one would show in the samples, which are one a minute.
    assert sum(state.state == "Stable" for state in states) >= groups * (minutes - 1) * 9 // 10
    print(
        f"{name}: {groups * minutes / 60 / seconds:.2f} group-hours/s, {requests / seconds:,.0f} requests/s on one core"
        f" ({groups:,} groups of {MEMBERS} for {minutes} minutes: {requests:,} requests in {seconds:.1f} s of CPU time)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--minutes", type=int, default=20)
    arguments = parser.parse_args()
    for name, play in (("Kafka's defaults", steady), ("pace of the day", steady_at_pace_of_day)):
        scenario = Scenario(name="steady", summary="", play=play, settings=SCENARIOS["crash"].settings)
        measure(name, scenario, arguments.groups, arguments.minutes)


if __name__ == "__main__":
    main()

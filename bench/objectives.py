"""Counts the alerts of objectives of lag on planted outages, and on days on which there should be none.

    python -m bench.objectives [--seeds 1-200]

For each seed an objective of 99% over 30 days is played minute by minute, as a monitor counts it: a month without an
outage, in which single minutes are late (at most half of what the budget allows), or with one outage of 10 minutes to
six hours. Some minutes are unknown. The program prints how many outages burned the budget as fast as their length says,
how many minutes after their beginning the first alert was there, how many minutes after their end it was gone, and how
many of the clean months had an alert. It ends with 1 if an outage had none, or a clean month had one.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from typing import NamedTuple

from groupledger.schemas.words import Burning, MinuteState
from groupledger.transforms.objectives.rules.burn import BURN_WINDOWS, standing
from groupledger.transforms.objectives.rules.live import LiveWindows
from groupledger.transforms.objectives.rules.minutes import DAY_MINUTES, Objective

OBJECTIVE = Objective(name="on-time", lag_s=60, target_percent=99, window_days=30)
MINUTES, UNKNOWN_SHARE = 30 * DAY_MINUTES, 0.02
AT_ONCE = (Burning.FAST, Burning.STEADILY)


class Outage(NamedTuple):
    began: int
    minutes: int


class Alerts(NamedTuple):
    """The minutes in which the budget burned fast or steadily, and those in which it burned slowly."""

    at_once: list[int]
    slowly: list[int]


def played(seed: int, outage: Outage | None) -> Alerts:
    source = random.Random(seed)  # noqa: S311 - no secret
    late_share = source.uniform(0, 0.005)
    windows = LiveWindows({**BURN_WINDOWS, "whole": MINUTES}, 0)
    alerts = Alerts([], [])
    for minute in range(MINUTES):
        if source.random() >= UNKNOWN_SHARE:
            is_out = outage is not None and outage.began <= minute < outage.began + outage.minutes
            is_late = is_out or source.random() < late_share
            windows.observe(minute, MinuteState.LATE if is_late else MinuteState.ON_TIME)
        windows.close_before(minute + 1)
        counts = windows.counts()
        burning = standing(OBJECTIVE, counts.pop("whole"), counts).burning
        if burning in AT_ONCE:
            alerts.at_once.append(minute)
        elif burning == Burning.SLOWLY:
            alerts.slowly.append(minute)
    return alerts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-200")
    first, _, last = parser.parse_args().seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    begun: list[int] = []
    over: list[int] = []
    beside = clean_at_once = clean_slowly = 0
    for seed in seeds:
        source = random.Random(-seed)  # noqa: S311 - no secret
        outage = Outage(source.randrange(DAY_MINUTES, MINUTES - DAY_MINUTES), source.randrange(10, 361))
        end = outage.began + outage.minutes
        found = played(seed, outage).at_once
        during = [minute for minute in found if outage.began <= minute < end]
        begun += [during[0] - outage.began + 1] if during else []
        over += [max(found) - end + 1] if during else []
        beside += any(not outage.began <= minute < end + 360 for minute in found)
        clean = played(seed, None)
        clean_at_once += bool(clean.at_once)
        clean_slowly += bool(clean.slowly)
    print(f"{len(seeds)} outages: {len(begun)} had an alert (fast or steadily) while they lasted")
    if begun:
        print(f"  first alert after {statistics.median(begun):.0f} minutes (median; at most {max(begun)})")
        print(f"  gone {statistics.median(over):.0f} minutes after the end (median; at most {max(over)})")
    print(f"  months with an alert at another time: {beside}")
    print(f"{len(seeds)} months without an outage: {clean_at_once} had an alert, {clean_slowly} a slow one")
    sys.exit(len(begun) < len(seeds) or bool(clean_at_once or beside))


if __name__ == "__main__":
    main()

"""Goal: following minute by minute gives the same as counting all minutes again, and costs no more over time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from groupledger.schemas.words import MinuteState
from groupledger.transforms.objectives.rules.burn import MinuteCounts
from groupledger.transforms.objectives.rules.live import LiveWindows

LENGTHS = {"short": 3, "middle": 20, "long": 100}
STATES = (MinuteState.ON_TIME, MinuteState.LATE, MinuteState.UNKNOWN)


def counted(minutes: dict[int, str], end: int) -> dict[str, MinuteCounts]:
    found = {}
    for name, length in LENGTHS.items():
        states = [minutes.get(minute) for minute in range(end - length, end)]
        found[name] = MinuteCounts(states.count(MinuteState.ON_TIME), states.count(MinuteState.LATE))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_like_counting_again(seed: int) -> None:
    """Goal: random minutes with random gaps, some longer than all windows, and a restart in between."""
    chance = random.Random(seed)
    live, minutes, minute = LiveWindows(LENGTHS, 1_000), {}, 1_000
    for _ in range(400):
        minute += chance.choice([1, 1, 1, 2, 7, chance.choice([1, 150])])
        minutes[minute] = chance.choice(STATES)
        live.observe(minute, minutes[minute])
        assert live.end == minute
        assert live.counts() == counted(minutes, minute)
        if chance.random() < 0.02:
            runs = [(at, 1, state) for at, state in minutes.items() if at < minute]
            live = LiveWindows(LENGTHS, minute, runs)
            live.observe(minute, minutes[minute])
            assert live.counts() == counted(minutes, minute)


def test_the_worst_round_of_a_minute() -> None:
    live = LiveWindows(LENGTHS, 10)
    for state in (MinuteState.ON_TIME, MinuteState.LATE, MinuteState.UNKNOWN, MinuteState.ON_TIME):
        live.observe(10, state)
    assert live.counts()["short"] == MinuteCounts()  # it is not over
    live.close_before(11)
    assert live.counts()["short"] == MinuteCounts(0, 1)
    live.observe(10, MinuteState.ON_TIME)
    live.close_before(12)
    assert live.counts()["short"] == MinuteCounts(0, 1)


def test_a_long_run() -> None:
    live = LiveWindows(LENGTHS, 1_000, [(0, 990, MinuteState.ON_TIME), (990, 8, MinuteState.LATE)])
    assert live.counts() == {"short": MinuteCounts(0, 1), "middle": MinuteCounts(10, 8), "long": MinuteCounts(90, 8)}


class Looked(bytearray):
    looks = 0

    def __getitem__(self, key: Any) -> Any:
        Looked.looks += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("longest", [100, 50_000])
def test_a_minute_costs_the_same_for_every_past(longest: int) -> None:
    """Goal: a minute looks at one byte for each window, however long that is."""
    live = LiveWindows({"short": 5, "long": longest}, 0)
    live._states = Looked(live._states)
    Looked.looks = 0
    for minute in range(1, 301):
        live.observe(minute, MinuteState.ON_TIME)
    live.close_before(301)
    assert Looked.looks == 2 * 301

"""Measures the accuracy of `groupledger forecast` on simulated traffic, whose future is known.

    python -m bench.forecasts [--seeds 1-200]

For each seed one partition is simulated, second by second. Producer and consumer have rates that wander and burst (the
logarithm is a random walk that is pulled back to its mean). There is a commit every 5 s and a sampling round every 15
s, and the log's start moves by whole segments. Either lag shrinks after an outage that ended up to 50 minutes ago, or
retention comes nearer to the commit. A forecast is made every 15 minutes, and compared with the rest of the simulation.

The program prints the relative error of the time to come (median and 95th percentile), how often the true time was in
the interval (which is meant to be 95 of 100), how wide the interval is, and how often there was no forecast, or no end
of the interval. The figures are printed separately by how far away the true time was when the forecast was made.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.transforms.lag.rules.forecast import (
    Expected,
    drift,
    left_anyway,
    pace_of_start,
    reaches_zero,
    since_highest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUND_S, COMMIT_S, WATCHED_S, LASTS_S = 15, 5, 3_600, 12 * 3_600
PART_S = 60  # as in jobs.ask.forecasts: the last round of each part counts
NEAR_S = (600, 3_600)


@dataclass
class Found:
    """The forecasts of one kind and distance: relative errors, and whether the interval held."""

    errors: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    without_end: int = 0
    without: int = 0

    def line(self) -> str:
        if not self.errors:
            return f"none foretold of {self.without}"
        errors = sorted(abs(each) for each in self.errors)
        high = errors[min(math.ceil(0.95 * len(errors)), len(errors)) - 1]
        width = f"{statistics.median(self.widths):.0%}" if self.widths else "-"
        return (
            f"{len(errors):4} forecasts, error {statistics.median(errors):.1%} (95%: {high:.1%}), interval held"
            f" {sum(self.held) / len(self.held):.1%}, wide {width} of the time, {self.without_end} without an end,"
            f" {self.without} not foretold"
        )


def wander(source: random.Random, mean: float, spread: float, memory_s: float) -> Iterator[float]:
    """Yields a rate for each second."""
    level = source.gauss(0, spread)
    while True:
        level += -level / memory_s + source.gauss(0, spread * math.sqrt(2 / memory_s))
        yield mean * math.exp(level - spread**2 / 2)


def count(source: random.Random, rate: float) -> int:
    """Returns how many events happen in a second: Poisson's for few, the normal distribution for many."""
    return max(round(source.gauss(rate, math.sqrt(rate))), 0)


@dataclass
class Play:
    """The rounds, and the offsets of each second: the end of the log, the commit, the log's start."""

    ends: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


def played(seed: int, *, is_loss: bool) -> Play:
    """Plays one partition. It catches up from a lag of some minutes to hours, or falls behind until retention, which
    keeps two to eight hours, overtakes it."""
    source = random.Random(seed)  # noqa: S311 - no secret
    produced = source.uniform(20, 500)
    keeps_s = source.uniform(2, 8) * 3_600
    segment = produced * source.uniform(200, 900)
    consumed = produced * (source.uniform(0.0, 0.6) if is_loss else source.uniform(1.1, 2.0))
    spread = source.uniform(0.05, 0.3)
    production = wander(source, produced, spread, source.uniform(30, 300))
    consumption = wander(source, consumed, spread, source.uniform(30, 300))
    end = round(produced * (keeps_s + 2 * 3_600))
    done = end - round(produced * (source.uniform(0.1, 0.6) * keeps_s if is_loss else source.uniform(600, 10_000)))
    play, commit = Play(), done
    appended = [(round(-keeps_s - 7_200), 0), (0, end)]
    back_s = 0 if is_loss else source.uniform(600, 3_000)
    for second in range(WATCHED_S + LASTS_S):
        end += count(source, next(production))
        if second >= back_s:
            done = min(done + count(source, next(consumption)), end)
        if second % COMMIT_S == 0:
            commit = done
        appended.append((second, end))
        play.ends.append(end)
        play.commits.append(commit)
        play.starts.append(_start(appended, second - keeps_s, segment))
        if commit < play.starts[-1] or (not is_loss and second > WATCHED_S and end - done <= 0):
            break
    return play


def _start(appended: list[tuple[int, int]], at_s: float, segment: float) -> int:
    """Returns the first offset of the oldest segment that still holds a record of that time or later."""
    while len(appended) > 2 and appended[1][0] <= at_s:  # noqa: PLR2004
        appended.pop(0)
    (begin_s, begin), (end_s, end) = appended[0], appended[1]
    offset = begin + (end - begin) * max(min((at_s - begin_s) / max(end_s - begin_s, 1), 1.0), 0.0)
    return int(offset // segment * segment)


def thinned(numbers: list[int], at: int, lasts_s: int, part_s: int) -> list[tuple[float, float]]:
    """Returns the last round of each part of a window."""
    rounds = range(max(at - lasts_s, 0) // ROUND_S * ROUND_S, at + 1, ROUND_S)
    return [*{second // part_s: (float(second), float(numbers[second])) for second in rounds}.values()]


def forecasts_of_catching_up(play: Play, found: dict[str, Found]) -> None:
    lags = [end - commit for end, commit in zip(play.ends, play.commits, strict=True)]
    for at in range(WATCHED_S, len(lags), 900):
        ends = thinned(play.ends, at, WATCHED_S, PART_S)
        pace, by = drift(ends), drift(since_highest(thinned(lags, at, WATCHED_S, PART_S)))
        if pace is None or by is None:
            continue
        level = left_anyway(pace.rate, COMMIT_S)
        if lags[at] <= level:
            break
        really = next((second - at for second in range(at, len(lags)) if lags[second] <= level), None)
        if really:
            note(found, "catching up", really, reaches_zero(lags[at] - level, by))


def forecasts_of_loss(play: Play, found: dict[str, Found]) -> None:
    if play.commits[-1] >= play.starts[-1]:
        return
    really = len(play.starts) - 1
    for at in range(WATCHED_S, really, 900):
        lately, long = (WATCHED_S, PART_S), (12 * 3_600, 5 * PART_S)
        start = pace_of_start(*(thinned(play.starts, at, *each) for each in (lately, long)))
        commit = drift(thinned(play.commits, at, *lately))
        if start is None or commit is None:
            found[f"loss, {distance(really - at)}"].without += 1
            continue
        pace, step = start
        predicted = reaches_zero(play.commits[at] - play.starts[at], commit.less(pace), step)
        note(found, "loss", really - at, predicted)


def note(found: dict[str, Found], kind: str, really: float, predicted: Expected | None) -> None:
    of = found[f"{kind}, {distance(really)}"]
    if predicted is None:
        of.without += 1
        return
    of.errors.append(predicted.seconds / really - 1)
    of.held.append(
        predicted.earliest <= really + ROUND_S and (predicted.latest is None or really <= predicted.latest + ROUND_S)
    )
    if predicted.latest is None:
        of.without_end += 1
    else:
        of.widths.append((predicted.latest - predicted.earliest) / really)


def distance(seconds: float) -> str:
    if seconds < NEAR_S[0]:
        return "below 10 min away"
    return "10 min to 1 h away" if seconds < NEAR_S[1] else "1 h or more away"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1-200", help="from-to")
    first, _, last = parser.parse_args().seeds.partition("-")
    found: dict[str, Found] = defaultdict(Found)
    for seed in range(int(first), int(last or first) + 1):
        forecasts_of_catching_up(played(seed, is_loss=False), found)
        forecasts_of_loss(played(seed, is_loss=True), found)
    for name in sorted(found):
        print(f"{name}: {found[name].line()}")


if __name__ == "__main__":
    main()

"""Lays out a window of time of many groups: a strip for each group, and above the strips a histogram of what happened
to all groups.

A strip shows the status of lag as its colour, rebalances as ticks and incidents as marks. It says when the group was
not there yet, and when it had ended. Between two rounds a group has the status of the earlier one; if rounds are
missing, the strip is empty. Shapes are numbers in per cent of the width, a class for the style sheet and a text; the
template makes SVG of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.jobs.ask.overview_sums import rebalances_in_parts, statuses_in_parts
from groupledger.jobs.process.output import number_of
from groupledger.jobs.serve.axis import Tick, Window, ticks
from groupledger.schemas.words import Ownership, Severity, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

PARTS = 144
BARS = 96
BAR_HEIGHT = 34
# A status holds until the next round, but not over so many usual distances of rounds.
ROUNDS_MISSED = 2.5
SEVERITIES = words_of(Severity)[::-1]


class Shape(NamedTuple):
    """A coloured part of a strip for the time from `since` to `until`. `x` and `width` are in per cent of the window,
    `style` is the CSS class, and `text` is shown under the pointer."""

    x: float
    width: float
    style: str
    since: datetime
    until: datetime
    text: str


class Bar(NamedTuple):
    """A bar of the histogram: how often one kind of event happened in a part of the window, in all groups. `x` and
    `width` are in per cent of the window; `y`, the upper end, and `height` are in pixels."""

    x: float
    width: float
    y: float
    height: float
    style: str
    since: datetime
    until: datetime
    text: str


@dataclass(slots=True)
class Strip:
    statuses: list[Shape] = field(default_factory=list)
    rebalances: list[Shape] = field(default_factory=list)
    incidents: list[Shape] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The strips by the names of groups; `is_sampled` is false if the window has too many rounds to draw statuses."""

    window: Window
    ticks: list[Tick]
    bars: list[Bar]
    strips: dict[str, Strip]
    is_sampled: bool


def picture(
    tables: ClusterRows, window: Window, groups: Sequence[Answer], incidents: Sequence[Answer], bars: list[Bar]
) -> Picture:
    """Returns the picture of some groups, which are rows of the list of groups. Statuses and rebalances are each read
    once for all of them."""
    names, bounds = [row["group_id"] for row in groups], (window.since, window.until)
    statuses = statuses_in_parts(tables, names, bounds, PARTS) if names else {}
    rebalances = rebalances_in_parts(tables, bounds, PARTS, names) if names else {}
    of_groups: defaultdict[str | None, list[Answer]] = defaultdict(list)
    for row in incidents:
        of_groups[row["group_id"]].append(row)
    lasts = held(statuses or {})
    return Picture(
        window=window,
        ticks=ticks(window),
        bars=bars,
        strips={
            row["group_id"]: Strip(
                statuses=[*_life(row, window), *_statuses((statuses or {}).get(row["group_id"], {}), lasts, window)],
                rebalances=[*_rebalances(rebalances.get(row["group_id"], {}), window)],
                incidents=[*_incidents(of_groups[row["group_id"]], window)],
            )
            for row in groups
        },
        is_sampled=statuses is not None,
    )


def histogram(tables: ClusterRows, window: Window, incidents: Iterable[Answer]) -> list[Bar]:
    """Returns the bars for the numbers of rebalances, and of incidents above the lowest severity, in each part of the
    window, for all groups."""
    rebalances = rebalances_in_parts(tables, (window.since, window.until), BARS).get(None, {})
    counted: dict[str, dict[int, int]] = {each: {} for each in SEVERITIES[:-1]}
    for row in incidents:
        part = min(max(int(BARS * ((row["first_seen_at"] - window.since) / window.lasts)), 0), BARS - 1)
        if row["severity"] in counted:
            of_severity = counted[row["severity"]]
            of_severity[part] = of_severity.get(part, 0) + 1
    found = [*_bars(window, {"rebalance": rebalances}, BAR_HEIGHT, "rebalance")]
    return [*found, *_bars(window, counted, 0, "incident")]


def _bars(window: Window, counted: Mapping[str, Mapping[int, int]], top: int, what: str) -> Iterable[Bar]:
    """Yields bars that stand on a line, one kind on the other."""
    parts = sorted({part for counts in counted.values() for part in counts})
    most = max((sum(counts.get(part, 0) for counts in counted.values()) for part in parts), default=0)
    for part in parts:
        bottom = top + BAR_HEIGHT - 2.0
        since, until = window.part(part, BARS), window.part(part + 1, BARS)
        for style, counts in counted.items():
            number = counts.get(part, 0)
            if number:
                height = max(round((BAR_HEIGHT - 4) * number / most, 1), 2.0)
                bottom -= height
                kind = what if style == what else f"{what} ({style})"
                text = number_of(number, kind)
                yield Bar(window.x(since), round(100 / BARS * 0.86, 2), bottom, height, style, since, until, text)


def held(of_groups: Mapping[Any, Mapping[int, Any]]) -> int:
    """Returns for how many parts of the window a value holds if no round follows: ROUNDS_MISSED times the median
    distance of two parts that have a value, and at least one. `of_groups` has values by part."""
    distances = [
        after - before
        for parts in of_groups.values()
        for before, after in zip(sorted(parts), sorted(parts)[1:], strict=False)
    ]
    return max(int(median(distances) * ROUNDS_MISSED), 1) if distances else 1


def _statuses(parts: Mapping[int, str], lasts: int, window: Window) -> Iterable[Shape]:
    """Yields a stretch for each run of one status."""
    run: tuple[int, int, str] | None = None
    places = sorted(parts)
    for place, following in zip(places, [*places[1:], PARTS], strict=False):
        end = min(following, place + lasts)
        if run is not None and run[2] == parts[place] and run[1] >= place:
            run = (run[0], end, run[2])
            continue
        if run is not None:
            yield _stretch(window, *run)
        run = (place, end, parts[place])
    if run is not None:
        yield _stretch(window, *run)


def _stretch(window: Window, first: int, last: int, status: str) -> Shape:
    since, until = window.part(first, PARTS), window.part(last, PARTS)
    return Shape(window.x(since), round(window.x(until) - window.x(since), 2), status, since, until, f"lag {status}")


def _life(row: Answer, window: Window) -> Iterable[Shape]:
    if row["first_seen_at"] > window.since:
        end = min(row["first_seen_at"], window.until)
        style = Ownership.NOT_BORN
        yield Shape(0, window.x(end), style, window.since, end, "not there yet")
    if row["is_alive"] is False and row["last_seen_at"] < window.until:
        begin = max(row["last_seen_at"], window.since)
        x = window.x(begin)
        yield Shape(x, round(100 - x, 2), Ownership.ENDED, begin, window.until, "ended")


def _rebalances(parts: Mapping[int, int], window: Window) -> Iterable[Shape]:
    for part, number in sorted(parts.items()):
        since, until = window.part(part, PARTS), window.part(part + 1, PARTS)
        text = number_of(number, "rebalance")
        yield Shape(window.x(since), 0, "rebalance", since, until, text)


def _incidents(rows: Iterable[Answer], window: Window) -> Iterable[Shape]:
    """Yields a mark for each incident, the gravest last, so that nothing hides it."""
    for row in sorted(rows, key=lambda row: -SEVERITIES.index(row["severity"])):
        since, until = row["first_seen_at"], row["last_seen_at"]
        x = window.x(since)
        width = max(round(window.x(until) - x, 2), 0.6)
        yield Shape(min(x, 99.4), width, row["severity"], since, until, f"{row['kind']}: {row['explanation']}")

"""Lays out a group's window of time as shapes: a lane for each partition with its owners, by topic, and the lag below.

Everything is drawn on one time axis: owners, times without an owner, unknown times, rebalances and incidents. A shape
has positions in per cent of the width, a class for the style sheet and a text. The template makes SVG of the shapes,
and escapes the texts. `transforms.report.rules.report_ownership` decides who owned a partition when. A week may have
more shapes than a lane has pixels: a shape within a pixel that is already filled is not drawn. The same data is also
returned as rows, for a table beside the picture.

Only an outage has the colour of alarm. It is either a time in which a partition has no owner although the group has
members, or a time in which the group has no members, unless it is known that no records wait.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.jobs.serve.axis import Tick, ticks
from groupledger.jobs.serve.owners_look import Look, looks
from groupledger.schemas.words import Ownership
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.report.rules.report_ownership import Bar, Span, bars, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.axis import Window
    from groupledger.jobs.serve.group_rows import GroupRows

LANE, BAR, HEAT = 20, 14, 4
LAG_HEIGHT = 90
LANES_MAX = 64
STRETCHES_MAX = 500
POINTS_MAX = 150
HEAT_LEVELS = 4
# Of a thousandth of the width, about a pixel.
PIXELS_IN_PER_CENT = 10
EMPTY = "empty"  # nobody, and nothing waits
LABEL_MIN = 6.0


class Shape(NamedTuple):
    """A shape of a lane; `x` and `width` are in per cent of the width. `label` is drawn in the shape, if there is room;
    `text` has all its information."""

    x: float
    width: float
    style: str
    text: str
    label: str = ""


class Mark(NamedTuple):
    x: float
    width: float
    style: str
    text: str
    at: datetime


class Stretch(NamedTuple):
    """A time in which a partition had one owner, had no owner, or had an unknown one. `owner` says this in words."""

    topic: str
    partition: int
    begin: datetime
    end: datetime
    owner: str


@dataclass(slots=True)
class Lane:
    partition: int
    y: int
    shapes: list[Shape] = field(default_factory=list)
    heat: list[Shape] = field(default_factory=list)


@dataclass(slots=True)
class TopicLanes:
    name: str
    lanes: list[Lane]
    partitions: int
    lag: int | None

    @property
    def height(self) -> int:
        return len(self.lanes) * LANE

    @property
    def left_out(self) -> int:
        return self.partitions - len(self.lanes)


@dataclass(slots=True)
class LagChart:
    """Holds the curve of a group's lag. `line` has the points of the curve, in a box that is 1000 wide and LAG_HEIGHT
    high. `levels` has for each grid line its position from the top and its lag. `most` is the lag at the top."""

    line: str = ""
    points: list[Mark] = field(default_factory=list)
    levels: list[tuple[float, str]] = field(default_factory=list)
    most: int = 0


@dataclass(slots=True)
class Drawing:
    """Holds the shapes of a picture, in the order in which they are drawn. `owners` has the look of each member, by its
    id. `stretches` has the newest STRETCHES_MAX stretches of the drawn partitions, for the table beside the picture."""

    topics: list[TopicLanes] = field(default_factory=list)
    rebalances: list[Mark] = field(default_factory=list)
    incidents: list[Mark] = field(default_factory=list)
    ticks: list[Tick] = field(default_factory=list)
    lag: LagChart = field(default_factory=LagChart)
    at: float = 0.0
    owners: dict[str, Look] = field(default_factory=dict)

    @property
    def keys(self) -> list[Look]:
        """Returns the looks for the legend: each name once, even if several members had it, as after a restart."""
        return [*{look.name: look for look in reversed(self.owners.values())}.values()][::-1]

    partitions_left_out: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    stretches_left_out: int = 0
    lane: int = LANE
    bar: int = BAR
    lag_height: int = LAG_HEIGHT


def draw(rows: GroupRows, window: Window, at: datetime) -> Drawing:
    """Returns the drawing of a window, in which `at` is marked."""
    found = Drawing(ticks=ticks(window), at=window.x(at))
    _lanes(found, rows, window)
    found.lag = _lag(window, rows.lag_points)
    found.rebalances = [*_rebalances(window, rows.rebalances)]
    for row in rows.incidents:
        x = window.x(row["first_seen_at"])
        width = max(round(window.x(row["last_seen_at"]) - x, 2), 0.5)
        text = f"{row['kind']}: {row['explanation']}"
        found.incidents.append(Mark(min(x, 99.5), width, row["severity"], text, row["first_seen_at"]))
    return found


def chosen(rows: GroupRows) -> list[tuple[str, int]]:
    """Returns the partitions to draw, sorted by topic and number: all, or if there are more than LANES_MAX, those with
    the most lag. A group may have 100,000 partitions."""
    units = sorted({(row["topic"], row["partition"]) for row in _assigned(rows)})
    if len(units) <= LANES_MAX:
        return units
    return sorted(sorted(units, key=lambda unit: (-_lag_of(rows, unit), unit))[:LANES_MAX])


def _assigned(rows: GroupRows) -> list[Answer]:
    return [*rows.history.assignments, *rows.connect_assignments]


def _lag_of(rows: GroupRows, unit: tuple[str, int]) -> int:
    row: Any = rows.standing.get(unit)
    lag = None if row is None else row["lag"] if isinstance(row, dict) else row.lag
    return -1 if lag is None else lag


def _lanes(found: Drawing, rows: GroupRows, window: Window) -> None:
    history = rows.history
    of_group = spans(history.group, history.generations, history.coverage, window.since, window.until)
    assigned: defaultdict[tuple[str, int], list[Answer]] = defaultdict(list)
    for row in _assigned(rows):
        assigned[row["topic"], row["partition"]].append(row)
    units = chosen(rows)
    of_partitions = bars([row for unit in units for row in assigned[unit]], of_group, history.coverage)
    found.partitions_left_out = len(assigned) - len(units)
    drawn = [bar.interval["member_id"] for bar in of_partitions if bar.interval is not None]
    found.owners = looks(history.members, drawn)
    whole = [_whole(window, span, rows) for span in of_group if span.is_whole_group]
    of_units: defaultdict[tuple[str, int], list[Bar]] = defaultdict(list)
    for bar in of_partitions:
        of_units[bar.unit.topic, bar.unit.partition].append(bar)
    counts: defaultdict[str, int] = defaultdict(int)
    for topic, _ in assigned:
        counts[topic] += 1
    for topic, of_topic in groupby(units, key=lambda unit: unit[0]):
        lanes = []
        for place, unit in enumerate(of_topic):
            shapes = [*whole, *_shapes(found, window, of_units[unit])]
            lane = Lane(unit[1], place * LANE, shapes=sorted(shapes, key=attrgetter("x")))
            lane.heat = [*_heat(window, rows.heat.get(unit, ()))]
            lanes.append(lane)
        lags = [_lag_of(rows, unit) for unit in rows.standing if unit[0] == topic]
        lag = sum(each for each in lags if each >= 0) if any(each >= 0 for each in lags) else None
        found.topics.append(TopicLanes(topic, lanes, counts[topic], lag))
    if not units:
        found.topics.append(TopicLanes("", [Lane(0, 0, shapes=whole)], 1, None))
    found.stretches_left_out = max(len(found.stretches) - STRETCHES_MAX, 0)
    found.stretches = sorted(found.stretches, key=attrgetter("begin"))[-STRETCHES_MAX:]


def _whole(window: Window, span: Span, rows: GroupRows) -> Shape:
    """Returns the stretch of time in which all partitions have one answer."""
    style, text = span.status, f"all partitions: {span.status}"
    if span.status == Ownership.UNOWNED:
        lags = [row["lag_sum"] for row in rows.lag_points if span.begin <= row["sampled_at"] <= span.end]
        if lags and all(each == 0 for each in lags):  # a lag that is not known is no 0
            style, text = EMPTY, f"{text}, and nothing waited"
    return _shape(window, span.begin, span.end, style, text, NAMES.get(style, style))


NAMES = {
    Ownership.UNOWNED: "nobody",
    Ownership.NOT_BORN: "not there yet",
    Ownership.ENDED: "ended",
    Ownership.UNKNOWN: "unknown",
    EMPTY: "nobody",
}


def _shapes(found: Drawing, window: Window, of_unit: Sequence[Bar]) -> Iterable[Shape]:
    filled = -1
    for bar in of_unit:
        owner, style, label, since = bar.status, bar.status, NAMES.get(bar.status, bar.status), ""
        if bar.interval is not None:
            look = found.owners[bar.interval["member_id"]]
            shared_by = len(bar.interval["other_member_ids"])
            owner = look.whole + (f" and {shared_by} more" if shared_by else "")
            label = look.short + (f" +{shared_by}" if shared_by else "")
            generation = bar.interval.get("from_generation")
            since = f" since {iso(bar.interval['valid_from'])}"
            if bar.interval["valid_to"] is not None:
                since += f" until {iso(bar.interval['valid_to'])}"
            if generation is not None:
                since += f", from generation {generation}"
            style = look.style
            if bar.status == Ownership.RESERVED:
                owner, label, style = f"{bar.status} for {owner}", f"{bar.status}: {label}", bar.status
        found.stretches.append(Stretch(*bar.unit, bar.begin, bar.end, owner))
        last = int(window.x(bar.end) * PIXELS_IN_PER_CENT)
        if filled != last:
            filled = last
            text = f"{bar.unit.topic} {bar.unit.partition}: {owner}{since}"
            yield _shape(window, bar.begin, bar.end, style, text, label)


def _shape(window: Window, begin: datetime, end: datetime, style: str, text: str, label: str) -> Shape:
    x = window.x(begin)
    width = max(round(window.x(end) - x, 2), 0.05)
    return Shape(x, width, style, text, label if width >= LABEL_MIN else "")


def _heat(window: Window, points: Sequence[tuple[datetime, datetime, int, int]]) -> Iterable[Shape]:
    """Yields the lag of a partition over time, in levels of the most that any had."""
    for begin, end, lag, most in points:
        if lag:
            level = min(1 + lag * HEAT_LEVELS // (most + 1), HEAT_LEVELS)
            x = window.x(begin)
            yield Shape(x, round(window.x(end) - x, 2), f"heat{level}", f"lag {lag:,} at {iso(begin)}")


def _rebalances(window: Window, rebalances: Iterable[Answer]) -> Iterable[Mark]:
    for _, in_pixel in groupby(rebalances, key=lambda row: int(window.x(row["happened_at"]) * PIXELS_IN_PER_CENT)):
        first, *others = in_pixel
        text = iso(first["happened_at"])
        if others:
            text += f" and later: {len(others) + 1} rebalances, to generation {others[-1]['to_generation']}"
        else:
            text += f" rebalance to generation {first['to_generation']}"
        yield Mark(window.x(first["happened_at"]), 0, "rebalance", text, first["happened_at"])


def _lag(window: Window, points: Sequence[Answer]) -> LagChart:
    known = [(row["sampled_at"], row["lag_sum"]) for row in points if row["lag_sum"] is not None]
    if not known:
        return LagChart()
    top = round_up(max(lag for _, lag in known))
    places = [(at, window.x(at), round(LAG_HEIGHT - (LAG_HEIGHT - 6) * lag / top, 1), lag) for at, lag in known]
    marks = [Mark(x, y, "point", f"lag {lag:,} at {iso(at)}", at) for at, x, y, lag in places]
    return LagChart(
        line=" ".join(f"{x * 10:.1f},{y}" for _, x, y, _ in places),
        points=marks if len(marks) <= POINTS_MAX else [],
        levels=[(round(LAG_HEIGHT - (LAG_HEIGHT - 6) * share, 1), f"{round(top * share):,}") for share in (0, 0.5, 1)],
        most=top,
    )


def round_up(value: int) -> int:
    """Returns the lowest number that is not below `value` and is 1, 2 or 5, followed by zeros; the end of an axis."""
    unit = 10 ** (len(str(max(value, 1))) - 1)
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= value) if value > 0 else 1

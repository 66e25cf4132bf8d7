"""Lays out a group's window of time as shapes: a lane for each partition with its owners, and the lag below.

Everything stands on one axis: who owned a partition, when nobody did, what is not known, rebalances and incidents. A
shape is numbers, a class for the style sheet and a text for the pointer; the template makes SVG of them, and escapes
the texts. The answers are those of `transforms.report.rules.report_ownership`. A week may have more of them than a lane
has pixels: what would lie in a pixel that is filled is not drawn. The same as rows is for a table beside the picture.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import Ownership
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.report.rules.report_ownership import bars, spans

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.axis import Window
    from groupledger.jobs.serve.group_rows import GroupRows
    from groupledger.schemas.kafka.topic_partition import TopicPartition

WIDTH, LEFT, RIGHT = 1_160, 200, 32
LANE, TOP, LAG_HEIGHT = 16, 24, 120
LANES_MAX = 64
COLOURS = 10
TICKS = 8
STRETCHES_MAX = 500


class Rectangle(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    style: str
    text: str


class Line(NamedTuple):
    x: float
    y: float
    x_end: float
    y_end: float
    style: str
    text: str


class Label(NamedTuple):
    x: float
    y: float
    style: str
    text: str


class Stretch(NamedTuple):
    """Says who owned a partition from when to when, or that nobody did, or that it is not known."""

    topic: str
    partition: int
    begin: datetime
    end: datetime
    owner: str


@dataclass(slots=True)
class Drawing:
    """Holds the shapes, in the order in which they are drawn. `names` stand left of the axis, and stay there when the
    rest is scrolled; `owners` are the members, by their style; `stretches` are the lanes as rows, the last ones."""

    height: int = 0
    rectangles: list[Rectangle] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    names: list[Label] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    lag: str = ""
    owners: dict[str, str] = field(default_factory=dict)
    partitions_left_out: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    stretches_left_out: int = 0


def x_of(window: Window, at: datetime) -> float:
    return round(LEFT + window.x(at) / 100 * (WIDTH - LEFT - RIGHT), 1)


def draw(rows: GroupRows, window: Window, at: datetime) -> Drawing:
    """Returns the drawing of a window, in which `at` is marked."""
    found = Drawing()
    bottom = _lanes(found, rows, window)
    _lag(found, window, rows.lag_points, bottom + 30)
    found.height = bottom + 30 + LAG_HEIGHT + 30
    _rebalances(found, window, rows.rebalances, bottom)
    for row in rows.incidents:
        x = x_of(window, row["first_seen_at"])
        width = max(x_of(window, row["last_seen_at"]) - x, 4.0)
        found.rectangles.append(
            Rectangle(x, bottom + 4, width, 8, row["severity"], f"{row['kind']}: {row['explanation']}")
        )
    clock = "%H:%M:%S" if window.until - window.since <= timedelta(days=1) else "%m-%d %H:%M"
    for number in range(TICKS + 1):
        instant = window.since + number * (window.until - window.since) / TICKS
        style = "tick" if number else "first"
        found.labels.append(Label(x_of(window, instant), found.height - 6, style, instant.strftime(clock)))
    found.lines.append(Line(x_of(window, at), TOP - 10, x_of(window, at), found.height - 20, "at", iso(at)))
    return found


def _lanes(found: Drawing, rows: GroupRows, window: Window) -> int:
    """Adds the lanes, and returns where they end."""
    history = rows.history
    of_group = spans(history.group, history.generations, history.coverage, window.since, window.until)
    assigned: defaultdict[tuple[str, int], list[Answer]] = defaultdict(list)
    for row in [*history.assignments, *rows.connect_assignments]:
        assigned[row["topic"], row["partition"]].append(row)
    # A group may have 100,000 partitions: what is not drawn is not laid out either.
    chosen = sorted(assigned)[:LANES_MAX]
    of_partitions = bars([row for unit in chosen for row in assigned[unit]], of_group, history.coverage)
    units = sorted({bar.unit for bar in of_partitions})
    found.partitions_left_out = len(assigned) - len(chosen) if units else 0
    lanes = {unit: TOP + place * LANE for place, unit in enumerate(units)}
    bottom = TOP + max(len(lanes), 1) * LANE
    for unit, y in lanes.items():
        found.names.append(Label(LEFT - 8, y + LANE - 4, "lane", f"{unit.topic} {unit.partition}"))
    for span in of_group:
        if span.is_whole_group:
            text = f"all partitions: {span.status}"
            found.rectangles.append(_rectangle(window, span.begin, span.end, TOP, bottom - TOP, span.status, text))
    labels = {
        row["member_id"]: f"{row['member_id']} ({row['client_id']}, {row['client_host']})" for row in history.members
    }
    filled: dict[TopicPartition, int] = {}
    for bar in of_partitions:
        owner: str = bar.status
        style, since = owner, ""
        if bar.interval is not None:
            member_id: str = bar.interval["member_id"]
            shared_by = len(bar.interval["other_member_ids"])
            owner = labels.get(member_id, member_id) + (f" and {shared_by} more" if shared_by else "")
            since = f" since {iso(bar.interval['valid_from'])}"
            if bar.status == Ownership.RESERVED:
                owner = f"{bar.status} for {owner}"
            else:
                style = found.owners.setdefault(owner, f"owner{len(found.owners) % COLOURS}")
        found.stretches.append(Stretch(*bar.unit, bar.begin, bar.end, owner))
        last = int(x_of(window, bar.end))
        if filled.get(bar.unit) != last:
            filled[bar.unit] = last
            text = f"{bar.unit.topic} {bar.unit.partition}: {owner}{since}"
            found.rectangles.append(_rectangle(window, bar.begin, bar.end, lanes[bar.unit], LANE - 2, style, text))
    found.stretches_left_out = max(len(found.stretches) - STRETCHES_MAX, 0)
    found.stretches = sorted(found.stretches, key=attrgetter("begin"))[-STRETCHES_MAX:]
    return bottom


def _rebalances(found: Drawing, window: Window, rebalances: Iterable[Answer], bottom: int) -> None:
    for _, in_pixel in groupby(rebalances, key=lambda row: int(x_of(window, row["happened_at"]))):
        first, *others = in_pixel
        x, text = x_of(window, first["happened_at"]), iso(first["happened_at"])
        if others:
            text += f" and later: {len(others) + 1} rebalances, to generation {others[-1]['to_generation']}"
        else:
            text += f" rebalance to generation {first['to_generation']}"
        found.lines.append(Line(x, TOP - 6, x, bottom, "rebalance", text))


def _rectangle(
    window: Window, begin: datetime, end: datetime, y: float, height: float, style: str, text: str
) -> Rectangle:
    x = x_of(window, begin)
    return Rectangle(x, y, max(round(x_of(window, end) - x, 1), 0.5), height, style, text)


def _lag(found: Drawing, window: Window, points: Iterable[Answer], top: int) -> None:
    known = [(row["sampled_at"], row["lag_sum"]) for row in points if row["lag_sum"] is not None]
    highest = max((lag for _, lag in known), default=0)
    found.names.append(Label(LEFT - 8, top + 10, "lane", f"lag {highest:,}"))
    found.names.append(Label(LEFT - 8, top + LAG_HEIGHT, "lane", "0"))
    found.lag = " ".join(
        f"{x_of(window, at)},{round(top + LAG_HEIGHT - LAG_HEIGHT * lag / max(highest, 1), 1)}" for at, lag in known
    )

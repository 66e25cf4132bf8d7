"""Lays out a group's window of time as shapes: a lane for each partition with its owners, and the lag below.

Everything stands on one axis: who owned a partition, when nobody did, what is not known, rebalances and incidents. A
shape is numbers, a class for the style sheet and a text for the pointer; the template makes SVG of them, and escapes
the texts. The answers are those of `transforms.report.rules.report_ownership`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import Ownership
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.report.rules.report_ownership import bars, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.owners import GroupHistory
    from groupledger.jobs.process.output import Answer

WIDTH, LEFT, RIGHT = 1_160, 200, 32
LANE, TOP, LAG_HEIGHT = 16, 24, 120
LANES_MAX = 64
COLOURS = 10
TICKS = 8


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


@dataclass(slots=True)
class Drawing:
    """Holds the shapes, in the order in which they are drawn. `names` stand left of the axis, and stay there when the
    rest is scrolled; `owners` are the members, by their style."""

    height: int = 0
    rectangles: list[Rectangle] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    names: list[Label] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    lag: str = ""
    owners: dict[str, str] = field(default_factory=dict)
    partitions_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    since: datetime
    until: datetime

    def x(self, at: datetime) -> float:
        share = (at - self.since) / (self.until - self.since)
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)


def draw(
    history: GroupHistory,
    window: Window,
    rebalances: Iterable[Answer],
    incidents: Iterable[Answer],
    rounds: Sequence[Answer],
    at: datetime,
) -> Drawing:
    """Returns the drawing of a window; `rounds` are sums of lag in the order of time, `at` is marked."""
    found = Drawing()
    bottom = _lanes(found, history, window)
    _lag(found, window, rounds, bottom + 30)
    found.height = bottom + 30 + LAG_HEIGHT + 30
    for row in rebalances:
        x = window.x(row["happened_at"])
        text = f"{iso(row['happened_at'])} rebalance to generation {row['to_generation']}"
        found.lines.append(Line(x, TOP - 6, x, bottom, "rebalance", text))
    for row in incidents:
        x = window.x(row["first_seen_at"])
        width = max(window.x(row["last_seen_at"]) - x, 4.0)
        found.rectangles.append(
            Rectangle(x, bottom + 4, width, 8, row["severity"], f"{row['kind']}: {row['explanation']}")
        )
    for number in range(TICKS + 1):
        instant = window.since + number * (window.until - window.since) / TICKS
        style = "tick" if number else "first"
        found.labels.append(Label(window.x(instant), found.height - 6, style, f"{instant:%H:%M:%S}"))
    found.lines.append(Line(window.x(at), TOP - 10, window.x(at), found.height - 20, "at", iso(at)))
    return found


def _lanes(found: Drawing, history: GroupHistory, window: Window) -> int:
    """Adds the lanes, and returns where they end."""
    of_group = spans(history.group, history.generations, history.coverage, window.since, window.until)
    of_partitions = bars(history.assignments, of_group, history.coverage)
    units = sorted({bar.unit for bar in of_partitions})
    found.partitions_left_out = max(len(units) - LANES_MAX, 0)
    rows = {unit: TOP + place * LANE for place, unit in enumerate(units[:LANES_MAX])}
    bottom = TOP + max(len(rows), 1) * LANE
    for unit, y in rows.items():
        found.names.append(Label(LEFT - 8, y + LANE - 4, "lane", f"{unit.topic} {unit.partition}"))
    for span in of_group:
        if span.is_whole_group:
            text = f"all partitions: {span.status}"
            found.rectangles.append(_rectangle(window, span.begin, span.end, TOP, bottom - TOP, span.status, text))
    named = {row["member_id"]: row for row in history.members}
    for bar in of_partitions:
        if bar.unit not in rows:
            continue
        style, text = bar.status, f"{bar.unit.topic} {bar.unit.partition}: {bar.status}"
        if bar.interval is not None:
            member_id = bar.interval["member_id"]
            member = named.get(member_id)
            label = member_id if member is None else f"{member_id} ({member['client_id']}, {member['client_host']})"
            shared_by = len(bar.interval["other_member_ids"])
            label += f" and {shared_by} more" if shared_by else ""
            if bar.status == Ownership.RESERVED:
                label = f"{bar.status} for {label}"
            else:
                style = found.owners.setdefault(label, f"owner{len(found.owners) % COLOURS}")
            text = f"{bar.unit.topic} {bar.unit.partition}: {label} since {iso(bar.interval['valid_from'])}"
        found.rectangles.append(_rectangle(window, bar.begin, bar.end, rows[bar.unit], LANE - 2, style, text))
    return bottom


def _rectangle(
    window: Window, begin: datetime, end: datetime, y: float, height: float, style: str, text: str
) -> Rectangle:
    x = window.x(begin)
    return Rectangle(x, y, max(round(window.x(end) - x, 1), 0.5), height, style, text)


def _lag(found: Drawing, window: Window, rounds: Sequence[Answer], top: int) -> None:
    known = [(row["sampled_at"], row["lag_sum"]) for row in rounds if row["lag_sum"] is not None]
    highest = max((lag for _, lag in known), default=0)
    found.names.append(Label(LEFT - 8, top + 10, "lane", f"lag {highest:,}"))
    found.names.append(Label(LEFT - 8, top + LAG_HEIGHT, "lane", "0"))
    found.lag = " ".join(
        f"{window.x(at)},{round(top + LAG_HEIGHT - LAG_HEIGHT * lag / max(highest, 1), 1)}" for at, lag in known
    )

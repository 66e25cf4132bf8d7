"""Draws what a script does to a group under each group protocol: the partitions as lanes, one protocol below the other,
on one time axis.

Shapes and style sheet are those of the group's page. The style sheet is included, so the page is self-contained.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from groupledger.jobs.serve.owners_look import HUES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.protocols.compare import ProtocolOutcome
    from groupledger.coordinator.protocols.consumption import ConsumedInterval
    from groupledger.coordinator.protocols.script import Event, Script
    from groupledger.schemas.kafka.topic_partition import TopicPartition

WIDTH, LEFT, RIGHT = 1_160, 200, 32
LANE, TOP = 7, 10
LANES_MAX = 64
TICKS = 6
BEFORE_MS = 20_000
AFTER_MS = 30_000


class Rectangle(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    style: str
    text: str


class DrawnLine(NamedTuple):
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
    """Holds the shapes of one protocol, in the order in which they are drawn. `owners` has the style of each member."""

    height: int = 0
    rectangles: list[Rectangle] = field(default_factory=list)
    lines: list[DrawnLine] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)
    partitions_left_out: int = 0


class Axis:
    """Maps the drawn time to positions. It lasts from shortly before the script's first event until shortly after its
    last event, or after the last time that a partition got an owner."""

    def __init__(self, script: Script, outcomes: Sequence[ProtocolOutcome]) -> None:
        last = max((max(each.from_ms for each in outcome.intervals) for outcome in outcomes), default=0)
        self.from_ms = max(script.from_ms - BEFORE_MS, 0)
        self.until_ms = min(max(last, script.events[-1].at_ms) + AFTER_MS, script.until_ms)

    def x(self, at_ms: int) -> float:
        share = (at_ms - self.from_ms) / (self.until_ms - self.from_ms)
        return round(LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - RIGHT), 1)


def page(
    script: Script, outcomes: Sequence[ProtocolOutcome], rows: Sequence[Sequence[object]], columns: Sequence[str]
) -> str:
    """Returns the page as HTML. `rows` and `columns` are the table that is shown with the lanes."""
    environment = Environment(
        loader=PackageLoader("groupledger.jobs.protocols"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    axis = Axis(script, outcomes)
    style = resources.files("groupledger.jobs.serve").joinpath("static/page.css").read_text()
    return environment.get_template("protocols.html").render(
        script=script,
        style=style,
        columns=columns,
        rows=rows,
        width=WIDTH,
        drawings=[(outcome, draw(axis, script, outcome)) for outcome in outcomes],
        lanes_max=LANES_MAX,
    )


def draw(axis: Axis, script: Script, outcome: ProtocolOutcome) -> Drawing:
    """Returns the lanes of one protocol, with the script's events on the same axis."""
    found = Drawing()
    partitions = sorted(outcome.created_ms)
    lanes = {partition: TOP + place * LANE for place, partition in enumerate(partitions[:LANES_MAX])}
    found.partitions_left_out = max(len(partitions) - LANES_MAX, 0)
    bottom = TOP + len(lanes) * LANE
    for partition, y in lanes.items():
        begin = axis.x(outcome.created_ms[partition])
        found.rectangles.append(
            Rectangle(begin, y, axis.x(axis.until_ms) - begin, LANE - 1, "unowned", f"{partition}: nobody")
        )
    names = sorted({each.member for each in outcome.intervals})
    found.owners = {name: f"owner h{place % HUES}" for place, name in enumerate(names)}
    seen: dict[TopicPartition, int] = {}
    for interval in sorted(outcome.intervals, key=lambda each: each.from_ms):
        if interval.partition in lanes and interval.to_ms > axis.from_ms and interval.from_ms < axis.until_ms:
            found.rectangles += _bars(axis, interval, lanes[interval.partition], found.owners, seen)
    for event in script.events:
        x = axis.x(event.at_ms)
        found.lines.append(
            DrawnLine(x, TOP - 6, x, bottom, "rebalance", f"{event.at_ms / 1_000:g} s: {described(event)}")
        )
    found.labels.append(Label(LEFT - 8, TOP + LANE, "lane", f"{len(partitions)} partitions"))
    for number in range(TICKS + 1):
        at_ms = axis.from_ms + number * (axis.until_ms - axis.from_ms) // TICKS
        found.labels.append(Label(axis.x(at_ms), bottom + 14, "tick", f"{at_ms / 1_000:.0f} s"))
    found.height = bottom + 20
    return found


def _bars(
    axis: Axis, interval: ConsumedInterval, y: int, owners: dict[str, str], seen: dict[TopicPartition, int]
) -> list[Rectangle]:
    """Returns the bar of an interval, and a mark where an earlier one still goes on."""

    def bar(from_ms: int, to_ms: int, style: str, text: str) -> Rectangle:
        x = axis.x(from_ms)
        return Rectangle(x, y, max(round(axis.x(to_ms) - x, 1), 0.5), LANE - 1, style, text)

    text = f"{interval.partition}: {interval.member}, {interval.from_ms / 1_000:g} s to {interval.to_ms / 1_000:g} s"
    bars = [bar(interval.from_ms, interval.to_ms, owners[interval.member], text)]
    until_ms = seen.get(interval.partition, 0)
    if until_ms > interval.from_ms:
        both_ms = min(until_ms, interval.to_ms)
        bars.append(bar(interval.from_ms, both_ms, "two", f"{interval.partition}: two members at once"))
    seen[interval.partition] = max(until_ms, interval.to_ms)
    return bars


def described(event: Event) -> str:
    if event.action == "grow":
        return f"{event.topic} grows to {event.partitions} partitions"
    lasts = f" for {event.for_ms / 1_000:g} s" if event.for_ms else ""
    return f"{event.member}: {event.action}{lasts}"

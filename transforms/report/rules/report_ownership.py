"""Divides a period into stretches for a drawing: the partition was owned, reserved, unowned or unknown, or its group
was not born yet or had ended.

Pure Python. The answers are those of `transforms.history.rules.ownership_answer`: its question is asked at every
instant at which something about the whole group changed. This gives the spans, and the intervals of ownership are laid
over them.

If no generation is in force, or if it assigns nothing, all partitions have the same answer, and the `Span` is one of
the whole group. Within the other spans each partition has bars of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.ownership_answer import owner_at, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """A time [begin, end) with one answer for all partitions without an owner. `is_whole_group`: no partition has an
    owner then."""

    begin: datetime
    end: datetime
    status: str
    is_whole_group: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """Holds a time [begin, end) with one answer for one partition. `interval` is the row of the partition's owner, or
    of the member that the partition is reserved for; None if there is neither."""

    unit: TopicPartition
    begin: datetime
    end: datetime
    status: str
    interval: Row | None = None


def spans(
    group: Row, generations: Sequence[Row], coverage: Sequence[Row], since: datetime, until: datetime
) -> list[Span]:
    """Returns spans that cover the whole period in order, without gaps."""
    times = {since, *(row[name] for row in generations for name in ("started_at", "ended_at"))}
    times |= {row[name] for row in coverage for name in ("from_time", "to_time")}
    cuts = sorted(at for at in times if at is not None and since <= at < until)
    found: list[Span] = []
    for begin, end in zip(cuts, [*cuts[1:], until], strict=True):
        answer = owner_at(group, generations, (), coverage, "", 0, begin)
        span = Span(begin, end, answer.status, not (answer.generation and answer.generation["owned_count"]))
        last = found[-1] if found else None
        if last and (last.status, last.is_whole_group) == (span.status, span.is_whole_group):
            found[-1] = Span(last.begin, span.end, span.status, span.is_whole_group)
        else:
            found.append(span)
    return found


def bars(intervals: Iterable[Row], of_group: Sequence[Span], coverage: Iterable[Row]) -> list[Bar]:
    """Returns the bars within the spans that are not of the whole group, ordered by topic, partition and time."""
    by_unit: defaultdict[TopicPartition, list[Row]] = defaultdict(list)
    for row in intervals:
        by_unit[TopicPartition(row["topic"], row["partition"])].append(row)
    stretches = [
        row for row in coverage if row["completeness"] == Completeness.COMPLETE and row["from_time"] and row["to_time"]
    ]
    parts = [span for span in of_group if not span.is_whole_group]
    return [
        bar
        for unit, rows in sorted(by_unit.items())
        for span in parts
        for bar in _bars(unit, sorted(rows, key=itemgetter("from_offset")), span, stretches)
    ]


def _bars(unit: TopicPartition, intervals: Sequence[Row], span: Span, stretches: Iterable[Row]) -> Iterator[Bar]:
    pieces: list[Bar] = []
    for row in intervals:
        for begin, end in _known(row, stretches):
            piece = Bar(unit, max(begin, span.begin), min(end, span.end), status_of(row), row)
            if piece.begin < piece.end:
                # The later record wins, as in `owner_at`.
                pieces = [part for each in pieces for part in _without(each, piece)] + [piece]
    at = span.begin
    for piece in sorted(pieces, key=lambda each: each.begin):
        if at < piece.begin:
            yield Bar(unit, at, piece.begin, span.status)
        yield piece
        at = piece.end
    if at < span.end:
        yield Bar(unit, at, span.end, span.status)


def _known(interval: Row, stretches: Iterable[Row]) -> Iterator[tuple[datetime, datetime]]:
    """Yields the times [begin, end) at which the interval was in force and the log was read as it was written."""
    to_offset = interval["to_offset"]
    for stretch in stretches:
        reaches = to_offset is None or to_offset >= stretch["from_offset"]
        if reaches and interval["from_offset"] < stretch["to_offset"]:
            # By offset, since clocks go back: an interval that ended after the stretch held until the stretch's end.
            is_held = to_offset is None or to_offset >= stretch["to_offset"]
            end = stretch["to_time"] if is_held else min(interval["valid_to"], stretch["to_time"])
            yield max(interval["valid_from"], stretch["from_time"]), end


def _without(bar: Bar, later: Bar) -> Iterator[Bar]:
    if bar.begin < min(bar.end, later.begin):
        yield Bar(bar.unit, bar.begin, min(bar.end, later.begin), bar.status, bar.interval)
    if max(bar.begin, later.end) < bar.end:
        yield Bar(bar.unit, max(bar.begin, later.end), bar.end, bar.status, bar.interval)

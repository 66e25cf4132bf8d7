"""Counts the records that are read again because committed offsets go back.

A record is read again if it lies between the offset to which the reader went back and the highest offset that was
committed before. It is counted once for each time that it was really read. If another move back follows, the reader
read only up to the offset at which that move began.

Two committers that take turns look like one reader that goes back again and again. A single reader would have to read
up to its former position between two moves back; two committers do not. Each of them continues from its own position.
Then at most the records by which the slower committer advances are read twice. It may be that none are, since the
slower one may be a member that has lost the partition and whose work does not count.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.schemas.kafka.topic_partition import TopicPartition

TURNS_MIN = 3
TURN_MS_MAX = 60_000  # two that take turns commit at least once a minute, each


@dataclass(frozen=True, slots=True)
class Move:
    """A commit below the one before, with its position in the log of `__consumer_offsets`."""

    place: TopicPartition
    kafka_offset: int
    at_ms: int
    offset_before: int
    offset_after: int


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Holds a move, with the number of records that are read again because of it: at least `low`, at most `high`.
    `is_turn`: the move is one of two committers that take turns."""

    move: Move
    low: int
    high: int
    is_turn: bool = False


def read_again(moves: Iterable[Move]) -> list[ReadAgain]:
    """Returns each move of a group with the number of records that are read again because of it, in the order of the
    log."""
    by_place: defaultdict[TopicPartition, list[Move]] = defaultdict(list)
    for move in sorted(moves, key=lambda each: each.kafka_offset):
        by_place[move.place].append(move)
    found = [each for line in by_place.values() for each in _counted(line)]
    return sorted(found, key=lambda each: each.move.kafka_offset)


def total(counted: Iterable[ReadAgain]) -> tuple[int, int] | None:
    """Returns how many records are read again in all, at least and at most; None if there is no move."""
    both = [(each.low, each.high) for each in counted]
    return (sum(low for low, _ in both), sum(high for _, high in both)) if both else None


def _counted(line: Sequence[Move]) -> Iterator[ReadAgain]:
    """Yields the moves of a partition."""
    turns = _turns(line)
    reached = 0
    for number, move in enumerate(line):
        reached = max(reached, move.offset_before)
        following = line[number + 1] if number + 1 < len(line) else None
        until = reached if following is None else min(reached, following.offset_before)
        if turns[number] and following is not None and turns[number + 1]:
            until = following.offset_after
        records = max(until - move.offset_after, 0)
        yield ReadAgain(move, 0 if turns[number] else records, records, turns[number])


def _turns(line: Sequence[Move]) -> list[bool]:
    """Returns for each move whether it is one of at least `TURNS_MIN` turns in a row."""
    runs: list[list[Move]] = []
    for move in line:
        if runs and _is_next_turn(runs[-1][-1], move):
            runs[-1].append(move)
        else:
            runs.append([move])
    return [len(run) >= TURNS_MIN for run in runs for _ in run]


def _is_next_turn(one: Move, other: Move) -> bool:
    goes_on = one.offset_before <= other.offset_before and one.offset_after <= other.offset_after < one.offset_before
    is_progress = (one.offset_before, one.offset_after) != (other.offset_before, other.offset_after)
    return goes_on and is_progress and other.at_ms - one.at_ms <= TURN_MS_MAX

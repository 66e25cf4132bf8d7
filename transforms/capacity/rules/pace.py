"""Determines how fast each member processes records.

A member works as fast as it can only while work is left. So its pace is measured over stretches of rounds with two
conditions:

- The member owned the same partitions in each round, and the group did not rebalance.
- In each round one of these partitions had a backlog: its next record was older than two commit intervals plus the time
  between two rounds, since records that are not committed yet look like lag, too. A partition without progress does not
  count, since its member may be retrying a single record.

A client processes all that it has fetched of one partition before it takes the next one, and its other partitions make
no progress meanwhile. So a member is stuck only if none of its partitions with a backlog makes progress.

Its pace is the number of records by which its commits advanced, in all of its partitions, divided by the time of such
stretches. At either end of a stretch a commit can be late by one commit interval; `low` and `high` give the error that
follows. Stretches shorter than three commit intervals, or than a minute, are not used. The pace of a member that never
had a backlog is not known, since the member may be faster than was necessary. The rate in the longest stretch that
meets the first condition alone is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from groupledger.transforms.capacity.rules.seen import SECOND_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.capacity.rules.seen import CapacityRound, PartitionSample

INTERVALS_OF_BACKLOG = 2
INTERVALS_OF_STRETCH = 3
STRETCH_MS_MIN = 60_000
ROUNDS_APART_MS_MAX = 300_000
"""If two rounds are further apart than this, nobody knows who owned which partition between them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Holds a pace in records per second: `per_s`, between `low` and `high`. `per_s` is None if the member never had a
    backlog; then `at_least` is the rate that it processed. All are None if nothing is known."""

    per_s: float | None = None
    low: float | None = None
    high: float | None = None
    at_least: float | None = None


@dataclass(slots=True)
class OwnershipStretch:
    """Holds a time between rounds in which a member owned the same partitions, and how many records its commits
    advanced."""

    since_ms: int
    until_ms: int
    records: int
    commit_interval_ms: int

    @property
    def lasts_ms(self) -> int:
        return self.until_ms - self.since_ms

    @property
    def counts(self) -> bool:
        return self.lasts_ms >= max(STRETCH_MS_MIN, INTERVALS_OF_STRETCH * self.commit_interval_ms)


def paces(rounds: Sequence[CapacityRound]) -> dict[str, Pace]:
    """Returns the pace of each member that owned a partition in any round."""
    owners = {seen.owner for each in rounds for seen in each.places.values() if seen.owner is not None}
    return {owner: _pace(owner, rounds) for owner in sorted(owners)}


def _pace(owner: str, rounds: Sequence[CapacityRound]) -> Pace:
    busy = [each for each in _stretches(owner, rounds, with_backlog=True) if each.counts]
    if busy:
        lasts_ms, records = sum(each.lasts_ms for each in busy), sum(each.records for each in busy)
        error = sum(each.commit_interval_ms for each in busy) / lasts_ms
        per_s = records * SECOND_MS / lasts_ms
        return Pace(per_s, per_s * max(1 - error, 0), per_s * (1 + error), per_s * max(1 - error, 0))
    quiet = [each for each in _stretches(owner, rounds, with_backlog=False) if each.counts]
    longest = max(quiet, key=lambda each: each.lasts_ms, default=None)
    return Pace() if longest is None else Pace(at_least=longest.records * SECOND_MS / longest.lasts_ms)


def _stretches(owner: str, rounds: Sequence[CapacityRound], *, with_backlog: bool) -> Iterator[OwnershipStretch]:
    """Yields the stretches of rounds, each as long as it can be."""
    stretch: OwnershipStretch | None = None
    for before, after in pairwise(rounds):
        step = _step(owner, before, after, with_backlog=with_backlog)
        if step is None or stretch is None or step.since_ms != stretch.until_ms:
            if stretch is not None:
                yield stretch
            stretch = step
        else:
            stretch.until_ms = step.until_ms
            stretch.records += step.records
            stretch.commit_interval_ms = max(stretch.commit_interval_ms, step.commit_interval_ms)
    if stretch is not None:
        yield stretch


def _step(owner: str, before: CapacityRound, after: CapacityRound, *, with_backlog: bool) -> OwnershipStretch | None:
    """Returns what a member processed between two rounds; None if that does not show its pace."""
    owned, then = _owned(before, owner), _owned(after, owner)
    apart_ms = after.at_ms - before.at_ms
    if not owned or owned.keys() != then.keys() or apart_ms > ROUNDS_APART_MS_MAX:
        return None
    if any(seen.is_rebalancing for seen in (*owned.values(), *then.values())):
        return None
    if with_backlog and not (_has_backlog(owned.values(), apart_ms) and _has_backlog(then.values(), apart_ms)):
        return None
    records = 0
    for place, seen in owned.items():
        committed = then[place].committed
        if seen.committed is None or committed is None or committed < seen.committed:
            return None
        records += committed - seen.committed
    if not records and any(seen.is_stuck for seen in then.values()):
        return None
    interval_ms = max(seen.commit_interval_ms for seen in then.values())
    return OwnershipStretch(before.at_ms, after.at_ms, records, interval_ms)


def _owned(each: CapacityRound, owner: str) -> dict[TopicPartition, PartitionSample]:
    return {place: seen for place, seen in each.places.items() if seen.owner == owner}


def _has_backlog(places: Iterable[PartitionSample], apart_ms: int) -> bool:
    return any(not seen.is_stuck and has_backlog(seen, apart_ms) for seen in places)


def has_backlog(seen: PartitionSample, apart_ms: int) -> bool:
    """Returns whether a partition has more lag than records that are processed but not committed yet. `apart_ms` is the
    time between two rounds, by which the age of the next record may be wrong."""
    limit_ms = INTERVALS_OF_BACKLOG * seen.commit_interval_ms + apart_ms
    return bool(seen.lag) and seen.lag_seconds is not None and seen.lag_seconds * SECOND_MS > limit_ms

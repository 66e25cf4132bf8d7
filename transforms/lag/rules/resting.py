"""Finds where groups rest so close before the last stable offset that what is left may be markers of transactions.

Only the log shows whether it is (`jobs.kafka.markers`). It is asked where the next round finds the same end: a
consumer that goes on is not at rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.row import LagRow

# So many producers would have to end their transactions one after the other, without a record between.
MARKERS_MAX = 16


class Place(NamedTuple):
    """The part of a row of `lag` that is asked for."""

    topic: str
    partition: int
    committed_offset: int | None
    log_start_offset: int | None
    last_stable_offset: int | None


class Resting(NamedTuple):
    """Where the group that is furthest from the end rests on a topic partition, and that end."""

    committed_offset: int
    last_stable_offset: int


def resting_places(rows: Iterable[LagRow | Place]) -> dict[TopicPartition, Resting]:
    """Returns a place for each topic partition of a round on which a group rests so."""
    found: dict[TopicPartition, Resting] = {}
    for row in rows:
        committed, stable, start = row.committed_offset, row.last_stable_offset, row.log_start_offset
        if committed is None or stable is None or start is None or committed < start:
            continue
        if 0 < stable - committed <= MARKERS_MAX:
            place = TopicPartition(row.topic, row.partition)
            before = found.get(place)
            if before is None or committed < before.committed_offset:
                found[place] = Resting(committed, stable)
    return found

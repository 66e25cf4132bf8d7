"""Finds where groups rest so close before the last stable offset that only transaction markers may be left to read, and
where they make no progress, however far the end is.

Only the log shows whether the rest are markers (`jobs.kafka.markers`), or records of aborted transactions
(`jobs.kafka.aborted`). A consumer that makes progress is not at rest, and the log is not read for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import LagFlag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.row import LagRow

# So many producers would have to end their transactions one after the other, without a record between.
MARKERS_MAX = 16


class Place(NamedTuple):
    """The columns of a row of `lag` that show whether a group rests close before the end of a partition."""

    topic: str
    partition: int
    committed_offset: int | None
    log_start_offset: int | None
    last_stable_offset: int | None


class Resting(NamedTuple):
    """Holds a committed offset and the last stable offset of a topic partition. Of several groups that rest there, it
    is the commit of the one furthest from the end."""

    committed_offset: int
    last_stable_offset: int


def resting_places(rows: Iterable[LagRow | Place]) -> dict[TopicPartition, Resting]:
    """Returns, for each topic partition at whose end a group rests, the commit of such a group that lies furthest from
    the end. `rows` are those of one round."""
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


def standing_places(rows: Iterable[LagRow]) -> dict[TopicPartition, int]:
    """Returns, for each topic partition on which a group made no progress between two rounds, the committed offset of
    such a group that lies closest to the end. `rows` are those of one round."""
    found: dict[TopicPartition, int] = {}
    for row in rows:
        committed, since_ms = row.committed_offset, row.no_progress_since_ms
        stands = since_ms is not None and since_ms < row.sampled_at_ms
        is_read = LagFlag.TRANSACTION_MARKERS_ONLY in row.flags
        if committed is not None and committed >= (row.log_start_offset or 0) and (is_read or (stands and row.lag)):
            place = TopicPartition(row.topic, row.partition)
            found[place] = max(committed, found.get(place, committed))
    return found

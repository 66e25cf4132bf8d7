"""Computes from a group's lag the number that an autoscaler acts on.

A sum of known lags would be 0 for a group that has committed nothing, and its scaler would remove its consumers. So a
setting says how much a partition without a commit counts (`schemas.words.NoCommit`). Lag that more consumers would not
reduce does not count: partitions that the group no longer subscribes to, records after the beginning of an open
transaction for a consumer that waits for its end, and, if asked for, persistent lag.

Lag is persistent if the commit has not moved for too long (`stopped`, `stalled`) although the partition may have a
consumer: that consumer is stuck, and another one would be stuck there, too. If the group has no consumers, lag does not
count as persistent, because a group that was scaled to zero would never come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.schemas.kafka.group_states import EMPTY
from groupledger.schemas.words import LagFlag, LagStatus, NoCommit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.transforms.lag.rules.row import LagRow

STUCK = {LagStatus.STOPPED, LagStatus.STALLED}


@dataclass(frozen=True, slots=True)
class LagToScaleBy:
    """Holds the number to scale by (`lag`), in records; None if no lag that counts is known. `persistent_lag` is how
    much of the lag is persistent, whether or not it counts, and `partitions_without_lag` how many partitions have no
    known lag."""

    lag: int | None
    persistent_lag: int
    partitions_without_lag: int


def lag_to_scale_by(rows: Iterable[LagRow], no_commit: str, *, without_persistent: bool = False) -> LagToScaleBy:
    """Returns the number to scale by for the rows of one group, or of one of its topics, in one round. `no_commit` (a
    word of `NoCommit`) says how much a partition without a commit counts; `without_persistent` leaves out persistent
    lag."""
    counted = [row for row in rows if LagFlag.UNSUBSCRIBED not in row.flags]
    persistent = {id(row): _readable(row) or 0 for row in counted if is_persistent(row)}
    numbers = [
        _readable(row) if row.lag is not None else _without_lag(row, no_commit)
        for row in counted
        if not (without_persistent and id(row) in persistent)
    ]
    known = [number for number in numbers if number is not None]
    return LagToScaleBy(
        sum(known) if known or persistent else None,
        sum(persistent.values()),
        sum(row.lag is None for row in counted),
    )


def _readable(row: LagRow) -> int | None:
    return row.lag_read_committed if row.status == LagStatus.WAITING_FOR_TRANSACTION else row.lag


def is_persistent(row: LagRow) -> bool:
    return row.status in STUCK and row.owned is not False and row.group_state != EMPTY


def _without_lag(row: LagRow, no_commit: str) -> int | None:
    if LagFlag.NO_COMMIT not in row.flags or no_commit in {NoCommit.NONE, NoCommit.ERROR}:
        return None
    if no_commit == NoCommit.LATEST:
        return 1
    if row.high_watermark is None or row.log_start_offset is None:
        return None
    return row.high_watermark - row.log_start_offset

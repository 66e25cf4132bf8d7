"""Holds the rounds of a group's lag as the input of the capacity rules, and computes the rate of production from
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.words import LagFlag
from groupledger.transforms.lag.rules.scaling import STUCK
from groupledger.transforms.lag.rules.status import REBALANCING_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.transforms.lag.rules.row import LagRow

SECOND_MS = 1_000


class PartitionSample(NamedTuple):
    """Holds what one round says of a partition. `committed`, `end` and `lag` are None if they are not known, and
    `owner` is None if the partition has no known owner."""

    committed: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None
    owner: str | None
    commit_interval_ms: int
    is_stuck: bool
    is_rebalancing: bool


class CapacityRound(NamedTuple):
    at_ms: int
    places: Mapping[TopicPartition, PartitionSample]


def rounds_of(rows: Iterable[LagRow]) -> list[CapacityRound]:
    """Returns the rounds of one group in the order of time, without partitions that it no longer subscribes to."""
    found: dict[int, dict[TopicPartition, PartitionSample]] = {}
    for row in rows:
        if LagFlag.UNSUBSCRIBED in row.flags:
            continue
        is_new = LagFlag.STALE_SAMPLE not in row.flags
        found.setdefault(row.sampled_at_ms, {})[TopicPartition(row.topic, row.partition)] = PartitionSample(
            committed=row.committed_offset if row.lag is not None else None,
            end=row.high_watermark if is_new else None,
            lag=row.lag,
            lag_seconds=row.lag_seconds,
            owner=row.owner,
            commit_interval_ms=row.commit_interval_ms or 0,
            is_stuck=row.status in STUCK,
            is_rebalancing=row.group_state in REBALANCING_STATES,
        )
    return [CapacityRound(at_ms, found[at_ms]) for at_ms in sorted(found)]


def produced_per_s(rounds: Iterable[CapacityRound]) -> dict[TopicPartition, float | None]:
    """Returns the records per second that each partition of the last round gets. The rate is computed from the first
    and the last known end of its log; it is None if fewer than two ends are known, or if the log was truncated."""
    ends: dict[TopicPartition, list[tuple[int, int]]] = {}
    last: CapacityRound | None = None
    for last in rounds:
        for place, seen in last.places.items():
            if seen.end is not None:
                ends.setdefault(place, []).append((last.at_ms, seen.end))
    return {} if last is None else {place: _slope(ends.get(place, [])) for place in last.places}


def _slope(ends: list[tuple[int, int]]) -> float | None:
    if len(ends) < 2:  # noqa: PLR2004 - a rate needs two
        return None
    (first_ms, first), (last_ms, last) = ends[0], ends[-1]
    return (last - first) * SECOND_MS / (last_ms - first_ms) if last >= first else None

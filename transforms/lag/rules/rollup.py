"""Sums up the rows of one round, for each group and each of its topics.

Partitions that the group no longer subscribes to are counted separately, and left out of all sums and statuses: no
member will reduce their lag. Only a group that has no other partitions has their status. Partitions whose lag is null
are counted, but their lag is not taken as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from statistics import median_low
from typing import TYPE_CHECKING

from groupledger.schemas.words import LagFlag, LagStatus
from groupledger.transforms.lag.rules import burrow, status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from groupledger.transforms.lag.rules.row import LagRow


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollup:
    """Holds the sums of one group in one round, or of one of its topics; `topic` is None for the group as a whole.

    Totals are None if no partition has a lag. `lag_seconds_max` is the highest known time, or bound of one; None if
    there is neither. `lag_seconds_lower_bound` is the highest bound of the partitions without a known time; if it is
    set, `lag_seconds_max` is only a bound, too. `catch_up_seconds` is the time that the lag needs at the present slope;
    None if the lag does not shrink. `commit_age_ms` is the age of the newest commit, and `commit_interval_ms` the
    median of the partitions' mean intervals.
    """

    sampled_at_ms: int
    group_id: str
    topic: str | None
    group_state: str | None
    partitions: int
    partitions_without_lag: int
    partitions_unsubscribed: int
    lag_sum: int | None
    lag_max: int | None
    worst_topic: str | None
    worst_partition: int | None
    lag_seconds_max: float | None
    lag_seconds_lower_bound: float | None
    messages_lost: int
    lag_per_second: float | None
    catch_up_seconds: float | None
    commit_age_ms: int | None
    commit_interval_ms: int | None
    status: str
    burrow_status: str


def rollup(rows: Iterable[LagRow]) -> list[Rollup]:
    """Returns a rollup of each group, each followed by those of its topics. The rows of the round may come in any
    order."""
    found = []
    ordered = sorted(rows, key=attrgetter("group_id", "topic", "partition"))
    for _, of_group in groupby(ordered, key=attrgetter("group_id")):
        members = list(of_group)
        whole = _rollup(members, None)
        waiting = sum(row.status == LagStatus.UNSUBSCRIBED for row in members)
        has_others = whole.partitions_unsubscribed < whole.partitions
        is_unsubscribed = status.is_unsubscribed(0 if has_others else waiting, whole.group_state)
        found.append(replace(whole, status=LagStatus.UNSUBSCRIBED) if is_unsubscribed else whole)
        if members[0].topic == members[-1].topic:
            found.append(replace(whole, topic=members[0].topic))
        else:
            found += [_rollup(list(of_topic), topic) for topic, of_topic in groupby(members, key=attrgetter("topic"))]
    return found


def _rollup(rows: Sequence[LagRow], topic: str | None) -> Rollup:
    """Returns the sums of the rows, which are in the order of topics and partitions."""
    first = rows[0]
    counted = [row for row in rows if LagFlag.UNSUBSCRIBED not in row.flags]
    with_lag = [row for row in counted if row.lag is not None]
    lags = [row.lag for row in with_lag if row.lag is not None]
    lag_max = max(lags, default=None)
    worst = with_lag[lags.index(lag_max)] if lag_max is not None else None  # the first of several with as much
    lag_sum = sum(lags) if lags else None
    slopes = [row.lag_per_second for row in with_lag if row.lag_per_second is not None]
    slope = sum(slopes) if slopes else None
    is_shrinking = lag_sum is not None and slope is not None and slope < 0
    bounds = [row.lag_seconds_lower_bound for row in with_lag if row.lag_seconds_lower_bound is not None]
    seconds = [row.lag_seconds for row in with_lag if row.lag_seconds is not None]
    ages = [age for row in counted if (age := row.commit_age_ms) is not None]
    intervals = [row.commit_interval_ms for row in counted if row.commit_interval_ms is not None]
    return Rollup(
        sampled_at_ms=first.sampled_at_ms,
        group_id=first.group_id,
        topic=topic,
        group_state=first.group_state,
        partitions=len(rows),
        partitions_without_lag=len(counted) - len(with_lag),
        partitions_unsubscribed=len(rows) - len(counted),
        lag_sum=lag_sum,
        lag_max=lag_max,
        worst_topic=worst.topic if worst else None,
        worst_partition=worst.partition if worst else None,
        lag_seconds_max=max(seconds + bounds, default=None),
        lag_seconds_lower_bound=max(bounds, default=None),
        messages_lost=sum(row.messages_lost or 0 for row in counted),
        lag_per_second=slope,
        catch_up_seconds=lag_sum / -slope if is_shrinking and lag_sum is not None and slope is not None else None,
        commit_age_ms=min(ages, default=None),
        commit_interval_ms=median_low(intervals) if intervals else None,
        status=status.worst(row.status for row in counted),
        burrow_status=burrow.group_status(row.burrow_status for row in counted if row.burrow_status is not None),
    )

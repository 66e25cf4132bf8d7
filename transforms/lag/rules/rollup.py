"""Sums up the rows of one round, for each group and each of its topics.

Partitions that the group no longer subscribes to are counted separately, and left out of all sums and statuses: no
member will reduce their lag. Only a group that has no other partitions has their status. Partitions whose lag is null
are counted, but their lag is not taken as zero.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import attrgetter
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.words import LagFlag, LagStatus
from groupledger.transforms.lag.rules import burrow, status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.transforms.lag.rules.row import LagRow


@dataclass(slots=True)  # a frozen one would cost twice as much to make, and one with keywords five times as much
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


_NAMES = [each.name for each in fields(Rollup)]
_AGE = _NAMES.index("commit_age_ms")
_UNTIL_AGE, _FROM_AGE = attrgetter(*_NAMES[1:_AGE]), attrgetter(*_NAMES[_AGE + 1 :])
_GROUP_ID = attrgetter("group_id")


def rollup(rows: Iterable[LagRow]) -> list[Rollup]:
    """Returns a rollup of each group, each followed by those of its topics. The rows of the round may come in any
    order."""
    ordered = sorted(rows, key=attrgetter("group_id", "topic", "partition"))
    return [each for _, of_group in groupby(ordered, key=_GROUP_ID) for each in _of_group(list(of_group))]


class _Rest(NamedTuple):
    """Holds the sums of a group at rest, each with the instant of the newest commit."""

    token: object
    sums: list[tuple[Rollup, int | None]]


class Rollups:
    """Sums up round after round, as `rollup` does. The sums of a group at rest are made once."""

    def __init__(self) -> None:
        self._rests: dict[str, _Rest] = {}

    def of(self, rows: Iterable[LagRow], at_rest: Mapping[str, object]) -> list[Rollup]:
        """Returns the rollups of a round. Its rows come group by group, in the order of topics and partitions. The rows
        of a group differ only in their time as long as `at_rest` has the same object for it."""
        found: dict[str, list[Rollup]] = {}
        before, self._rests = self._rests, {}
        for group_id, of_group in groupby(rows, key=_GROUP_ID):
            token, rest = at_rest.get(group_id), before.get(group_id)
            if rest is not None and rest.token is token:
                at_ms = next(of_group).sampled_at_ms
                found[group_id] = [_later(each, newest_ms, at_ms) for each, newest_ms in rest.sums]
                self._rests[group_id] = rest
                continue
            members = list(of_group)
            sums = found[group_id] = _of_group(members)
            if token is not None:
                self._rests[group_id] = _Rest(token, [(each, _newest_commit_ms(members, each.topic)) for each in sums])
        return [each for group_id in sorted(found) for each in found[group_id]]


def _later(each: Rollup, newest_commit_ms: int | None, sampled_at_ms: int) -> Rollup:
    age_ms = None if newest_commit_ms is None else max(sampled_at_ms - newest_commit_ms, 0)
    columns = (*_UNTIL_AGE(each), age_ms, *_FROM_AGE(each))
    return Rollup(sampled_at_ms, *columns)


def _newest_commit_ms(rows: Iterable[LagRow], topic: str | None) -> int | None:
    counted = (row for row in rows if LagFlag.UNSUBSCRIBED not in row.flags and topic in (None, row.topic))
    known = (row.commit_timestamp_ms for row in counted if row.commits_until_ms is None)
    return max((at_ms for at_ms in known if at_ms is not None), default=None)


def _of_group(rows: Sequence[LagRow]) -> list[Rollup]:
    whole = _rollup(rows, None)
    waiting = sum(row.status == LagStatus.UNSUBSCRIBED for row in rows)
    has_others = whole.partitions_unsubscribed < whole.partitions
    is_unsubscribed = status.is_unsubscribed(0 if has_others else waiting, whole.group_state)
    found = [replace(whole, status=LagStatus.UNSUBSCRIBED) if is_unsubscribed else whole]
    if rows[0].topic == rows[-1].topic:
        return [*found, replace(whole, topic=rows[0].topic)]
    return [*found, *(_rollup(list(of_topic), topic) for topic, of_topic in groupby(rows, key=attrgetter("topic")))]


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

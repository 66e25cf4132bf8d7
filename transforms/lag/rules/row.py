"""One row of `lag`: a group on a topic partition in one sampling round.

    raw_lag             high watermark - committed, with its sign: below 0 the commit lies behind the log's end
    lag                 high watermark - max(committed, log start), not below 0: what there is to read
    lag_read_committed  the same against the last stable offset: what a read_committed consumer can read
    messages_lost       log start - committed, if above 0: what retention took first

Null, never 0, without a commit or a watermark. A commit of a topic that was made anew under the name says nothing of
the new one: its `raw_lag` is told, its lag is null. It is one if its topic id is another than the sampled one, or, of
clients that send none, if it was made before the last sample of the former topic, or can only be explained by that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from groupledger.transforms.lag.rules import burrow, status
from groupledger.transforms.lag.rules.facts import (
    AHEAD_OF_LOG,
    EXACT,
    HIDDEN_COMMITS,
    INTERPOLATED,
    MESSAGES_LOST,
    NO_COMMIT,
    NO_WATERMARK,
    OPEN_TRANSACTION,
    OUTSIDE_WINDOW,
    STALE_SAMPLE,
    TOPIC_RECREATED,
    TRANSACTION_MARKERS_ONLY,
    TRUNCATED,
    UNKNOWN_OWNER,
    UNOWNED,
    UNSUBSCRIBED,
    ZERO,
    Commit,
    NextRecord,
    Owner,
    Watermark,
)

if TYPE_CHECKING:
    from groupledger.transforms.lag.rules.partition_window import PartitionWindow
    from groupledger.transforms.lag.rules.thresholds import LagRules
    from groupledger.transforms.lag.rules.topic_window import TopicWindow

# The clocks of broker and sampler may differ by so much before a commit is taken for one of a former topic.
CLOCK_MARGIN_MS = 5_000


@dataclass(frozen=True, slots=True)
class Place:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a round says of a row beside commit and watermark. `has_stale_end` and `has_hidden_commits` are of the
    group's `__consumer_offsets` partition: its end is of an earlier round; it lies behind an open transaction."""

    sampled_at_ms: int
    owner: Owner = UNKNOWN_OWNER
    group_state: str | None = None
    has_stale_end: bool = False
    has_hidden_commits: bool = False


@dataclass(frozen=True, slots=True)
class LagRow:
    """The columns of `lag`; times in milliseconds."""

    sampled_at_ms: int
    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    high_watermark: int | None
    log_start_offset: int | None
    last_stable_offset: int | None
    raw_lag: int | None
    lag: int | None
    lag_read_committed: int | None
    messages_lost: int | None
    lag_seconds: float | None
    lag_seconds_lower_bound: float | None
    lag_seconds_method: str | None
    lag_per_second: float | None
    status: str
    burrow_status: str | None
    no_progress_since_ms: int | None
    flags: tuple[str, ...]
    owned: bool | None
    owner: str | None
    client_id: str | None
    client_host: str | None
    group_state: str | None
    leader_epoch: int | None
    kafka_partition: int | None
    kafka_offset: int | None
    commit_timestamp_ms: int | None
    commit_interval_ms: int | None


@dataclass(frozen=True, slots=True)
class _Lag:
    raw: int | None = None
    lag: int | None = None
    read_committed: int | None = None
    lost: int | None = None


_NO_LAG = _Lag()


def lag_row(
    place: Place, topic: TopicWindow | None, window: PartitionWindow | None, now: Circumstances, rules: LagRules
) -> LagRow:
    """`topic` holds the samples up to the round, `window` the group's commits below its position; `window` then
    remembers what is found. Either is None if there is nothing to know."""
    watermark = _usable(topic, now, rules)
    commit = window.latest if window is not None else None
    flags: list[str] = []
    found = _lag(commit, watermark, topic, flags)
    _add_flags(flags, commit, watermark, now)
    if window is not None:
        window.observe(now.sampled_at_ms, found.lag, rules)
    seconds, bound, method = _lag_seconds(commit, watermark, topic, found.lag, now)
    slope = status.slope_per_s(window.points) if window is not None and found.lag is not None else None
    return LagRow(
        sampled_at_ms=now.sampled_at_ms,
        group_id=place.group_id,
        topic=place.topic,
        partition=place.partition,
        committed_offset=commit.committed_offset if commit else None,
        high_watermark=watermark.high_watermark if watermark else None,
        log_start_offset=watermark.log_start_offset if watermark else None,
        last_stable_offset=watermark.last_stable_offset if watermark else None,
        raw_lag=found.raw,
        lag=found.lag,
        lag_read_committed=found.read_committed,
        messages_lost=found.lost,
        lag_seconds=seconds,
        lag_seconds_lower_bound=bound,
        lag_seconds_method=method,
        lag_per_second=slope,
        status=_status(window, found.lag, slope, flags, now, rules),
        burrow_status=_burrow_status(topic, window, found.lag, now, rules),
        no_progress_since_ms=window.no_progress_since_ms if window else None,
        flags=tuple(flags),
        owned=now.owner.owned,
        owner=now.owner.member_id,
        client_id=now.owner.client_id,
        client_host=now.owner.client_host,
        group_state=now.group_state,
        leader_epoch=commit.leader_epoch if commit else None,
        kafka_partition=commit.kafka_partition if commit else None,
        kafka_offset=commit.kafka_offset if commit else None,
        commit_timestamp_ms=commit.commit_timestamp_ms if commit else None,
        commit_interval_ms=window.commit_interval_ms if window else None,
    )


def with_next_record(row: LagRow, found: NextRecord) -> LagRow:
    """The row with the time of the record itself. On a compacted topic, or where retention has been, that is the first
    one left, and the time a lower one."""
    if not row.lag:
        return row
    exactly = replace(row, lag_seconds=0.0, lag_seconds_lower_bound=None, lag_seconds_method=EXACT)
    if found.timestamp_ms is None:
        return replace(exactly, status=status.OK, flags=(*row.flags, TRANSACTION_MARKERS_ONLY))
    return replace(exactly, lag_seconds=_seconds(row.sampled_at_ms - found.timestamp_ms))


def _usable(topic: TopicWindow | None, now: Circumstances, rules: LagRules) -> Watermark | None:
    """The newest sample, if it is not too old: while a broker is away, its logs' ends don't move."""
    watermark = topic.latest if topic is not None else None
    if watermark is None or now.sampled_at_ms - watermark.sampled_at_ms > rules.watermark_age_max_ms:
        return None
    return watermark


def _lag(commit: Commit | None, watermark: Watermark | None, topic: TopicWindow | None, flags: list[str]) -> _Lag:
    if commit is None or commit.committed_offset is None:
        flags.append(NO_COMMIT)
        return _NO_LAG
    if watermark is None or topic is None:
        flags.append(NO_WATERMARK)
        return _NO_LAG
    committed = commit.committed_offset
    raw = watermark.high_watermark - committed
    if _is_of_former_topic(commit, watermark, topic):
        flags.append(TOPIC_RECREATED)
        return _Lag(raw)
    if raw < 0:
        flags.append(TRUNCATED if committed <= topic.longest else AHEAD_OF_LOG)
    lost = watermark.log_start_offset - committed
    if lost > 0:
        flags.append(MESSAGES_LOST)
    reachable = max(committed, watermark.log_start_offset)
    return _Lag(
        raw,
        max(watermark.high_watermark - reachable, 0),
        max(watermark.last_stable_offset - reachable, 0),
        max(lost, 0),
    )


def _is_of_former_topic(commit: Commit, watermark: Watermark, topic: TopicWindow) -> bool:
    if commit.topic_id is not None and watermark.topic_id is not None:
        return commit.topic_id != watermark.topic_id
    former = topic.former
    if former is None or commit.committed_offset is None:
        return False
    if commit.commit_timestamp_ms + CLOCK_MARGIN_MS <= former.last_sampled_at_ms:
        return True
    return topic.longest < commit.committed_offset <= former.high_watermark


def _add_flags(flags: list[str], commit: Commit | None, watermark: Watermark | None, now: Circumstances) -> None:
    if watermark is not None and watermark.last_stable_offset < watermark.high_watermark:
        flags.append(OPEN_TRANSACTION)
    is_late = watermark is not None and watermark.sampled_at_ms < now.sampled_at_ms
    if is_late or (commit is not None and now.has_stale_end):
        flags.append(STALE_SAMPLE)
    if now.has_hidden_commits:
        flags.append(HIDDEN_COMMITS)
    if now.owner.owned is False:
        flags.append(UNSUBSCRIBED if now.owner.is_subscribed is False else UNOWNED)


def _lag_seconds(
    commit: Commit | None, watermark: Watermark | None, topic: TopicWindow | None, lag: int | None, now: Circumstances
) -> tuple[float | None, float | None, str | None]:
    """Seconds, a lower bound where they are not known, and the method."""
    if lag is None or commit is None or commit.committed_offset is None or watermark is None or topic is None:
        return None, None, None
    if lag == 0:
        return 0.0, None, ZERO
    at_ms, latest_ms = topic.appended_at_ms(max(commit.committed_offset, watermark.log_start_offset))
    if at_ms is not None:
        return _seconds(now.sampled_at_ms - at_ms), None, INTERPOLATED
    bound = None if latest_ms is None else _seconds(now.sampled_at_ms - latest_ms)
    return None, bound, OUTSIDE_WINDOW


def _seconds(elapsed_ms: int) -> float:
    """A record's own time may lie in the future of the sampler's clock."""
    return max(elapsed_ms, 0) / 1_000


def _status(
    window: PartitionWindow | None,
    lag: int | None,
    slope: float | None,
    flags: list[str],
    now: Circumstances,
    rules: LagRules,
) -> str:
    if window is None or window.latest is None:
        return status.NO_COMMIT
    if lag is None:
        return status.UNKNOWN
    if lag == 0:
        return status.OK
    if UNSUBSCRIBED in flags:
        return status.UNSUBSCRIBED
    if now.group_state in status.REBALANCING_STATES:
        return status.REBALANCING
    return _status_by_progress(window, window.latest, slope, now.sampled_at_ms, rules)


def _status_by_progress(
    window: PartitionWindow, commit: Commit, slope: float | None, now_ms: int, rules: LagRules
) -> str:
    since_ms = window.no_progress_since_ms
    if since_ms is not None:
        limit_ms = status.standstill_ms(window.commit_interval_ms, rules.status)
        if now_ms - since_ms >= limit_ms:
            return status.STALLED if commit.commit_timestamp_ms > since_ms else status.STOPPED
    if status.is_rewound(window.points):
        return status.REWOUND
    return status.GROWING if status.is_growing(window.points, slope, rules.status) else status.OK


def _burrow_status(
    topic: TopicWindow | None, window: PartitionWindow | None, lag: int | None, now: Circumstances, rules: LagRules
) -> str | None:
    """Null where Burrow has nothing to judge."""
    if topic is None or window is None or lag is None:
        return None
    ends = topic.recent_ends
    newest = islice(ends, max(len(ends) - rules.burrow.intervals, 0), None)
    return burrow.partition_status(window.ring, newest, lag, now.sampled_at_ms, rules.burrow)

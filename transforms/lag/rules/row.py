"""Computes one row of `lag`: a group on a topic partition in one sampling round.

    raw_lag             high watermark - committed, with its sign: below 0 the commit lies beyond the log's end
    lag                 high watermark - max(committed, log start), not below 0: the offsets left to read
    lag_read_committed  the same against the last stable offset: the offsets that a read_committed consumer can read
    messages_lost       log start - committed, if above 0: what retention deleted before it was read

All are null, never 0, without a commit or a watermark. There is one exception: if the log is empty, lag is 0 without a
commit, too. A commit beyond the end of the log has only a `raw_lag`, because it is not known where its consumer will
continue. Offsets that are known to hold nothing but markers of transactions are no lag.

Lag is computed only from commits and ends of one round: a commit of a minute ago against an end of now would give a lag
that never existed. If the commits are known only until an earlier round, the row has the instant of that round.

If a topic was deleted and created again under the same name, a commit of the former topic has a `raw_lag`, and its lag
is null. A commit is of the former topic if its topic id differs from the sampled one. If the client sent no topic id,
it is of the former topic if it was made before the last sample of the former topic, or if nothing else explains its
offset.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.schemas.words import BurrowStatus, LagFlag, LagSecondsMethod, LagStatus
from groupledger.transforms.lag.rules import burrow, status
from groupledger.transforms.lag.rules.facts import UNKNOWN_OWNER, Commit, NextRecord, Owner, Watermark

if TYPE_CHECKING:
    from groupledger.transforms.lag.rules.partition_window import PartitionWindow
    from groupledger.transforms.lag.rules.thresholds import LagRules
    from groupledger.transforms.lag.rules.topic_window import TopicWindow

# The clocks of broker and sampler may differ by as much without a commit being taken for one of a former topic.
CLOCK_MARGIN_MS = 5_000
MILLISECONDS = {
    "sampled_at": "sampled_at_ms",
    "no_progress_since": "no_progress_since_ms",
    "committed_at": "commit_timestamp_ms",
    "commits_until": "commits_until_ms",
}
"""Columns that are instants, and the field of `LagRow` that each comes from; all others have the field's name."""


class GroupPartition(NamedTuple):
    group_id: str
    topic: str
    partition: int


class Circumstances(NamedTuple):
    """Holds the facts of a round about a row that are not in its commit or watermark.

    The last three are about the group's `__consumer_offsets` partition. `commits_until_ms` is an earlier round, up to
    whose end the commits are known; None if they are known up to this round's end. `has_hidden_commits`: an open
    transaction hides the records after it. `has_lost_commit`: a later commit may be missing, because the log has a hole
    after the last commit, or because the cleaner may have removed the commit before it was read.
    """

    sampled_at_ms: int
    owner: Owner = UNKNOWN_OWNER
    group_state: str | None = None
    commits_until_ms: int | None = None
    has_hidden_commits: bool = False
    has_lost_commit: bool = False


@dataclass(slots=True)  # a frozen one would cost twice as much to make, and one with keywords five times as much
class LagRow:
    """Holds the columns of `lag`; instants and durations whose names end in `_ms` are in milliseconds."""

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
    commits_until_ms: int | None = None

    @property
    def commit_age_ms(self) -> int | None:
        """Returns the age of the last commit at the time of the sample; None if there is no commit, or if a newer
        commit may not have been read yet. Never below 0, although the clocks of coordinator and sampler may differ."""
        at_ms = self.commit_timestamp_ms if self.commits_until_ms is None else None
        return None if at_ms is None else max(self.sampled_at_ms - at_ms, 0)


class _Lag(NamedTuple):
    """`is_waiting` means that all lag lies after the beginning of an open transaction, for a read_committed
    consumer."""

    raw: int | None = None
    lag: int | None = None
    read_committed: int | None = None
    lost: int | None = None
    is_waiting: bool = False


_OF_A_MOMENT = (
    *("committed_offset", "high_watermark", "log_start_offset", "last_stable_offset", "raw_lag", "lag"),
    *("lag_read_committed", "messages_lost", "lag_seconds", "lag_seconds_lower_bound", "lag_seconds_method"),
    *("lag_per_second", "burrow_status", "commit_timestamp_ms"),
)
_NAMES = [each.name for each in fields(LagRow)]
_SLOPE = _NAMES.index("lag_per_second")
_UNTIL_SLOPE, _FROM_SLOPE = attrgetter(*_NAMES[1:_SLOPE]), attrgetter(*_NAMES[_SLOPE + 1 :])
_NO_LAG = _Lag()
_EMPTY_LOG = _Lag(lag=0, read_committed=0)


def lag_row(
    place: GroupPartition,
    topic: TopicWindow | None,
    window: PartitionWindow | None,
    now: Circumstances,
    rules: LagRules,
) -> LagRow:
    """Returns the row of a group on a topic partition, and adds its lag to `window`.

    `topic` has the samples of the topic partition up to the round, and `window` the group's commits below the end that
    the round read. Either may be None.
    """
    watermark = _usable(topic, now, rules)
    commit = window.latest if window is not None else None
    flags: list[str] = []
    if now.commits_until_ms is not None:
        flags.append(LagFlag.COMMITS_LATE)
    elif commit is None or commit.committed_offset is None:
        flags.append(LagFlag.COMMIT_UNKNOWN if now.has_lost_commit else LagFlag.NO_COMMIT)
    found = _NO_LAG if now.commits_until_ms is not None else _lag(commit, watermark, topic, flags, now)
    _add_flags(flags, watermark, now)
    if window is not None:
        window.observe(now.sampled_at_ms, found.lag, rules, is_waiting=found.is_waiting)
    if _is_marker(found.lag, watermark, topic, window, now):
        flags.append(LagFlag.TRANSACTION_MARKERS_ONLY)
    to_read = 0 if LagFlag.TRANSACTION_MARKERS_ONLY in flags else found.lag
    seconds, bound, method = _lag_seconds(commit, watermark, topic, window, to_read, now)
    slope = window.points.slope_per_s() if window is not None and found.lag is not None else None
    return LagRow(  # by position, since keywords cost five times as much
        now.sampled_at_ms,
        place.group_id,
        place.topic,
        place.partition,
        commit.committed_offset if commit else None,
        watermark.high_watermark if watermark else None,
        watermark.log_start_offset if watermark else None,
        watermark.last_stable_offset if watermark else None,
        found.raw,
        found.lag,
        found.read_committed,
        found.lost,
        seconds,
        bound,
        method,
        slope,
        _status(window, found, slope, flags, now, rules),
        _burrow_status(topic, window, 0 if found.is_waiting else to_read, flags, now, rules),
        window.no_progress_since_ms if window else None,
        tuple(flags),
        now.owner.owned,
        now.owner.member_id,
        now.owner.client_id,
        now.owner.client_host,
        now.group_state,
        commit.leader_epoch if commit else None,
        commit.kafka_partition if commit else None,
        commit.kafka_offset if commit else None,
        commit.commit_timestamp_ms if commit else None,
        window.commit_interval_ms if window else None,
        now.commits_until_ms,
    )


def is_settled(row: LagRow) -> bool:
    """Returns whether the next row is the same, except for `sampled_at_ms` and `lag_per_second`, if by then there is no
    new commit, the same sample and the same circumstances: there is nothing to read or no commit, so nothing is waited
    for. The sample must be one of its round."""
    is_sampled = row.high_watermark is not None and LagFlag.STALE_SAMPLE not in row.flags
    return is_sampled and (row.lag == 0 or row.kafka_offset is None)


def settled_row(before: LagRow, window: PartitionWindow | None, sampled_at_ms: int, rules: LagRules) -> LagRow:
    """Returns the next row after a settled one, and adds its lag to `window`, as `lag_row` would."""
    slope = None
    if window is not None:
        window.observe(sampled_at_ms, 0, rules)
        slope = window.points.slope_per_s()
    columns = (*_UNTIL_SLOPE(before), slope, *_FROM_SLOPE(before))
    return LagRow(sampled_at_ms, *columns)


AFTER_TIME = attrgetter(*_NAMES[1:])
"""Returns the columns of a row after `sampled_at_ms`."""


def out_of_date(row: LagRow, group_state: str | None) -> LagRow:
    """Returns the row of a round that is too old to be shown as the present.

    Offsets, the time of the commit and all columns about lag (`_OF_A_MOMENT`) become None, the status UNKNOWN and the
    flags COMMITS_LATE, with UNSUBSCRIBED and UNOWNED where the row has them. `group_state` is the present state of the
    group. Owner and client stay. `commits_until_ms` stays too, or becomes the time of the round where it was None.
    """
    nothing: dict[str, Any] = dict.fromkeys(_OF_A_MOMENT)
    flags = tuple(flag for flag in row.flags if flag in (LagFlag.UNSUBSCRIBED, LagFlag.UNOWNED))
    nothing |= {"status": LagStatus.UNKNOWN, "flags": (LagFlag.COMMITS_LATE, *flags), "group_state": group_state}
    until_ms = row.sampled_at_ms if row.commits_until_ms is None else row.commits_until_ms
    return replace(row, **nothing, commits_until_ms=until_ms)


def with_next_record(row: LagRow, record: NextRecord) -> LagRow:
    """Returns the row with `lag_seconds` computed from the time of the next record itself, which was read from the
    topic.

    On a compacted topic, or after retention, this is the first record that is left, and its age is a lower bound.
    """
    if not row.lag:
        return row
    flags = tuple(flag for flag in row.flags if flag != LagFlag.TRANSACTION_MARKERS_ONLY)  # it is known better now
    exactly = replace(row, lag_seconds=0.0, lag_seconds_lower_bound=None, lag_seconds_method=LagSecondsMethod.EXACT)
    if record.timestamp_ms is None:
        all_flags = (*flags, LagFlag.TRANSACTION_MARKERS_ONLY)
        return replace(exactly, lag=0, lag_read_committed=0, status=LagStatus.OK, flags=all_flags)
    return replace(exactly, lag_seconds=_seconds(row.sampled_at_ms - record.timestamp_ms), flags=flags)


def _usable(topic: TopicWindow | None, now: Circumstances, rules: LagRules) -> Watermark | None:
    """Returns the newest sample, if it is not too old: while a broker is away, the ends of its logs don't move."""
    watermark = topic.latest if topic is not None else None
    if watermark is None or now.sampled_at_ms - watermark.sampled_at_ms > rules.watermark_age_max_ms:
        return None
    return watermark


def _lag(
    commit: Commit | None,
    watermark: Watermark | None,
    topic: TopicWindow | None,
    flags: list[str],
    now: Circumstances,
) -> _Lag:
    is_new = watermark is not None and watermark.sampled_at_ms >= now.sampled_at_ms
    if commit is None or commit.committed_offset is None:
        is_empty = is_new and watermark is not None and watermark.log_start_offset == watermark.high_watermark
        return _EMPTY_LOG if is_empty and LagFlag.NO_COMMIT in flags else _NO_LAG
    if watermark is None or topic is None:
        flags.append(LagFlag.NO_WATERMARK)
        return _NO_LAG
    committed = commit.committed_offset
    raw = watermark.high_watermark - committed
    if _is_of_former_topic(commit, watermark, topic):
        flags.append(LagFlag.TOPIC_RECREATED)
        return _Lag(raw)
    if raw < 0 and is_new:  # the end of an earlier round may have been passed by now
        flags.append(LagFlag.TRUNCATED if committed <= topic.longest else LagFlag.AHEAD_OF_LOG)
        return _Lag(raw)
    lost = watermark.log_start_offset - committed
    if lost > 0:
        flags.append(LagFlag.MESSAGES_LOST)
    reachable = max(committed, watermark.log_start_offset)
    lag, read_committed = max(watermark.high_watermark - reachable, 0), watermark.last_stable_offset - reachable
    is_open = watermark.last_stable_offset < watermark.high_watermark
    if 0 < read_committed <= (watermark.markers_at_end or 0):
        flags += [] if is_open else [LagFlag.TRANSACTION_MARKERS_ONLY]
        lag, read_committed = lag if is_open else 0, 0
    is_waiting = is_open and read_committed == 0  # below 0, it reads what is not committed
    return _Lag(raw, lag, max(read_committed, 0), max(lost, 0), is_waiting)


def _is_of_former_topic(commit: Commit, watermark: Watermark, topic: TopicWindow) -> bool:
    if commit.topic_id is not None and watermark.topic_id is not None:
        return commit.topic_id != watermark.topic_id
    former = topic.former
    if former is None or commit.committed_offset is None:
        return False
    if commit.commit_timestamp_ms + CLOCK_MARGIN_MS <= former.last_sampled_at_ms:
        return True
    return topic.longest < commit.committed_offset <= former.high_watermark


def _add_flags(flags: list[str], watermark: Watermark | None, now: Circumstances) -> None:
    if watermark is not None and watermark.last_stable_offset < watermark.high_watermark:
        flags.append(LagFlag.OPEN_TRANSACTION)
    is_late = watermark is not None and watermark.sampled_at_ms < now.sampled_at_ms
    if is_late:
        flags.append(LagFlag.STALE_SAMPLE)
    if now.has_hidden_commits:
        flags.append(LagFlag.HIDDEN_COMMITS)
    if now.owner.owned is False:
        flags.append(LagFlag.UNSUBSCRIBED if now.owner.is_subscribed is False else LagFlag.UNOWNED)


def _is_marker(
    lag: int | None,
    watermark: Watermark | None,
    topic: TopicWindow | None,
    window: PartitionWindow | None,
    now: Circumstances,
) -> bool:
    """Returns whether all that is left to read is taken for the marker of a transaction, as `status` says.

    Lag that was there at this offset in an earlier round, and is one now, was one then: the end has not moved.
    """
    if lag != 1 or watermark is None or topic is None or window is None or window.no_progress_since_ms is None:
        return False
    if watermark.markers_at_end is not None:
        return False  # it is known better
    is_at_rest = window.no_progress_since_ms < now.sampled_at_ms
    return is_at_rest and topic.has_transactions and watermark.last_stable_offset == watermark.high_watermark


def _lag_seconds(
    commit: Commit | None,
    watermark: Watermark | None,
    topic: TopicWindow | None,
    window: PartitionWindow | None,
    lag: int | None,
    now: Circumstances,
) -> tuple[float | None, float | None, str | None]:
    """Returns the seconds, the lower bound that they are where more is not known, and the method.

    A record that the oldest sample had already, or that was left to read when the group was first seen at its offset,
    is at least as old.
    """
    if lag == 0:
        return 0.0, None, LagSecondsMethod.ZERO
    if lag is None or commit is None or commit.committed_offset is None or watermark is None or topic is None:
        return None, None, None
    at_ms, latest_ms = topic.appended_at_ms(max(commit.committed_offset, watermark.log_start_offset))
    if at_ms is not None:
        return _seconds(now.sampled_at_ms - at_ms), None, LagSecondsMethod.INTERPOLATED
    since_ms = window.no_progress_since_ms if window is not None else None
    known = [each for each in (latest_ms, since_ms) if each is not None and each < now.sampled_at_ms]
    bound = _seconds(now.sampled_at_ms - min(known)) if known else None
    return bound, bound, LagSecondsMethod.OUTSIDE_WINDOW


def _seconds(elapsed_ms: int) -> float:
    """Returns seconds, not below 0: a record's own time may be later than the sampler's clock."""
    return max(elapsed_ms, 0) / 1_000


def _status(
    window: PartitionWindow | None,
    found: _Lag,
    slope: float | None,
    flags: list[str],
    now: Circumstances,
    rules: LagRules,
) -> str:
    if found.lag is None:
        return _status_without_lag(flags)
    if window is None or window.latest is None or found.lag == 0 or LagFlag.TRANSACTION_MARKERS_ONLY in flags:
        return LagStatus.OK
    if LagFlag.UNSUBSCRIBED in flags:
        return LagStatus.UNSUBSCRIBED
    if found.is_waiting:
        return LagStatus.WAITING_FOR_TRANSACTION
    if now.group_state in status.REBALANCING_STATES and not _hangs(window, now.sampled_at_ms, rules):
        return LagStatus.REBALANCING
    return _status_by_progress(window, window.latest, slope, now.sampled_at_ms, rules)


def _status_without_lag(flags: list[str]) -> str:
    if LagFlag.NO_COMMIT in flags:
        return LagStatus.NO_COMMIT
    return LagStatus.AHEAD_OF_LOG if _is_ahead(flags) else LagStatus.UNKNOWN


def _is_ahead(flags: list[str]) -> bool:
    return LagFlag.AHEAD_OF_LOG in flags or LagFlag.TRUNCATED in flags


def _hangs(window: PartitionWindow, now_ms: int, rules: LagRules) -> bool:
    """Returns whether a rebalance has kept a partition from progress for longer than one may take."""
    since_ms = window.no_progress_since_ms
    limit_ms = status.STANDSTILLS_OF_REBALANCE * rules.status.standstill_ms
    return since_ms is not None and now_ms - since_ms >= limit_ms


def _status_by_progress(
    window: PartitionWindow, commit: Commit, slope: float | None, now_ms: int, rules: LagRules
) -> str:
    since_ms = window.no_progress_since_ms
    if since_ms is not None and now_ms - since_ms >= rules.status.standstill_ms:  # the limit is at least that
        limit_ms = status.standstill_ms(window.commit_interval_ms, rules.status)
        if now_ms - since_ms >= limit_ms:
            return LagStatus.STALLED if commit.commit_timestamp_ms > since_ms else LagStatus.STOPPED
    points = window.points
    if points.is_rewound():
        return LagStatus.REWOUND
    return LagStatus.GROWING if points.is_growing(slope, rules.status) else LagStatus.OK


def _burrow_status(
    topic: TopicWindow | None,
    window: PartitionWindow | None,
    lag: int | None,
    flags: list[str],
    now: Circumstances,
    rules: LagRules,
) -> str | None:
    """Returns Burrow's status; None where Burrow has nothing to judge.

    Burrow takes a commit beyond the end of the log for one without lag. Its consumer will go back, and is reported so.
    """
    if _is_ahead(flags):
        return BurrowStatus.REWIND
    if topic is None or window is None or window.latest is None or lag is None:
        return None
    return burrow.partition_status(window.ring, topic.recent_ends, lag, now.sampled_at_ms, rules.burrow)

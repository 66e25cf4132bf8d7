"""Decides when a round begins, whether the reader is blocked by a transaction, and whether the monitor is healthy. No
I/O.

A round begins shortly before a batch of the ingest. Spark's trigger starts batches at whole multiples of the interval
since the epoch (`ProcessingTimeExecutor.nextBatchTime`), and a batch reads to the end of the topic; so a round that has
just read the ends waits no longer than one batch for the commits below them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

INTERVAL = re.compile(r"(\d{1,6})(s|m)", re.ASCII)
LEAD_S_MIN = 0.25
ROUNDS_MISSED_MAX = 3
INGEST_ENDED = "The ingest has ended."
REST = 3.0  # times as long as the work before it
ROUNDS_IN_TIME = 2  # an ingest that has passed the last round but one is in time
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5  # between two looks at how far the ingest has come
PAUSE_GROWTH = 1.4


def interval_seconds(text: str) -> int | None:
    """Returns how many seconds a text such as `15s` or `2m` says; None for 0 and for a text of any other form."""
    match = INTERVAL.fullmatch(text)
    return None if match is None else int(match[1]) * {"s": 1, "m": 60}[match[2]] or None


def await_none_missing(
    missing: Callable[[], dict[int, int]], wait: Callable[[float], bool], now_s: Callable[[], float], limit_s: float
) -> dict[int, int]:
    """Waits until `missing` returns an empty mapping, `limit_s` seconds at most, and returns its last result. `wait`
    waits for the given seconds, and returns whether to stop.

    Each check reads files of the checkpoint. So the pauses between checks grow up to a limit, and a round is only a
    little later than necessary.
    """
    deadline_s = now_s() + limit_s
    pause_s = FIRST_PAUSE_S
    while (found := missing()) and now_s() <= deadline_s and not wait(pause_s):
        pause_s = min(pause_s * PAUSE_GROWTH, LONGEST_PAUSE_S)
    return found


def next_round_at(now_s: float, interval_s: int, ends_took_s: float) -> float:
    """Returns the next instant, in seconds since the epoch, at which to start a round. It is so long before a batch of
    the ingest that the ends are read by then, if that takes as long as the last time, `ends_took_s`."""
    lead_s = min(max(LEAD_S_MIN, 2 * ends_took_s), interval_s / 2)
    return ((now_s + lead_s) // interval_s + 1) * interval_s - lead_s


def wait_s(now_s: float, interval_s: int, ends_took_s: float) -> float:
    """Returns how many seconds to wait for the next round: an interval at most, even if the clock was set."""
    return min(max(next_round_at(now_s, interval_s, ends_took_s) - now_s, 0), interval_s)


class WorkPace:
    """Decides when work is due: `interval_s` after the previous run began, but not before a rest that is `rest` times
    as long as that run."""

    def __init__(self, interval_s: float, rest: float = REST) -> None:
        self._interval_s = interval_s
        self._rest = rest
        self._due_s = 0.0

    def is_due(self, now_s: float) -> bool:
        return now_s >= self._due_s

    def done(self, began_s: float, ended_s: float) -> None:
        """Records when a run began and ended, on the same clock as `is_due`; a slow run makes the next one due
        later."""
        self._due_s = max(began_s + self._interval_s, ended_s + (ended_s - began_s) * self._rest)

    def until_due_s(self, now_s: float) -> float:
        return max(self._due_s - now_s, 0)


def lag_age_max_ms(setting_s: int, interval_s: int) -> int:
    """Returns the greatest age, in milliseconds, of a round whose lag is shown: the setting, but at least three
    intervals, since each round takes time."""
    return max(setting_s, ROUNDS_MISSED_MAX * interval_s) * 1000


def behind_ms(known_ms: Mapping[str, int], now_ms: int) -> dict[str, int]:
    """Returns the age of each source's data in milliseconds; never below 0, since clocks differ."""
    return {source: max(now_ms - ms, 0) for source, ms in known_ms.items()}


def offsets_left(missing: int) -> str:
    return f"the topic is read, {missing:,} offsets are left"


class FirstRead:
    """Decides what to log about the read of the topic that comes before the first round: how many offsets are left,
    once at the beginning and then whenever there are fewer. A batch counts when its records are written."""

    def __init__(self) -> None:
        self._said: int | None = None

    def look(self, missing: int) -> str | None:
        """Returns the sentence to log when `missing` offsets are left; None if there is nothing new."""
        if self._said is not None and missing >= self._said:
            return None
        is_new = self._said is not None or missing > 0
        self._said = missing
        if not is_new:
            return None
        return f"before the first round {offsets_left(missing)}" if missing else "the topic is read: rounds begin"


class Shedding:
    """Decides when work other than the rounds may be done: at any time while the ingest is on time, and once in
    `every_s` seconds while it is late. So the work is also done on a machine that is always too slow."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._since_s: float | None = None  # when the ingest became late, or the work was last done

    def may_work(self, now_s: float, *, is_behind: bool) -> bool:
        if not is_behind:
            self._since_s = None
            return True
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s < self._every_s:
            return False
        self._since_s = now_s
        return True


@dataclass(frozen=True, slots=True)
class Stall:
    """The ends of a partition. `since_ms` is the time since which its last stable offset has stayed the same, below the
    high watermark."""

    last_stable_offset: int
    high_watermark: int
    since_ms: int


class Stalls:
    """Finds partitions of `__consumer_offsets` whose last stable offset stays while the high watermark is above it. An
    open transaction then blocks every read_committed reader, which does not see later commits of the partition's
    groups."""

    def __init__(self) -> None:
        self._seen: dict[int, Stall] = {}

    def look(self, ends: Iterable[tuple[int, int, int]], at_ms: int) -> None:
        """Records the ends that were read at `at_ms`: partition, high watermark and last stable offset."""
        for partition, high_watermark, last_stable_offset in ends:
            before = self._seen.get(partition)
            has_stayed = before is not None and before.last_stable_offset == last_stable_offset < high_watermark
            since_ms = before.since_ms if before is not None and has_stayed else at_ms
            self._seen[partition] = Stall(last_stable_offset, high_watermark, since_ms)

    def hidden(self) -> Mapping[int, int]:
        """Returns, by partition, the number of offsets that no read_committed reader can see. Partitions where it is 0
        are left out."""
        return {
            partition: seen.high_watermark - seen.last_stable_offset
            for partition, seen in self._seen.items()
            if seen.high_watermark > seen.last_stable_offset
        }

    def stalled_ms(self, at_ms: int) -> dict[int, int]:
        """Returns, by partition, for how many milliseconds readers have been blocked. Partitions that block nobody are
        left out."""
        return {partition: at_ms - self._seen[partition].since_ms for partition in self.hidden()}


class Elections:
    """Counts how often each partition of `__consumer_offsets` got a new leader; the partition's groups then have a new
    coordinator. `moves` has every partition that was seen."""

    def __init__(self) -> None:
        self.moves: dict[int, int] = {}
        self._epochs: dict[int, int] = {}

    def look(self, epochs: Iterable[tuple[int, int | None]]) -> None:
        """Records partition and leader epoch, which is None if the leader did not answer."""
        for partition, epoch in epochs:
            if epoch is not None:
                elections = max(epoch - self._epochs.get(partition, epoch), 0)
                self.moves[partition] = self.moves.get(partition, 0) + elections
                self._epochs[partition] = max(epoch, self._epochs.get(partition, epoch))


@dataclass(frozen=True, slots=True)
class Vitals:
    """Holds the values that decide whether the monitor is healthy. `round_age_ms` is how long ago the last round was
    published, None before the first; `lag_offsets` is how many offsets the ingest had not read of those below that
    round's ends. `commits_known_ms` is the time of the newest round whose commits are all read. `ahead_ms` is how far
    the last round's time is ahead of the host's clock; above 0, the clock was set back. `is_loaded` is whether the
    commits of the tables are in memory, which comes before the first round."""

    is_ingesting: bool
    round_age_ms: int | None
    lag_offsets: int
    stalled_ms: Mapping[int, int]
    commits_known_ms: int | None = None
    ahead_ms: int = 0
    is_loaded: bool = True


def clock_is_behind(ahead_ms: int, interval_s: int) -> str | None:
    """Returns a sentence if the last round's time is more than a few intervals ahead of this host's clock; otherwise
    None. `ahead_ms` is how far it is ahead. A table takes rounds in the order of time, so until the clock has caught
    up, each round has a time just after the one before it."""
    if ahead_ms <= ROUNDS_MISSED_MAX * interval_s * 1000:
        return None
    return (
        f"This host's clock is {ahead_ms // 1000:,} s earlier than the last round: it was ahead then, or is"
        " behind now. Until it has caught up, lag in seconds and the times of rounds are wrong by as much. Set the"
        " clock if it is wrong."
    )


def before_first_round(vitals: Vitals) -> str:
    """Returns what a monitor does that has just started."""
    left = vitals.lag_offsets
    if vitals.is_loaded:
        return f"the first one waits until the ingest has read {left:,} offsets" if left else "the first one is taken"
    return f"first {offsets_left(left)}" if left else "the commits in the tables are read"


def troubles(vitals: Vitals, now_ms: int, interval_s: int, stalled_after_s: int, lag_age_max_ms: int) -> list[str]:
    """Returns a sentence for each reason why the monitor is not healthy."""
    found = []
    if not vitals.is_ingesting:
        found.append(INGEST_ENDED)
    is_first = vitals.round_age_ms is None
    if vitals.round_age_ms is None:
        found.append(f"No round is done yet: {before_first_round(vitals)}.")
    elif vitals.round_age_ms > ROUNDS_MISSED_MAX * interval_s * 1000:
        found.append(f"The last round was {vitals.round_age_ms // 1000:,} s ago.")
    behind = clock_is_behind(vitals.ahead_ms, interval_s)
    if behind is not None:
        found.append(behind)
    known_ms = vitals.commits_known_ms
    if vitals.lag_offsets and not is_first:
        since = "" if known_ms is None else f": it has the commits until {(now_ms - known_ms) // 1000:,} s ago"
        found.append(f"The ingest has {vitals.lag_offsets:,} offsets of the topic still to read{since}.")
    if known_ms is not None and now_ms - known_ms > lag_age_max_ms:
        found.append(
            f"Commits are {(now_ms - known_ms) // 1000:,} s behind, more than {lag_age_max_ms // 1000:,} s: the lag of"
            " groups whose commits wait to be read is unknown."
        )
    stalled = {partition: ms for partition, ms in vitals.stalled_ms.items() if ms >= stalled_after_s * 1000}
    if stalled:
        found.append(
            f"Open transactions hold up the reader in partitions {', '.join(map(str, sorted(stalled)))} of"
            f" __consumer_offsets, for {max(stalled.values()) // 1000:,} s."
        )
    return found

"""`groupledger forecast`: when a group has caught up, when retention overtakes its commits, and when these expire.

Rates come from the sampling rounds of the last hour. If the start of a log did not move often enough in that hour, its
rate comes from the last half day. That time is divided into parts, and the newest round of each part counts
(`transforms.lag.rules.forecast`). A group has caught up when its slowest partition has. A value that can't be forecast
is null, with the reason beside it.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.idle import idle
from groupledger.jobs.ask.lag_answers import round_at
from groupledger.jobs.process.instants import in_zone, lasted_seconds
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.words import ExpiryCause, LagFlag, LagTrend
from groupledger.transforms.lag.rules.forecast import (
    PACE_OF_STARTS_S,
    PACE_S,
    STANDING,
    STANDSTILL,
    Drift,
    Expected,
    drift,
    left_anyway,
    overtaken,
    pace_of_start,
    reaches_zero,
    since_highest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

    Points = list[tuple[float, float]]

PACE, PACE_OF_STARTS = timedelta(seconds=PACE_S), timedelta(seconds=PACE_OF_STARTS_S)
PARTS, PARTS_OF_STARTS = 60, 144
# Of the table on a terminal, where an interval is one cell.
COLUMNS = (
    *("group_id", "topic", "partition", "lag", "trend", "produced_per_second", "consumed_per_second"),
    *("catch_up", "loss"),
)
RATES = ("produced_per_second", "consumed_per_second")
OPTIONAL = (*RATES, "trend")
FEW_ROUNDS = "there are too few sampling rounds in the last hour"
LAG_UNKNOWN = "the lag is not known"
NOT_SHRINKING = "the lag does not shrink, or not for long enough"
STANDS = "the group makes no progress"
START_RESTS = "the start of its log has not moved often enough in the last half day"
START_UNKNOWN = "the start of its log is not known"
NOT_NEARER = "retention does not come nearer to the commit at the present pace"
ALREADY_LOST = "retention has already passed the commit"
RECREATED = "the topic was created again"
# For each partition the newest round of each part of the time, oldest first.
SEEN = """
SELECT
    group_id, topic, partition,
    list({at_s: epoch(sampled_at), committed: committed_offset, ended: high_watermark, started: log_start_offset,
          lag: lag} ORDER BY sampled_at) AS points,
    max_by(commit_interval_ms, sampled_at) AS commit_interval_ms,
    max_by(flags, sampled_at) AS flags,
    max_by(status, sampled_at) AS status
FROM (
    SELECT * FROM lag
    QUALIFY row_number() OVER (
        PARTITION BY group_id, topic, partition, floor((epoch(sampled_at) - $end_s) / $part_s) ORDER BY sampled_at DESC
    ) = 1
)
GROUP BY group_id, topic, partition
"""
LAG_COLUMNS = (
    *("group_id", "topic", "partition", "sampled_at", "committed_offset", "high_watermark", "log_start_offset", "lag"),
    *("commit_interval_ms", "flags", "status"),
)


def forecasts(tables: ClusterRows, name: str | None, at: datetime | None = None) -> tuple[datetime, list[Answer]]:
    """Returns the instant of the round from which the forecast is made, and a row for each partition in it, of one
    group or of all. The worst comes first: the earliest loss, then the largest lag that does not shrink, then the
    longest time to catch up. Raises InputError if there is no round at or before `at`."""
    as_of = round_at(tables, name, at)
    recent = _seen(tables, name, as_of, PACE, PARTS)
    starts = _seen(tables, name, as_of, PACE_OF_STARTS, PARTS_OF_STARTS)
    found = [
        _row(place, row, starts.get(place))
        for place, row in recent.items()
        if row["points"][-1]["at_s"] >= as_of.timestamp()
    ]
    return as_of, sorted(found, key=_badness)


def _seen(
    tables: ClusterRows, name: str | None, as_of: datetime, lasts: timedelta, parts: int
) -> dict[tuple[str, str, int], Answer]:
    since = as_of - lasts
    filters: list[Filter] = [
        ("sample_date", ">=", since.date()),
        ("sampled_at", ">", since),
        ("sampled_at", "<=", as_of),
    ]
    if name is not None:
        filters.append(("group_id", "=", name))
    part_s = lasts.total_seconds() / parts
    rows = tables.query(
        SEEN,
        {"end_s": as_of.timestamp(), "part_s": part_s},
        lag=tables.scan("lag", *filters, columns=LAG_COLUMNS),
    )
    return {(row["group_id"], row["topic"], row["partition"]): row for row in rows}


def _row(place: tuple[str, str, int], row: Answer, long: Answer | None) -> Answer:
    now, flags = row["points"][-1], row["flags"] or ()
    lag, commits, ends = (points_of(row, name) for name in ("lag", "committed", "ended"))
    whole, by_lag, produced = drift(lag), drift(since_highest(lag)), drift(ends)
    consumed = STANDSTILL if row["status"] in STANDING else drift(commits)
    caught_up, why_not = catching_up(now["lag"], by_lag, produced, row)
    start = pace_of_start(points_of(row, "started"), [] if long is None else points_of(long, "started"))
    lost, why_unknown = loss(now, consumed, start, flags)
    return {
        **dict(zip(("group_id", "topic", "partition"), place, strict=True)),
        "lag": now["lag"],
        "trend": None if whole is None else whole.trend,
        "produced_per_second": None if produced is None else produced.rate,
        "consumed_per_second": None if consumed is None else consumed.rate,
        **_interval_columns("catch_up", caught_up),
        "catch_up_unknown": why_not,
        **_interval_columns("loss", lost),
        "loss_unknown": why_unknown,
    }


def points_of(row: Answer, name: str) -> Points:
    """Returns the values of one field, `name`, with their times in seconds. They begin after the last round in which
    the value was unknown."""
    found: Points = []
    for each in row["points"]:
        if each[name] is None:
            found = []
        else:
            found.append((each["at_s"], each[name]))
    return found


def catching_up(
    lag: int | None, by: Drift | None, produced: Drift | None, seen: Answer
) -> tuple[Expected | None, str | None]:
    """Returns when a partition has caught up, or else the reason why that is not known. `by` is how its lag changes,
    and `produced` how the end of its log does; either is None if there are too few rounds."""
    if lag is None:
        return None, LAG_UNKNOWN
    if lag == 0:
        return Expected(0.0, 0.0, 0.0), None
    if produced is None:
        return None, FEW_ROUNDS
    left = lag - left_anyway(produced.rate, (seen["commit_interval_ms"] or 0) / 1_000)
    if left <= 0:
        return Expected(0.0, 0.0, 0.0), None
    found = None if by is None or seen["status"] in STANDING else reaches_zero(left, by)
    return found, None if found else STANDS if seen["status"] in STANDING else NOT_SHRINKING


def loss(
    now: Answer, consumed: Drift | None, start: tuple[Drift, float] | None, flags: Sequence[str]
) -> tuple[Expected | None, str | None]:
    """Returns when retention overtakes the commit of a partition, or else the reason why that is not known. `consumed`
    is how the committed offset changes, and `start` how the start of the log does, with its largest step."""
    if LagFlag.TOPIC_RECREATED in flags or LagFlag.TRUNCATED in flags:
        return None, RECREATED
    if now["committed"] is None or now["started"] is None:
        return None, START_UNKNOWN if now["started"] is None else LAG_UNKNOWN
    if now["committed"] < now["started"]:
        return None, ALREADY_LOST
    if consumed is None:
        return None, FEW_ROUNDS
    if start is None:
        return None, START_RESTS
    found = overtaken(now["committed"] - now["started"], consumed, start)
    return found, None if found else NOT_NEARER


def _interval_columns(name: str, expected: Expected | None) -> Answer:
    words = ("seconds", "earliest", "latest")
    values: dict[str, Any] = dict.fromkeys(words) if expected is None else asdict(expected)
    columns = (f"{name}_seconds", f"{name}_earliest_seconds", f"{name}_latest_seconds")
    return {column: values[word] for column, word in zip(columns, words, strict=True)}


def _badness(row: Answer) -> tuple[Any, ...]:
    lost, takes, lag = row["loss_seconds"], row["catch_up_seconds"], row["lag"] or 0
    grows = takes is None and row["trend"] == LagTrend.GROWING
    return (
        *(lost is None, lost or 0.0, not grows, takes is not None or not lag),
        *(-(takes or 0.0), -lag, row["group_id"], row["topic"], row["partition"]),
    )


def expiry(tables: ClusterRows, name: str, retention: timedelta) -> Answer | None:
    """Returns the earliest expiry of a group's offsets, as a row of `idle`. Returns None if no offset expires as long
    as the group's members stay as they are, or if the topic was not read yet."""
    if not all(tables.exists(table) for table in ("coordinator_records", "groups", "generations", "members")):
        return None
    _, found = idle(tables, retention, 0.0, name)
    return next((row for row in found if row["cause"] != ExpiryCause.KEPT_BY_MEMBERS), None)


def sentences(rows: Sequence[Answer], expires: Answer | None = None) -> list[str]:
    """Returns up to three sentences about a group: when it has caught up, when retention overtakes a commit, and when
    its offsets expire."""
    return [*_caught_up(rows), *_lost(rows), *_expires(expires)]


def _caught_up(rows: Sequence[Answer]) -> Iterator[str]:
    behind = [row for row in rows if row["catch_up_seconds"] != 0]
    if not rows:
        return
    if not behind:
        yield "It has caught up."
        return
    unknown = [row for row in behind if row["catch_up_seconds"] is None]
    if unknown:
        worst = max(unknown, key=lambda row: (row["trend"] == LagTrend.GROWING, row["lag"] or 0))
        trend = ", and the lag grows" if worst["trend"] == LagTrend.GROWING else ""
        yield f"When it will have caught up is not known: in {place(worst)}, {worst['catch_up_unknown']}{trend}."
        return
    slowest = max(behind, key=lambda row: row["catch_up_seconds"])
    yield f"It will have caught up in about {span(slowest, 'catch_up')}; {place(slowest)} takes longest."


def _lost(rows: Iterable[Answer]) -> Iterator[str]:
    nearing = [row for row in rows if row["loss_seconds"] is not None]
    if nearing:
        first = min(nearing, key=lambda row: row["loss_seconds"])
        yield f"Retention overtakes the commit of {place(first)} in about {span(first, 'loss')}, as it goes now."


def _expires(row: Answer | None) -> Iterator[str]:
    if row is not None:
        topic = "" if row["topic"] is None else f" of {printable(row['topic'])}"
        yield f"Offsets{topic} expire by {in_zone(row['offsets_expire_at'])}, unless they are committed again."


def place(row: Answer) -> str:
    return f"{printable(row['topic'])} {row['partition']}"


def span(row: Answer, name: str) -> str:
    """Returns as text how long it takes until an event (`catch_up` or `loss`), with the earliest and the latest
    time."""
    low, high = row[f"{name}_earliest_seconds"], row[f"{name}_latest_seconds"]
    until = "or it may never" if high is None else f"at the latest in {lasted_seconds(high)}"
    return f"{lasted_seconds(row[f'{name}_seconds'])} (at the earliest in {lasted_seconds(low)}, {until})"


def cells(row: Answer) -> Answer:
    """Returns a row of the forecast as texts, for a table: times as durations, and each interval as one text."""
    rates = {name: value if value is None else f"{value:,.1f}" for name, value in row.items() if name in RATES}
    return row | rates | {name: _span_cell(row, name) for name in ("catch_up", "loss")}


def _span_cell(row: Answer, name: str) -> str | None:
    expected, low, high = (row[f"{name}{which}_seconds"] for which in ("", "_earliest", "_latest"))
    if not expected:
        return expected if expected is None else lasted_seconds(expected)
    return f"{lasted_seconds(expected)} ({lasted_seconds(low)} to {'never' if high is None else lasted_seconds(high)})"

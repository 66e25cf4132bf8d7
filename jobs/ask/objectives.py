"""`groupledger objectives`: how well groups meet their objectives of lag, counted from the sampling rounds in `lag`.

A query judges each minute by the rule of `transforms.objectives.rules.minutes`; a test compares the two. A window ends
before the minute of the last round, or of a given instant, since that minute is not over. Minutes that were not
sampled, or whose rounds retention has removed (`maintain.retention_days`), are unknown; for all others the answer is
exact.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.ask.cluster_rows import as_scan
from groupledger.jobs.ask.lag_answers import no_round
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.held_groups import objectives_by_group
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.words import Burning, LagFlag, MinuteState, words_of
from groupledger.transforms.objectives.rules.burn import BURN_WINDOWS, MinuteCounts, standing
from groupledger.transforms.objectives.rules.minutes import MAY_BE_OLDER, MAY_BE_YOUNGER, MINUTE_MS, STATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.process.settings import Settings
    from groupledger.transforms.objectives.rules.minutes import Objective

    Held = Mapping[str, Sequence[Objective]]

COLUMNS = (
    *("objective", "group_id", "lag_s", "target_percent", "attained_percent", "minutes_late", "minutes_unknown"),
    *("budget_left_minutes", "budget_left_percent", "burn_rate_5m", "burn_rate_1h", "burn_rate_6h", "burning"),
)
# Columns that a narrow terminal can leave out, in this order.
OPTIONAL = (
    *("burn_rate_6h", "burn_rate_1h", "burn_rate_5m", "budget_left_minutes", "minutes_late", "minutes_unknown"),
    *("lag_s", "target_percent"),
)
WHOLE = "whole"
# By name, the minutes of each window as a query says them.
WINDOWS = {WHOLE: "window_minutes", **{name: str(minutes) for name, minutes in BURN_WINDOWS.items()}}
READ_COLUMNS = ("group_id", "sampled_at", "lag_seconds", "lag_seconds_lower_bound", "flags")
HELD = pa.schema(
    [
        *(("objective", pa.string()), ("group_id", pa.string()), ("lag_s", pa.float64())),
        *(("window_minutes", pa.int64()), ("since", pa.int64())),
    ]
)
# The state of each minute, as its place in STATES: of the worst partition of its worst round.
MINUTES = """
WITH minutes AS (
    SELECT
        held.objective, lag.group_id, held.window_minutes, epoch_ms(sampled_at) // $minute_ms AS minute,
        max(CASE
            WHEN lag_seconds >= held.lag_s AND NOT list_has_any(coalesce(flags, []), $may_be_younger) THEN $late
            WHEN lag_seconds < held.lag_s AND lag_seconds_lower_bound IS NULL
                AND NOT list_has_any(coalesce(flags, []), $may_be_older) THEN $on_time
            ELSE $unknown
        END) AS state
    FROM lag JOIN held ON lag.group_id = held.group_id AND epoch_ms(sampled_at) >= held.since * $minute_ms
    WHERE NOT list_contains(coalesce(flags, []), $unsubscribed)
    GROUP BY ALL
)
"""
_COUNTED = ", ".join(
    f"count(*) FILTER (state = ${state} AND minute >= $end - {minutes}) AS {state}_{window}"
    for window, minutes in WINDOWS.items()
    for state in (MinuteState.ON_TIME, MinuteState.LATE)
)
COUNTS = f"{MINUTES} SELECT objective, group_id, {_COUNTED} FROM minutes WHERE minute < $end GROUP BY ALL"  # noqa: S608
# Minutes in a row that were the same.
RUNS = f"""{MINUTES}, numbered AS (
    SELECT *, minute - row_number() OVER (PARTITION BY objective, group_id, state ORDER BY minute) AS run
    FROM minutes WHERE minute < $end
)
SELECT objective, group_id, state, min(minute) AS first, count(*) AS minutes
FROM numbered GROUP BY objective, group_id, state, run
"""  # noqa: S608 - texts of ours
PARAMETERS = {
    "minute_ms": MINUTE_MS,
    "unsubscribed": LagFlag.UNSUBSCRIBED,
    "may_be_older": list(MAY_BE_OLDER),
    "may_be_younger": list(MAY_BE_YOUNGER),
    **{state: STATES.index(state) for state in STATES},
}


def objectives(
    tables: ClusterRows, settings: Settings, names: Sequence[str] | None = None, until: datetime | None = None
) -> tuple[datetime, list[Answer]]:
    """Returns the instant up to which minutes are counted, and a row for each objective of each group, or of each group
    in `names`. Rows are sorted by `burning`, from `fast` down to `unknown` and `no`, and then by the percentage of the
    budget that is left, least first. Raises InputError if the settings have no objectives, or if there is no sampling
    round by `until`."""
    if not settings.objectives:
        raise InputError(
            "The settings have no objectives: write the section objectives, and give the file with --conf."
        )
    last = last_round(tables, "lag", until)
    if last is None:
        raise InputError(no_round(tables, until))
    end = ms_of(last if until is None else until) // MINUTE_MS
    held = objectives_by_group(settings, group_names(tables, last) if names is None else names)
    counts = counted(tables, held, end)
    found = [
        _answer(name, each, end, counts.get((each.name, name), {}))
        for name, of_group in held.items()
        for each in of_group
    ]
    return instant_of_ms(end * MINUTE_MS), sorted(found, key=_rank)


def group_names(tables: ClusterRows, sampled_at: datetime) -> set[str]:
    """Returns the names of the groups in the history that have not ended, and of those in the round at `sampled_at`."""
    known = tables.rows_if_any("groups", columns=("group_id", "is_alive"))
    sampled = tables.rows("lag", *of_round(sampled_at), columns=("group_id",))
    return {row["group_id"] for row in (*known, *sampled) if row.get("is_alive") is not False}


def counted(tables: ClusterRows, held: Held, end: int) -> dict[tuple[str, str], dict[str, MinuteCounts]]:
    """Returns, by objective and group, how many minutes of each window were on time and late. `held` has the objectives
    of each group, and windows end before the minute `end`, counted from 1970. A group without a round in any minute is
    left out."""
    return {
        (row["objective"], row["group_id"]): {
            window: MinuteCounts(*(row[f"{state}_{window}"] for state in (MinuteState.ON_TIME, MinuteState.LATE)))
            for window in WINDOWS
        }
        for row in _of_windows(tables, COUNTS, held, end)
    }


def known_runs(tables: ClusterRows, held: Held, end: int) -> dict[tuple[str, str], list[tuple[int, int, str]]]:
    """Returns, by objective and group, the states of the minutes before the minute `end`, counted from 1970, as runs of
    one state: first minute, number of minutes, and their state. A minute without a round is in no run."""
    found: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for row in _of_windows(tables, RUNS, held, end):
        run = (row["first"], row["minutes"], STATES[row["state"]])
        found.setdefault((row["objective"], row["group_id"]), []).append(run)
    return found


def _of_windows(tables: ClusterRows, query: str, held: Held, end: int) -> list[Answer]:
    rows: list[Answer] = [
        {"objective": each.name, "group_id": name, "lag_s": each.lag_s}
        | {"window_minutes": each.minutes, "since": end - max(each.minutes, *BURN_WINDOWS.values())}
        for name, of_group in held.items()
        for each in of_group
    ]
    if not rows:
        return []
    since = instant_of_ms(min(row["since"] for row in rows) * MINUTE_MS)
    until = instant_of_ms(end * MINUTE_MS)
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sample_date", "<=", until.date())]
    filters += [("sampled_at", ">=", since), ("sampled_at", "<", until), ("group_id", "in", [*held])]
    lag = tables.scan("lag", *filters, columns=READ_COLUMNS)
    return tables.query(query, PARAMETERS | {"end": end}, lag=lag, held=as_scan(rows, HELD))


def _answer(name: str, objective: Objective, end: int, counts: Mapping[str, MinuteCounts]) -> Answer:
    of_windows = {window: counts.get(window, MinuteCounts()) for window in WINDOWS}
    columns = asdict(standing(objective, of_windows[WHOLE], of_windows))
    rates = columns.pop("burn_rates")
    burning = columns.pop("burning")
    return {
        "objective": objective.name,
        "group_id": name,
        "lag_s": objective.lag_s,
        "target_percent": objective.target_percent,
        "window_days": objective.window_days,
        "since": instant_of_ms((end - objective.minutes) * MINUTE_MS),
        "until": instant_of_ms(end * MINUTE_MS),
        **{column: round(value, 3) if isinstance(value, float) else value for column, value in columns.items()},
        **{f"burn_rate_{window}": None if rate is None else round(rate, 3) for window, rate in rates.items()},
        "burning": burning,
    }


def _rank(row: Answer) -> tuple[int, bool, float, str, str]:
    left = row["budget_left_percent"]
    return -words_of(Burning).index(row["burning"]), left is None, left or 0.0, row["objective"], row["group_id"]

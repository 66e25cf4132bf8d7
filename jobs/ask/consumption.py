"""`groupledger objectives --report`: for each team, how much of the time its groups consumed, what stopped them, what
was read twice, and what rebalances cost.

A minute of a group is stopped if a partition with lag stands still in it. A standstill lasts from the first round that
saw the partition at its offset to the last one, since `lag` has the statuses `stopped` and `stalled` only after a
while; minutes in it without a round are stopped, too. A minute is available if it is not stopped, has a round, and no
partition in its rounds has the status `unknown` or `no_commit`. All other minutes are unknown. Availability compares
only minutes that have a round, so that rare rounds make it no worse.

A stopped minute has the proved cause of the diagnosis that covers it (`jobs.ask.why`), or the cause `unknown`. If
several diagnoses cover it, those of a standstill come first, then the most harmful.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groupledger.jobs.ask.answers import within
from groupledger.jobs.ask.rebalances import is_birth
from groupledger.jobs.ask.why import why
from groupledger.jobs.process.name_patterns import first_matching
from groupledger.schemas.instants import ms_of
from groupledger.schemas.kinds.symptoms import NO_PROGRESS, NOBODY_HAS_PARTITIONS
from groupledger.schemas.words import LagFlag, LagStatus
from groupledger.transforms.history.rules.pause import pause_of
from groupledger.transforms.lag.rules.scaling import STUCK
from groupledger.transforms.objectives.rules.minutes import MINUTE_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("team", "groups", "available_percent", "minutes_stopped", "minutes_unknown", "records_read_twice_min"),
    *("records_read_twice_max", "rebalances", "partitions_moved", "pause_seconds_min", "pause_seconds_max"),
)
CAUSE_COLUMNS = ("team", "cause", "minutes_stopped")
UNKNOWN_CAUSE = "unknown"
STOPS = {NO_PROGRESS.name, NOBODY_HAS_PARTITIONS.name}
READ_COLUMNS = ("group_id", "sampled_at", "status", "no_progress_since", "flags")
REBALANCE_COLUMNS = (
    *("group_id", "happened_at", "changes", "pause_scope", "pause_lower_ms", "pause_upper_ms", "partitions_moved"),
    *("partitions_lost", "partition_pauses"),
)
# The minutes of each group that were stopped, and those that are known.
MINUTES = """
WITH counted AS (
    SELECT
        group_id, status, epoch_ms(sampled_at) // $minute_ms AS minute,
        epoch_ms(coalesce(no_progress_since, sampled_at)) // $minute_ms AS stood_from
    FROM lag WHERE NOT list_contains(coalesce(flags, []), $unsubscribed)
),
standstills AS (
    SELECT group_id, greatest(stood_from, $since) AS first, max(minute) AS last
    FROM counted WHERE list_contains($stuck, status) GROUP BY group_id, stood_from
),
stopped AS (SELECT DISTINCT group_id, unnest(generate_series(first, last)) AS minute FROM standstills),
sampled AS (
    SELECT group_id, minute, bool_or(list_contains($unknown, status)) AS is_unknown
    FROM counted GROUP BY group_id, minute
)
SELECT
    group_id,
    coalesce(list(minute ORDER BY minute) FILTER (stopped.minute IS NOT NULL), []) AS stopped,
    count(*) FILTER (stopped.minute IS NOT NULL AND sampled.minute IS NOT NULL) AS stopped_sampled,
    count(*) FILTER (stopped.minute IS NULL AND NOT is_unknown) AS available
FROM stopped FULL JOIN sampled USING (group_id, minute)
GROUP BY group_id
"""
PARAMETERS = {
    "minute_ms": MINUTE_MS,
    "unsubscribed": LagFlag.UNSUBSCRIBED,
    "stuck": sorted(STUCK),
    "unknown": [LagStatus.UNKNOWN, LagStatus.NO_COMMIT],
}


NO_MINUTES: Answer = {"stopped": [], "stopped_sampled": 0, "available": 0}


@dataclass(slots=True)
class Sums:
    """The sums over the groups of a team."""

    groups: int = 0
    minutes: int = 0
    available: int = 0
    stopped_sampled: int = 0  # minutes that have a round
    stopped: Counter[str] = field(default_factory=Counter)
    read_twice_min: int = 0
    read_twice_max: int = 0
    rebalances: int = 0
    partitions_moved: int = 0
    pause_min_ms: int = 0
    pause_max_ms: int = 0
    pauses_unknown: int = 0


def report_by_team(tables: ClusterRows, teams: Mapping[str, str], since: datetime, until: datetime) -> list[Answer]:
    """Returns the report for [since, until): one row for each team that has groups, in the order of the settings, then
    one with a null `team` for the groups without a team. `teams` has by team a pattern of group names. Minutes are
    added up over the groups."""
    names = [row["group_id"] for row in tables.rows("groups", ("first_seen_at", "<", until), columns=("group_id",))]
    team_of = first_matching(teams, names)
    found: dict[str | None, Sums] = {team: Sums() for team in (*teams, None)}
    minutes = _minutes(tables, since, until)
    length = ms_of(until) // MINUTE_MS - ms_of(since) // MINUTE_MS
    repeated = _with_repeated_records(tables, since, until)
    for name in sorted(names):
        of_group, sums = minutes.get(name, NO_MINUTES), found[team_of.get(name)]
        sums.groups += 1
        sums.minutes += length
        sums.available += of_group["available"]
        sums.stopped_sampled += of_group["stopped_sampled"]
        if of_group["stopped"] or name in repeated:
            _add_diagnoses(sums, why(tables, name, since, until)[1]["diagnosis"], of_group["stopped"])
    known = set(names)
    for row in tables.rows_if_any("rebalances", *within("happened_at", since, until), columns=REBALANCE_COLUMNS):
        if row["group_id"] in known and not is_birth(row):
            _add_rebalance(found[team_of.get(row["group_id"])], row)
    return [_answer(team, sums, since, until) for team, sums in found.items() if sums.groups]


def _minutes(tables: ClusterRows, since: datetime, until: datetime) -> dict[str, Answer]:
    """Returns by group which minutes were stopped, how many of these have a round, and how many were available."""
    filters: list[Filter] = [("sample_date", ">=", since.date()), ("sample_date", "<=", until.date())]
    lag = tables.scan_if_any("lag", *filters, *within("sampled_at", since, until), columns=READ_COLUMNS)
    rows = tables.query(MINUTES, PARAMETERS | {"since": ms_of(since) // MINUTE_MS}, lag=lag)
    return {row["group_id"]: row for row in rows}


def _with_repeated_records(tables: ClusterRows, since: datetime, until: datetime) -> set[str]:
    """Returns the groups that read records twice by any source."""
    moved = tables.rows_if_any(
        "offset_events", *within("happened_at", since, until), columns=("group_id", "records_repeated")
    )
    incidents = tables.rows_if_any(
        "incidents",
        *within("last_seen_at", since, None),
        ("first_seen_at", "<", until),
        columns=("group_id", "duplicates_max", "duplicates_min"),
    )
    found = {row["group_id"] for row in moved if row["records_repeated"]}
    return found | {row["group_id"] for row in incidents if row["duplicates_max"] or row["duplicates_min"]}


def _add_diagnoses(sums: Sums, diagnoses: Sequence[Answer], stopped: Iterable[int]) -> None:
    proved = sorted((each for each in diagnoses if each["cause"]), key=lambda each: each["symptom"] not in STOPS)
    for minute in stopped:
        sums.stopped[_cause_of(minute, proved)] += 1
    for each in diagnoses:
        sums.read_twice_min += each["duplicates_min"] or 0
        sums.read_twice_max += max(each["duplicates_max"] or 0, each["duplicates_min"] or 0)


def _cause_of(minute: int, diagnoses: Iterable[Answer]) -> str:
    for each in diagnoses:
        if ms_of(each["since"]) // MINUTE_MS <= minute <= ms_of(each["last_seen_at"]) // MINUTE_MS:
            return str(each["cause"])
    return UNKNOWN_CAUSE


def _add_rebalance(sums: Sums, row: Answer) -> None:
    pause = pause_of(row)
    sums.rebalances += 1
    sums.partitions_moved += row["partitions_moved"] or 0
    sums.pause_min_ms += pause.lower_ms or 0
    sums.pause_max_ms += pause.upper_ms or 0
    sums.pauses_unknown += pause.upper_ms is None


def _answer(team: str | None, sums: Sums, since: datetime, until: datetime) -> Answer:
    stopped, sampled = sums.stopped.total(), sums.available + sums.stopped_sampled
    return {
        "team": team,
        "since": since,
        "until": until,
        "groups": sums.groups,
        "available_percent": round(100 * sums.available / sampled, 3) if sampled else None,
        "minutes_available": sums.available,
        "minutes_stopped": stopped,
        "minutes_unknown": sums.minutes - sums.available - stopped,
        "stopped_by_cause": dict(sums.stopped.most_common()),
        "records_read_twice_min": sums.read_twice_min,
        "records_read_twice_max": sums.read_twice_max,
        "rebalances": sums.rebalances,
        "partitions_moved": sums.partitions_moved,
        "pause_seconds_min": round(sums.pause_min_ms / 1_000),
        "pause_seconds_max": round(sums.pause_max_ms / 1_000),
        "pauses_unknown": sums.pauses_unknown,
    }


def causes(rows: Iterable[Answer]) -> list[Answer]:
    """Returns one row for each cause of each team's stopped minutes."""
    return [
        {"team": row["team"], "cause": cause, "minutes_stopped": minutes}
        for row in rows
        for cause, minutes in row["stopped_by_cause"].items()
    ]

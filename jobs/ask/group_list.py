"""`groupledger groups`: one row for each group, those in trouble first: its state, its lag and its open incidents.

The order is that of `jobs.ask.troubled`. Incidents of severity info, which are normal operation, are not counted.

Facts from the log come from `groups`, the state of members from the newest round of `group_states` and lag from the
newest round of `lag`, summed up by the rules of `transforms.lag.rules.rollup`. A group that has ended is Dead. If no
coordinator reported the state of a group, it is Unknown if it may have ended without a record, and Empty if it has no
members.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.jobs.ask.lag_sums import LAG_SUMS, SUMMED_COLUMNS, SUMS_PARAMETERS, with_statuses
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.ask.troubled import SEVERITIES, by_trouble
from groupledger.jobs.process.name_patterns import first_matching, names_matching

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

COLUMNS = (
    *("group_id", "group_type", "state", "member_count", "lag_sum", "partitions_without_lag", "lag_seconds_max"),
    *("status", "open_incidents", "incident_severity", "last_commit_at", "team"),
)
# Columns that a narrow terminal can leave out, in this order.
OPTIONAL = (
    *("team", "partitions_without_lag", "group_type", "member_count", "last_commit_at", "open_incidents"),
    *("lag_seconds_max", "state", "incident_severity"),
)
_GRAVITY = " ".join(f"WHEN '{word}' THEN {number}" for number, word in enumerate(SEVERITIES))
QUERY = f"""
WITH of_lag AS ({LAG_SUMS}),
of_incidents AS (
    SELECT
        group_id, count(*) AS open_incidents, max(first_seen_at) AS last_incident_at,
        max(CASE severity {_GRAVITY} END) AS incident_gravity
    FROM incidents GROUP BY group_id
)
SELECT
    groups.*, group_states.state AS sampled_state, of_lag.* EXCLUDE (group_id, sampled_at, of_topic),
    coalesce(of_incidents.open_incidents, 0) AS open_incidents, of_incidents.last_incident_at,
    of_incidents.incident_gravity
FROM groups
LEFT JOIN of_lag USING (group_id)
LEFT JOIN group_states USING (group_id)
LEFT JOIN of_incidents USING (group_id)
"""  # noqa: S608 - a text of ours


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupFilter:
    """Says which groups are wanted; None, or an empty sequence, means any. `pattern` is a part of the name or, with a *
    in it, a pattern for the whole name. Groups that have ended are wanted only with `with_ended`."""

    pattern: str | None = None
    statuses: Sequence[str] = ()
    group_types: Sequence[str] = ()
    team: str | None = None
    with_ended: bool = False


def group_list(tables: ClusterRows, wanted: GroupFilter, teams: Mapping[str, str]) -> list[Answer]:
    """Returns the groups that match a filter, those with the most severe trouble first."""
    return chosen(every_group(tables, teams), wanted)


def every_group(
    tables: ClusterRows, teams: Mapping[str, str], period: tuple[datetime, datetime] | None = None
) -> list[Answer]:
    """Returns all groups, those with the most severe trouble first. `teams` has by team a pattern of group names (RE2,
    for the whole name); the first pattern that matches gives the group's team.

    Without `period`, a row has the lag and the state of the newest rounds, and the group's open incidents. With it, the
    list has the groups that were first seen before its end, with lag and state of the last rounds by its end, and with
    the incidents that were seen in it."""
    begun: list[Filter] = [] if period is None else [("first_seen_at", "<", period[1])]
    of_period = [("is_open", "=", True)] if period is None else [*begun, ("last_seen_at", ">=", period[0])]
    found = tables.query(
        QUERY,
        SUMS_PARAMETERS,
        groups=tables.scan("groups", *begun),
        group_states=tables.scan_if_any(
            "group_states", *_of_last_round(tables, "group_states", period), columns=("group_id", "state")
        ),
        lag=tables.scan_if_any("lag", *_of_last_round(tables, "lag", period), columns=SUMMED_COLUMNS),
        incidents=tables.scan_if_any(
            "incidents",
            *of_period,
            ("severity", "in", SEVERITIES[1:]),
            columns=("group_id", "first_seen_at", "severity"),
        ),
    )
    team_of = first_matching(teams, [row["group_id"] for row in found])
    return sorted((_answer(row, team_of.get(row["group_id"])) for row in found), key=in_order)


def groups_without_history(tables: ClusterRows) -> int:
    """Returns how many groups of the newest round of lag the history does not have yet, as in the first minutes of a
    ledger, and of a group. No list has them."""
    found = tables.query(
        "SELECT count(DISTINCT group_id) AS waiting FROM lag ANTI JOIN groups USING (group_id)",
        groups=tables.scan("groups", columns=("group_id",)),
        lag=tables.scan_if_any("lag", *_of_last_round(tables, "lag", None), columns=("group_id",)),
    )
    return int(found[0]["waiting"])


def in_order(row: Answer) -> tuple[int, int, int, int, str]:
    """Returns the sort key of a row of this list."""
    return by_trouble(row, row["incident_severity"])


def chosen(groups: Sequence[Answer], wanted: GroupFilter) -> list[Answer]:
    """Returns the groups that match a filter, in their order."""
    named = None if wanted.pattern is None else matching(wanted.pattern, [row["group_id"] for row in groups])
    return [row for row in groups if _is_wanted(row, wanted, named)]


def matching(pattern: str, names: Sequence[str]) -> set[str]:
    """Returns the names that contain the pattern or, if it has a * in it, match it as a whole."""
    if "*" not in pattern:
        return {name for name in names if pattern in name}
    return names_matching(".*".join(map(re.escape, pattern.split("*"))), names)


def _of_last_round(tables: ClusterRows, table: str, period: tuple[datetime, datetime] | None) -> list[Filter]:
    sampled_at = last_round(tables, table, period and period[1]) if tables.exists(table) else None
    return [] if sampled_at is None else of_round(sampled_at)


def _answer(row: Answer, team: str | None) -> Answer:
    sampled_state, gravity = row.pop("sampled_state"), row.pop("incident_gravity")
    return with_statuses(row) | {
        "state": _state(row, sampled_state),
        "incident_severity": None if gravity is None else SEVERITIES[gravity],
        "team": team,
    }


def _state(row: Answer, sampled_state: str | None) -> str | None:
    if row["is_alive"] is False:
        return "Dead"
    if sampled_state is not None:
        return sampled_state
    if row["is_alive"] is None:
        return "Unknown"
    return "Empty" if row["member_count"] == 0 else None


def _is_wanted(row: Answer, wanted: GroupFilter, named: set[str] | None) -> bool:
    return (
        (wanted.with_ended or row["is_alive"] is not False)
        and (named is None or row["group_id"] in named)
        and (not wanted.statuses or row["status"] in wanted.statuses)
        and (not wanted.group_types or row["group_type"] in wanted.group_types)
        and (wanted.team is None or row["team"] == wanted.team)
    )

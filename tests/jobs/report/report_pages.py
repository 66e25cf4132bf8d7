"""Makes pages of the report without Spark, from folded logs, as `jobs.report.report` gives their groups to the page."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import TimestampType

from groupledger.jobs.report.page import assemble
from groupledger.jobs.report.page.group_data import GroupRows, group_data
from groupledger.jobs.report.page.overview import OverviewRows, overview
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.transforms.history.rules import Coverage, GroupMember, fold
from lab.truth.histories import Log, everything, member, position, summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from groupledger.schemas.tables.table import Table
    from lab.truth.histories import Entry

    Row = Mapping[str, Any]

START_MS = 1_760_000_000_000
START = datetime.fromtimestamp(START_MS / 1_000, timezone.utc)
HOUR = timedelta(hours=1)
# A name with the worst characters, as long as Kafka's longest string.
HOSTILE = (
    "</script><script>alert(1)</script>'\"`../../etc/passwd\n\0\u202egnp.exe\u2028<!--{{ 7*7 }}&amp;<a href=//x>%{y}"
)
ENDING = "/end\u2066"
HOSTILE_NAME = HOSTILE + "x" * (32_767 - len((HOSTILE + ENDING).encode())) + ENDING


def rows_of(text: str) -> Any:
    """Data of a page as the page's own script reads it: rows again, where JSON has them as columns."""
    return json.loads(text, object_hook=_with_rows)


def _with_rows(data: dict[str, Any]) -> Any:
    if data.keys() != {"columns"}:
        return data
    names = data["columns"].keys()
    return [dict(zip(names, values, strict=True)) for values in zip(*data["columns"].values(), strict=True)]


def typed(table: Table, rows: Iterable[Row], **constant: Any) -> list[dict[str, Any]]:
    """Rows of the fold as the table would give them back: all columns, and instants for microseconds."""
    found = []
    for row in rows:
        made = {}
        for field in table.schema:
            value = row.get(field.name)
            if isinstance(field.dataType, TimestampType) and isinstance(value, int):
                value = START + timedelta(microseconds=value - START_MS * 1_000)
            made[field.name] = value
        found.append({"of_group": len(rows) if isinstance(rows, list) else 0, **made, **constant})
    return found


def group_rows(
    group_id: str,
    log: Sequence[Entry],
    *,
    coverage: Sequence[Row] | None = None,
    incidents: Sequence[Row] | None = (),
    lag: Sequence[Row] | None = (),
    lag_partitions: Sequence[Row] | None = (),
) -> GroupRows:
    marks = [Coverage(0, "complete")]
    rows = fold(group_id, 3, None, summaries(sorted([*marks, *log], key=position))).rows
    return of_fold(rows, coverage or everything(START_MS * 10), incidents, lag, lag_partitions)


def of_fold(
    rows: Mapping[str, list[dict[str, Any]]],
    coverage: Sequence[Row],
    incidents: Sequence[Row] | None = (),
    lag: Sequence[Row] | None = (),
    lag_partitions: Sequence[Row] | None = (),
) -> GroupRows:
    (group,) = typed(GROUPS, rows["groups"])
    newest = lag[-1] if lag else dict.fromkeys(("lag", "lag_seconds", "lag_seconds_lower_bound"))
    severities = [row["severity"] for row in incidents or ()]
    ranked = {
        **group,
        "cluster": "east",
        "rebalances": len(rows["rebalances"]),
        "partitions_moved": sum(row["partitions_moved"] or 0 for row in rows["rebalances"]),
        "increments_without_record": 0,
        **{f"{severity}_incidents": severities.count(severity) for severity in ("error", "warning", "info")},
        **{name: newest[name] for name in ("lag", "lag_seconds", "lag_seconds_lower_bound")},
        "group_state": None,
    }
    return GroupRows(
        group=ranked,
        generations=typed(GENERATIONS, rows["generations"]),
        rebalances=typed(REBALANCES, rows["rebalances"]),
        members=typed(MEMBERS, rows["members"]),
        intervals=typed(ASSIGNMENTS, rows["assignments"], partitions_left_out=0),
        coverage=typed(COVERAGE, coverage),
        incidents=None if incidents is None else typed(INCIDENTS, list(incidents)),
        lag=lag,
        lag_partitions=lag_partitions,
    )


def page(groups: Sequence[GroupRows], since: datetime, until: datetime, **changes: Any) -> str:
    """The page of these groups; the overview's totals come from them."""
    stats = [stat for rows in groups for stat in stats_of(rows)]
    windows: dict[datetime, dict[str, Any]] = {}
    for stat in stats:
        found = windows.setdefault(
            stat["window_start"], {"window_start": stat["window_start"], "rebalances": 0, "storms": 0}
        )
        found["rebalances"] += stat["rebalances"]
    totals: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in (row for rows in groups for row in rows.incidents or ()):
        key = (row["severity"], row["kind"], row["evidence"])
        names = ("severity", "kind", "evidence", "last_seen_at")
        total = totals.setdefault(key, {name: row[name] for name in names} | {"incidents": 0, "groups": 1})
        total["incidents"] += 1
    words = {
        "cluster": "east",
        "since": since,
        "until": until,
        "window": "hour",
        "ranked": [rows.group for rows in groups],
        "groups": [
            {"group_type": "classic", "is_alive": True, "has_members": True, "is_simple": False, "groups": len(groups)}
        ],
        "incidents": list(totals.values()),
        "stats": stats,
        "windows": sorted(windows.values(), key=lambda row: row["window_start"]),
        "coverage": [
            {
                "kafka_partition": 3,
                "complete_seconds": (until - since).total_seconds(),
                "complete_from": since,
                "known_until": until,
                "holes": 0,
                "compacted_stretches": 0,
            }
        ],
        "holes": [],
        "has_lag": any(rows.lag for rows in groups),
        "what_ifs": [
            {"setting": "static", "groups": 9, "groups_told": 7, "rebalances_observed": 50}
            | {"rebalances_spared_low": 40, "rebalances_spared_high": 48}
            | {"gain_most": [rows.group["group_id"] for rows in groups]}
        ],
        **changes,
    }
    return assemble(overview(OverviewRows(**words)), (group_data(rows, since, until) for rows in groups))


def stats_of(rows: GroupRows) -> list[dict[str, Any]]:
    hours: dict[datetime, int] = {}
    for row in rows.rebalances:
        hour = row["happened_at"].replace(minute=0, second=0, microsecond=0)
        hours[hour] = hours.get(hour, 0) + 1
    zeros = dict.fromkeys(("increments_without_record", "storms", "partitions_moved", "members_left"), 0)
    return [
        {
            "group_id": rows.group["group_id"],
            "window_start": hour,
            "rebalances": count,
            **zeros,
            "flapping_member_count": 0,
            "longest_pause_upper_ms": None,
        }
        for hour, count in hours.items()
    ]


def moving_group(
    name: str, generations: int, partitions: int = 3, members: int = 2, step_ms: int = 60_000
) -> GroupRows:
    """Each generation the partitions go to the next member; every fifth gives the last partition to nobody."""
    log = Log().wait(START_MS)
    for generation in range(1, generations + 1):
        given: dict[int, list[int]] = {who: [] for who in range(members)}
        for partition in range(partitions - (generation % 5 == 0)):
            given[(partition + generation) % members].append(partition)
        log.record(generation, *(_member(who, places) for who, places in given.items())).wait(step_ms)
    return group_rows(name, log.entries)


def _member(who: int, places: Sequence[int]) -> GroupMember:
    return member(f"consumer-{who}-6f3e", *places, client_id=f"consumer-{who}", client_host=f"/10.0.0.{who + 1}")


def renamed(rows: GroupRows, name: str) -> GroupRows:
    return replace(rows, group={**rows.group, "group_id": name})

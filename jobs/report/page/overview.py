"""The upper half of the report: what is written into the page as text and tables, readable without any script.

Everything here is for a template that escapes what it is given; names have passed `names.shown`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from groupledger.jobs.report.page.names import shown
from groupledger.jobs.report.page.times import clock, duration, milliseconds
from groupledger.jobs.report.queries import SEVERITIES
from groupledger.schemas.words import GroupType, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]

TOP = 30
HOLES_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRows:
    """Holds rows of one cluster and period. `ranked` are the groups of the page, `groups` the totals of all groups,
    `stats` the windows of the page's groups; rows of a table that is not there are None."""

    cluster: str
    since: datetime
    until: datetime
    window: str
    ranked: Sequence[Row]
    groups: Sequence[Row]
    incidents: Sequence[Row] | None
    stats: Sequence[Row] | None
    windows: Sequence[Row] | None
    coverage: Sequence[Row]
    holes: Sequence[Row]
    has_lag: bool
    what_ifs: Sequence[Row] = ()


def overview(rows: OverviewRows) -> dict[str, Any]:
    """Returns what the template shows, by the template's names."""
    all_groups = sum(row["groups"] for row in rows.groups)
    return {
        "cluster": shown(rows.cluster),
        "since": clock(rows.since),
        "until": clock(rows.until),
        "window": rows.window,
        "headline": headline(rows),
        "types": group_types(rows.groups),
        "incidents": None if rows.incidents is None else incident_kinds(rows.incidents),
        "lag": worst_lag(rows) if rows.has_lag else None,
        "rebalancing": None if rows.stats is None else most_rebalancing(rows),
        "what_ifs": [{**row, "gain_most": ", ".join(map(shown, row["gain_most"]))} for row in rows.what_ifs],
        "coverage": coverage(rows),
        "holes": [_hole(row) for row in rows.holes[:HOLES_MAX]],
        "holes_left_out": max(0, len(rows.holes) - HOLES_MAX),
        "groups": [group_row(index, row) for index, row in enumerate(rows.ranked)],
        "groups_left_out": max(0, all_groups - len(rows.ranked)),
    }


def headline(rows: OverviewRows) -> list[dict[str, str]]:
    """Returns the figures at the page's top, each with what it rests on."""
    alive = sum(row["groups"] for row in rows.groups if row["is_alive"])
    found = [_figure("Groups", f"{sum(row['groups'] for row in rows.groups):,}", f"alive: {alive:,}")]
    if rows.windows is not None:
        rebalances = sum(row["rebalances"] for row in rows.windows)
        storms = sum(row["storms"] for row in rows.windows)
        found.append(_figure("Rebalances", f"{rebalances:,}", f"storms: {storms:,}"))
    if rows.incidents is None:
        found.append(_figure("Incidents", "not known", "no table of incidents"))
    else:
        counts = Counter[str]()
        for row in rows.incidents:
            counts[row["severity"]] += row["incidents"]
        found.append(_figure("Errors", f"{counts[Severity.ERROR]:,}", f"warnings: {counts[Severity.WARNING]:,}"))
    found.append(_lag_headline(rows))
    seen = sum(row["complete_seconds"] or 0 for row in rows.coverage)
    whole = (rows.until - rows.since).total_seconds() * len(rows.coverage)
    share = f"{100 * seen / whole:.1f} %" if whole else "nothing"
    return [*found, _figure("Coverage", share, "of the period was seen whole")]


def _figure(label: str, figure: str, basis: str) -> dict[str, str]:
    return {"label": label, "figure": figure, "basis": basis}


def _lag_headline(rows: OverviewRows) -> dict[str, str]:
    if not rows.has_lag:
        return _figure("Worst lag", "not known", "lag was never sampled")
    in_time = [row for row in rows.ranked if row["lag_seconds"] is not None]
    if in_time:
        worst = max(in_time, key=lambda row: row["lag_seconds"])
        return _figure("Worst lag", duration(worst["lag_seconds"]), f"now, of {shown(worst['group_id'], 48)}")
    counted = [row for row in rows.ranked if row["lag"] is not None]
    if not counted:
        return _figure("Worst lag", "not known", "no round has a number")
    worst = max(counted, key=lambda row: row["lag"])
    return _figure("Worst lag", f"{worst['lag']:,} records", f"now, of {shown(worst['group_id'], 48)}")


def group_types(totals: Sequence[Row]) -> list[Row]:
    """Returns a line for each type of group: how many there are in each state of `_state`."""
    counts: dict[str, Counter[str]] = {}
    for row in totals:
        counts.setdefault(row["group_type"] or "-", Counter())[_state(row)] += row["groups"]
    return [
        {
            "type": shown(kind),
            "with_members": found["with members"],
            "empty": found["empty"],
            "commits_only": found["commits only"],
            "gone": found["gone"],
            "not_known": found["not known"],
        }
        for kind, found in sorted(counts.items())
    ]


def _state(row: Row) -> str:
    if row["is_alive"] is None:
        return "not known"
    if not row["is_alive"]:
        return "gone"
    if row["is_simple"]:
        return "commits only"
    has_members = row["has_members"] if "has_members" in row else bool(row["member_count"])
    return "with members" if has_members or row["group_type"] in (GroupType.SHARE, GroupType.STREAMS) else "empty"


def incident_kinds(totals: Sequence[Row]) -> list[Row]:
    ordered = sorted(totals, key=lambda row: (_gravity(row), -row["incidents"], row["kind"]))
    return [{**row, "last_seen_at": clock(row["last_seen_at"])} for row in ordered]


def _gravity(row: Row) -> int:
    return SEVERITIES.index(row["severity"]) if row["severity"] in SEVERITIES else -1


def worst_lag(rows: OverviewRows) -> list[Row]:
    with_lag = [(index, row) for index, row in enumerate(rows.ranked) if row["lag_seconds"] or row["lag"]]
    with_lag.sort(key=lambda each: (each[1]["lag_seconds"] or 0, each[1]["lag"] or 0), reverse=True)
    return [group_row(index, row) for index, row in with_lag[:10]]


def most_rebalancing(rows: OverviewRows) -> dict[str, Any]:
    """Returns the groups that rebalance most, by window; a cell of the chart names its group by its place."""
    ranked = {row["group_id"]: index for index, row in enumerate(rows.ranked)}
    sums: dict[str, Counter[str]] = {}
    pauses: dict[str, int] = {}
    names = ("rebalances", "increments_without_record", "storms", "partitions_moved", "members_left")
    for row in rows.stats or ():
        found = sums.setdefault(row["group_id"], Counter())
        found.update({name: row[name] or 0 for name in (*names, "flapping_member_count")})
        pauses[row["group_id"]] = max(pauses.get(row["group_id"], 0), row["longest_pause_upper_ms"] or 0)
    top = sorted((name for name in sums if name in ranked), key=lambda name: (-sums[name]["rebalances"], ranked[name]))
    top = [name for name in top if sums[name]["rebalances"]][:TOP]
    places = {name: place for place, name in enumerate(top)}
    cells = [
        {"group": places[row["group_id"]], "at": milliseconds(row["window_start"]), "rebalances": row["rebalances"]}
        for row in rows.stats or ()
        if row["group_id"] in places and row["rebalances"]
    ]
    return {
        "rows": [
            {
                "index": ranked[name],
                "name": shown(name),
                **sums[name],
                "longest_pause": duration(pauses[name] / 1_000) if pauses[name] else "-",
            }
            for name in top
        ],
        "chart": {
            "window_ms": int(timedelta(**{f"{rows.window}s": 1}).total_seconds() * 1_000),
            "groups": [{"name": shown(name, 40), "index": ranked[name]} for name in top],
            "cells": cells,
            "totals": [
                {"at": milliseconds(row["window_start"]), "rebalances": row["rebalances"]} for row in rows.windows or ()
            ],
            "from": milliseconds(rows.since),
            "to": milliseconds(rows.until),
        },
    }


def coverage(rows: OverviewRows) -> dict[str, Any]:
    complete = [row for row in rows.coverage if row["complete_from"] is not None]
    # The ends of the partitions are read some moments apart.
    whole = (rows.until - rows.since).total_seconds() * 0.999
    return {
        "partitions": len(rows.coverage),
        "whole": sum((row["complete_seconds"] or 0) >= whole for row in rows.coverage),
        "part": sum(0 < (row["complete_seconds"] or 0) < whole for row in rows.coverage),
        "never": sum(not row["complete_seconds"] for row in rows.coverage),
        "complete_from": clock(min(row["complete_from"] for row in complete)) if complete else None,
        "known_until": clock(max(row["known_until"] for row in rows.coverage if row["known_until"]))
        if complete
        else None,
        "compacted": sum(row["compacted_stretches"] > 0 for row in rows.coverage),
    }


def _hole(row: Row) -> dict[str, Any]:
    return {
        "kafka_partition": row["kafka_partition"],
        "from_offset": row["from_offset"],
        "to_offset": row["to_offset"],
        "from_time": clock(row["from_time"]),
        "to_time": clock(row["to_time"]),
    }


def group_row(index: int, row: Row) -> dict[str, Any]:
    """Returns a line of the list of groups; `lag` and `behind` are what the texts beside them say."""
    lag, behind = row["lag"], row["lag_seconds"]
    return {
        "index": index,
        "name": shown(row["group_id"]),
        "type": row["group_type"] or "-",
        "state": row["group_state"] or _state(row),
        "members": row["member_count"],
        "rebalances": row["rebalances"],
        "moved": row["partitions_moved"],
        "errors": row["error_incidents"],
        "warnings": row["warning_incidents"],
        "lag": lag,
        "behind": behind,
        "lag_text": "-" if lag is None else f"{lag:,}",
        "behind_text": duration(behind),
        "last_commit": clock(row["last_commit_at"]),
    }

"""Reads what stands around a list of groups: incidents, who rebalanced most, and what the ledger knows at all."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.group_activity import most_rebalancing
from groupledger.jobs.ask.incidents import incidents_of, recent_incidents
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.what_if_kept import kept_totals
from groupledger.schemas.words import Completeness, Severity, Source, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.lanes import Window

# The tables that `recent` and `of_period` read, without those of what-if, which come and go by whole runs.
SUMMED_UP = ("coverage", "incidents", "rebalances", "coordinator_events", "what_if_runs")
SHOWN = 10
INCIDENTS_MAX = 200
HOLES_MAX = 50
DAY = timedelta(days=1)
SEVERITIES = words_of(Severity)[::-1]  # the gravest first


def recent(tables: ClusterRows) -> dict[str, Any]:
    """Returns the values of the template for now: open incidents, and who rebalanced in the last day that is known."""
    known_until = last_known(tables)
    since = None if known_until is None else known_until - DAY
    is_open = [row for row in recent_incidents(tables) if row["is_open"]][::-1]
    return {
        "incidents_title": "Open incidents",
        "rebalances_title": "Most rebalances in the last day",
        "incidents": is_open[:SHOWN],
        "incidents_left_out": max(len(is_open) - SHOWN, 0),
        **_around(tables, is_open, since, None, ()),
        "known_until": known_until,
    }


def of_period(tables: ClusterRows, window: Window, names: Sequence[str]) -> dict[str, Any]:
    """Returns the same for a period, of all groups or of some."""
    has_incidents = tables.exists("incidents")
    every = incidents_of(tables, names or None, window.since, None, Severity.WARNING) if has_incidents else []
    found = [row for row in every if row["first_seen_at"] < window.until][::-1]
    grave = sorted(found, key=lambda row: SEVERITIES.index(row["severity"]))
    return {
        "incidents_title": "Incidents of the period",
        "rebalances_title": "Most rebalances in the period",
        "incidents": grave[:INCIDENTS_MAX],
        "incidents_left_out": max(len(grave) - INCIDENTS_MAX, 0),
        **_around(tables, found, window.since, window.until, names),
        "known_until": last_known(tables),
    }


def _around(
    tables: ClusterRows,
    incidents: Iterable[Answer],
    since: datetime | None,
    until: datetime | None,
    names: Sequence[str],
) -> dict[str, Any]:
    has_history = tables.exists("rebalances")
    return {
        "incident_kinds": incident_kinds(incidents),
        "rebalancing": most_rebalancing(tables, since, until, SHOWN, names) if has_history else [],
        "what_ifs": kept_totals(tables),
        "coverage": coverage(tables.rows("coverage") if tables.exists("coverage") else ()),
        "searched_until": sources_known(tables)[Source.INCIDENTS],
        "absent": [table for table in ("lag", "incidents", "rebalances") if not tables.exists(table)],
    }


def incident_kinds(incidents: Iterable[Answer]) -> list[Answer]:
    """Returns a row for each kind, the gravest first."""
    of_kinds: dict[tuple[str, str, str], list[Answer]] = {}
    for row in incidents:
        of_kinds.setdefault((row["severity"], row["kind"], row["evidence"]), []).append(row)
    found = [
        {
            **dict(zip(("severity", "kind", "evidence"), key, strict=True)),
            "incidents": len(rows),
            "groups": len({row["group_id"] for row in rows}),
            "last_seen_at": max(row["last_seen_at"] for row in rows),
        }
        for key, rows in of_kinds.items()
    ]
    return sorted(found, key=lambda row: (SEVERITIES.index(row["severity"]), -row["incidents"], row["kind"]))


def coverage(rows: Iterable[Answer]) -> dict[str, Any]:
    """Returns what the ledger knows of how many partitions of `__consumer_offsets`, and which stretches nobody read. A
    row without its words is another engine's, and says nothing."""
    kinds: dict[str, list[Answer]] = {kind: [] for kind in words_of(Completeness)}
    for row in rows:
        if row["completeness"] is not None:
            kinds[Completeness.today(row["completeness"])].append(row)
    complete, holes = kinds[Completeness.COMPLETE], kinds[Completeness.UNKNOWN]
    partitions = {kind: len({row["kafka_partition"] for row in of_kind}) for kind, of_kind in kinds.items()}
    holes.sort(key=itemgetter("kafka_partition", "from_offset"))
    return {
        "complete": partitions[Completeness.COMPLETE],
        "compacted": partitions[Completeness.COMPACTED],
        "complete_from": min((row["from_time"] for row in complete if row["from_time"] is not None), default=None),
        "holes": holes[:HOLES_MAX],
        "holes_left_out": max(len(holes) - HOLES_MAX, 0),
    }


def counts(every: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what stands above the list: how many groups are in which state, and in which trouble."""
    return {
        "states": Counter(row["state"] or "with members" for row in every).most_common(),
        "by_status": Counter(row["status"] or "not sampled" for row in every).most_common(),
    }

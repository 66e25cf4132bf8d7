"""Reads the data around a list of groups: incidents, the groups that rebalanced most, and the ledger's coverage."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.group_activity import most_rebalancing
from groupledger.jobs.ask.known import sources_known
from groupledger.jobs.ask.troubled import TROUBLED, gravity, rank, severity_of
from groupledger.jobs.ask.what_if_stored import stored_totals
from groupledger.jobs.serve.axis import Window
from groupledger.jobs.serve.diagnoses import Diagnoses
from groupledger.jobs.serve.episodes import ShownEpisode, by_groups, episodes_of, incidents_within
from groupledger.schemas.words import Completeness, Severity, Source, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

# The tables that a period and its values are made of, without those of what-if, which come and go by whole runs.
SUMMED_UP = ("coverage", "incidents", "rebalances", "coordinator_events", "what_if_runs")
SHOWN = 10
EPISODES_MAX = 200
DIAGNOSED_MAX = 100  # so many are made in ten requests; a page of incidents has no more
HOLES_MAX = 50
SEVERITIES = words_of(Severity)[::-1]  # the gravest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The incidents of a window, of all groups or of some, and their episodes, the most harmful first. `is_final` says
    that the first DIAGNOSED_MAX episodes have their diagnoses, which may change severities and join episodes."""

    window: Window
    names: Sequence[str]
    incidents: list[Answer]
    episodes: list[ShownEpisode]
    is_final: bool


def of_period(tables: ClusterRows, window: Window, names: Sequence[str], diagnoses: Diagnoses) -> Period:
    found = incidents_within(tables, window.since, window.until, Severity.WARNING, names)
    episodes = episodes_of(found)
    shown = diagnoses.of(tables, episodes)
    is_final = diagnoses.are_made(tables, episodes[:DIAGNOSED_MAX])
    return Period(window=window, names=names, incidents=found, episodes=shown, is_final=is_final)


def period_values(tables: ClusterRows, period: Period) -> dict[str, Any]:
    """Returns the values of a period that the templates show beside the list of groups, by name."""
    since, until = period.window.since, period.window.until
    has_history = tables.exists("rebalances")
    return {
        "episodes": period.episodes[:EPISODES_MAX],
        "episodes_left_out": max(len(period.episodes) - EPISODES_MAX, 0),
        "by_severity": Counter(each.summary.severity for each in period.episodes).most_common(),
        "incident_kinds": incident_kinds(period.incidents),
        "rebalancing": most_rebalancing(tables, since, until, SHOWN, period.names) if has_history else [],
        "what_ifs": stored_totals(tables),
        "coverage": coverage(tables.rows("coverage") if tables.exists("coverage") else ()),
        "searched_until": sources_known(tables)[Source.INCIDENTS],
        "absent": [table for table in ("lag", "incidents", "rebalances") if not tables.exists(table)],
        "known_until": last_known(tables),
    }


def with_episodes(groups: Sequence[Answer], period: Period) -> list[Answer]:
    """Returns rows of groups with three values added. `worst` is the most harmful of the group's episodes in progress
    or, if none is, of all its episodes. `incidents` is the number of its episodes. `trouble_at` is the time at which
    trouble was last seen, which is the window's end for trouble in progress."""
    of_groups = by_groups(period.episodes)
    rows = []
    for row in groups:
        episodes = of_groups.get(row["group_id"], [])
        ends = [each.summary.until or period.window.until for each in episodes]
        if row["status"] in TROUBLED:
            ends.append(period.window.until)
        worst = next((each for each in episodes if each.summary.until is None), episodes[0] if episodes else None)
        rows.append({**row, "worst": worst, "incidents": len(episodes), "trouble_at": max(ends, default=None)})
    return rows


def newest_trouble(row: Answer) -> tuple[Any, ...]:
    """Returns the sort key of a row that `with_episodes` returned. The newest trouble comes first; at the same time,
    the most severe trouble; then groups that have not ended before the others."""
    at: datetime | None = row["trouble_at"]
    of_status = severity_of(row["status"])
    of_worst = None if row["worst"] is None else row["worst"].summary.severity
    severity = -gravity(of_status, of_worst)
    return at is None, -(at.timestamp() if at else 0), severity, row["is_alive"] is False, rank(row)


def incident_kinds(incidents: Iterable[Answer]) -> list[Answer]:
    """Returns one row for each kind, severity and evidence of incidents, with the numbers of incidents and of groups.
    The most severe come first, then the most frequent."""
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
    """Returns how many partitions of `__consumer_offsets` the ledger has read completely, or after a compaction, and
    the stretches that were not read. A row without `completeness` was written by an engine other than groupledger, and
    is ignored."""
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
    """Returns the values above the list: how many groups are in each state and have each lag status, and whether any
    group has a team."""
    return {
        "has_teams": any(row["team"] for row in every),
        "states": Counter(row["state"] or "with members" for row in every).most_common(),
        "by_status": Counter(row["status"] or "not sampled" for row in every).most_common(),
    }

"""The pages: an overview of a cluster's groups, and a group at any instant. Every link holds all that a page shows."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from importlib import resources
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from jinja2 import Environment, PackageLoader
from starlette.responses import HTMLResponse, RedirectResponse, Response

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.ask.group_activity import most_rebalancing, rebalances_of
from groupledger.jobs.ask.group_list import Wanted, chosen
from groupledger.jobs.ask.incidents import incidents_of, recent_incidents
from groupledger.jobs.ask.lag_answers import rows_of_round
from groupledger.jobs.ask.lag_sums import lag_rounds
from groupledger.jobs.ask.owners import GroupHistory, owner_rows, read_history
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.ask.share import share_lag_rounds, share_standing
from groupledger.jobs.ask.stream_copies import copies_at
from groupledger.jobs.ask.what_if_kept import kept_of_group
from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.jobs.process.instants import AGO, UNITS
from groupledger.jobs.serve import question_pages
from groupledger.jobs.serve.answers import Warehouse, instant_in, name_in
from groupledger.jobs.serve.api import page_of
from groupledger.jobs.serve.lanes import LEFT, WIDTH, Window, draw
from groupledger.schemas.words import GroupType, LagStatus, Ownership, Severity, words_of
from groupledger.transforms.coverage.rules.coverage_at import iso, why_unknown

PAGE = 100
SHOWN = 10
DAY = timedelta(days=1)
SUMMED_UP = ("coverage", "incidents", "rebalances", "coordinator_events")
Lag = dict[tuple[str, int], Any]  # what stands beside a topic and partition
WINDOWS = ("15m", "1h", "2h", "6h", "1d", "7d")
STATIC = {"page.css": "text/css", "page.js": "text/javascript"}


def templates() -> Environment:
    # Every value is escaped: names come from clients.
    found = Environment(loader=PackageLoader("groupledger.jobs.serve"), autoescape=True, trim_blocks=True)
    found.filters |= {"at": instant, "number": number, "part": part}
    found.globals |= {"link": link}
    return found


def instant(at: datetime | None) -> str:
    return "-" if at is None else iso(at)


def part(name: str) -> str:
    """Returns a name as a part of a path."""
    return quote(name, "")


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if type(value) is float else f"{value:,}"


def link(path: str, **parameters: object) -> str:
    given = {name: value for name, value in parameters.items() if value}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes of a warehouse."""
    pages, environment = APIRouter(default_response_class=HTMLResponse, include_in_schema=False), templates()

    def shown(template: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(environment.get_template(template).render(**values))

    @pages.get("/")
    def start() -> Response:
        clusters = warehouse.clusters()
        if len(clusters) == 1:
            return RedirectResponse(f"/clusters/{quote(clusters[0], '')}", 302)
        return shown("clusters.html", clusters=clusters)

    @pages.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise UnknownNameError("There is no such file.")
        text = (resources.files("groupledger.jobs.serve") / "static" / name).read_text()
        return Response(text, media_type=STATIC[name], headers={"cache-control": "max-age=3600"})

    @pages.get("/clusters/{cluster}")
    def overview(
        cluster: str,
        q: str | None = None,
        status: Annotated[list[str] | None, Query()] = None,
        type: str | None = None,  # noqa: A002
        team: str | None = None,
        all: bool = False,  # noqa: A002
        cursor: str | None = None,
    ) -> Response:
        tables = warehouse.rows(cluster)
        every = warehouse.groups(tables)
        status = [each for each in status or () if each]  # a form sends what is not chosen as nothing
        wanted = Wanted(
            pattern=q or None, statuses=status, group_types=[type] if type else (), team=team or None, with_ended=all
        )
        found = chosen(every, wanted)
        page, following = page_of(found, PAGE, cursor)
        asked = {"q": q, "status": status, "type": type, "team": team, "all": "true" if all else None}
        return shown(
            "overview.html",
            cluster=tables.cluster,
            groups=page,
            count=len(found),
            next=following,
            asked=asked,
            statuses=words_of(LagStatus),
            types=words_of(GroupType),
            teams=[*warehouse.settings.teams],
            **counts(chosen(every, Wanted(with_ended=all))),
            **warehouse.kept(tables, SUMMED_UP, lambda: summary(tables)),
        )

    @pages.get("/clusters/{cluster}/groups/{group}")
    def group(
        cluster: str, group: str, at: str | None = None, until: str | None = None, window: str = "2h"
    ) -> Response:
        tables, name = warehouse.rows(cluster), name_in(group)
        history = read_history(tables, name)
        return shown(
            "group.html",
            cluster=tables.cluster,
            name=name,
            windows=WINDOWS,
            window=window,
            width=WIDTH,
            left=LEFT,
            **group_page(tables, name, history, instant_in(at), instant_in(until), length(window)),
        )

    pages.include_router(question_pages.routes(warehouse, environment))
    return pages


def length(text: str) -> timedelta:
    """Returns how long a window is. Raises InputError."""
    found = AGO.fullmatch(text)
    lasts = found and timedelta(**{UNITS[found[2]]: min(int(found[1]), 10_000_000)})
    if not lasts or lasts > 366 * DAY:
        raise InputError("A window is as 30m, 2h or 7d, and at most a year.")
    return lasts


def counts(every: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what stands above the list: how many groups are in which state, and in which trouble."""
    return {
        "states": Counter(row["state"] or "with members" for row in every).most_common(),
        "by_status": Counter(row["status"] or "not sampled" for row in every).most_common(),
    }


def summary(tables: ClusterRows) -> dict[str, Any]:
    """Returns what stands below the list: open incidents, and who rebalanced most in the last day that is known."""
    known_until = last_known(tables)
    since = None if known_until is None else known_until - DAY
    rebalancing = most_rebalancing(tables, since, None, SHOWN) if tables.exists("rebalances") else []
    return {
        "known_until": known_until,
        "incidents": [row for row in recent_incidents(tables) if row["is_open"]][::-1][:SHOWN],
        "rebalancing": rebalancing,
    }


def group_page(
    tables: ClusterRows,
    name: str,
    history: GroupHistory,
    at: datetime | None,
    until: datetime | None,
    lasts: timedelta,
) -> dict[str, Any]:
    """Returns what the page of a group shows. A window without an end is one around the instant, or the last; so is one
    that the instant lies outside of."""
    last = history.known_until or history.group["last_seen_at"]
    if at is not None and until is not None and not until - lasts <= at <= until:
        until = None
    until = until or (last if at is None else min(at + lasts / 2, max(last, at)))
    window = Window(until - lasts, until)
    at = min(max(at or until, window.since), window.until)
    rebalances = rebalances_of(tables, name, None, None, 1_000_000)
    within = [row for row in rebalances if window.since <= row["happened_at"] < window.until]
    incidents = incidents_of(tables, name, window.since, None, Severity.WARNING) if tables.exists("incidents") else []
    seen = [row for row in incidents if row["first_seen_at"] < window.until]
    is_share = history.group["group_type"] == GroupType.SHARE
    sampled_at, lag = (share_lag if is_share else committed_lag)(tables, name, at)
    rounds = (share_lag_rounds if is_share else lag_rounds)(tables, name, window.since, window.until)
    return {
        "group": history.group,
        "known_until": last_known(tables, name),
        "at": at,
        "since": window.since,
        "until": window.until,
        "unknown": why_unknown(history.coverage, at),
        "generation": history.generation_at(at),
        "owners": list(owner_rows(history, at)),
        "reserved": Ownership.RESERVED,
        "copies": copies_at(tables, name, at),
        "is_share": is_share,
        "lag": lag,
        "sampled_at": sampled_at,
        "before": max((row["happened_at"] for row in rebalances if row["happened_at"] < at), default=None),
        "after": min((row["happened_at"] for row in rebalances if row["happened_at"] > at), default=None),
        "rebalances": within[::-1][: SHOWN * 5],
        "incidents": seen[::-1],
        "what_ifs": kept_of_group(tables, name),
        "drawing": draw(history, window, within, seen, rounds, at),
    }


def committed_lag(tables: ClusterRows, name: str, at: datetime) -> tuple[datetime | None, Lag]:
    """Returns the last sampling round by then, and what it told of each partition."""
    sampled_at = last_round(tables, "lag", at) if tables.exists("lag") else None
    rows = [] if sampled_at is None else rows_of_round(tables, sampled_at, name)
    return sampled_at, {(row.topic, row.partition): row for row in rows}


def share_lag(tables: ClusterRows, name: str, at: datetime) -> tuple[datetime | None, Lag]:
    """Returns the same of a share group, whose partitions have a start instead of a committed offset."""
    sampled_at, rows = share_standing(tables, name, at)
    return sampled_at, {
        (row["topic"], row["partition"]): {**row, "committed_offset": row["start_offset"]} for row in rows
    }

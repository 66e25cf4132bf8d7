"""Serves the overview: the troubles in a window of time, and a list of groups as strips over it, newest trouble on top.

The window ends at the last instant that the ledger knows, so that the tables of a cluster that no longer exists open on
its last day. The list shows one page of groups at a time, so 10,000 groups cost little more than a hundred. A search
finds groups by their names, topics, clients and hosts, also groups that have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.group_list import GroupFilter, chosen, every_group, groups_without_history, matching
from groupledger.jobs.ask.places import CLIENT, HOST, PLACED, TOPIC, like, places
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.ask.troubled import rank
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.path_names import part
from groupledger.jobs.serve.answers import Warehouse, instant_in
from groupledger.jobs.serve.axis import Window
from groupledger.jobs.serve.group_page import length, shortest_window
from groupledger.jobs.serve.overview_now import SHOWN_MAX, Now, in_trouble, overview_now
from groupledger.jobs.serve.overview_rows import (
    SUMMED_UP,
    Period,
    counts,
    newest_trouble,
    of_period,
    period_values,
    with_episodes,
)
from groupledger.jobs.serve.shown import group_path, link, place_path
from groupledger.jobs.serve.strips import Bar, histogram, picture
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.words import GroupType, LagStatus, words_of
from groupledger.transforms.coverage.rules.coverage_at import iso

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.episodes import ShownEpisode

PAGE = 100
A_DAY = "1d"
USUAL = ("1h", "6h", A_DAY)
WINDOWS = (*USUAL, "7d")
PLACES_MAX = 12
TROUBLE = "trouble"
# The sort key of each column. For numbers the greatest comes first, unless the sort begins with a minus.
SORTS: Mapping[str, Callable[[Answer], Any]] = {
    "group": lambda row: row["group_id"],
    "status": lambda row: None if row["status"] is None else rank(row)[0],
    "lag": lambda row: _negative(row["lag_sum"]),
    "seconds": lambda row: _negative(row["lag_seconds_max"]),
    "members": lambda row: _negative(row["member_count"]),
    "incidents": lambda row: -row["incidents"] or None,
    "commit": lambda row: row["last_commit_at"] and -row["last_commit_at"].timestamp(),
    "type": lambda row: row["group_type"],
    "state": lambda row: row["state"],
    "team": lambda row: row["team"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkParameters:
    """The parameters of a link to the overview."""

    q: str | None
    status: Sequence[str]
    type: str | None
    team: str | None
    topic: str | None
    client: str | None
    host: str | None
    all: bool
    sort: str
    window: str
    until: str | None
    page: int

    @property
    def is_narrowed(self) -> bool:
        return any((self.q, self.status, self.type, self.team, self.topic, self.client, self.host))

    def link(self, **changed: object) -> str:
        """Returns a link to the overview with the parameters in `changed` replaced, at the list's first page."""
        now: dict[str, object] = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "page"}
        now |= {"all": "true" if self.all else None, "sort": None if self.sort == TROUBLE else self.sort}
        now |= {"window": None if self.window == A_DAY else self.window}
        return link("", **{**now, **changed}) or "?"

    def sorted_by(self, column: str) -> str:
        """Returns a link to the list sorted by a column, or in reverse if it is sorted by that column already."""
        return self.link(sort=f"-{column}" if self.sort == column else column)


@dataclass(frozen=True, slots=True)
class OfWindow:
    """Holds the data of a window that is the same on all pages of the list."""

    period: Period
    values: dict[str, Any]
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class OfGroups:
    """Holds the groups of a window. `rows` are all of them, those with the newest trouble first; `living` is how many
    have not ended; `troubled` are those in trouble now, the worst first; `counts` are the values that stand above the
    list."""

    rows: list[Answer]
    living: int
    troubled: list[Answer]
    counts: dict[str, Any]


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the route of the page."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    @pages.get("/clusters/{cluster}")
    def overview(  # noqa: PLR0913, PLR0917 - one for each parameter
        cluster: str,
        q: str | None = None,
        status: Annotated[list[str] | None, Query()] = None,
        type: str | None = None,  # noqa: A002
        team: str | None = None,
        topic: str | None = None,
        client: str | None = None,
        host: str | None = None,
        all: bool = False,  # noqa: A002
        sort: str | None = None,
        window: str | None = None,
        until: str | None = None,
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> HTMLResponse:
        tables = warehouse.rows(cluster)
        asked = LinkParameters(
            q=q or None,
            status=[each for each in status or () if each],  # a form sends an unchosen status as an empty text
            type=type or None,
            team=team or None,
            topic=topic or None,
            client=client or None,
            host=host or None,
            all=all,
            sort=sort or TROUBLE,
            window=window or usual_window(warehouse.groups(tables), instant_in(until) or last_known(tables)),
            until=until or None,
            page=page,
        )
        values = overview_values(warehouse, tables, asked)
        return HTMLResponse(environment.get_template("overview.html").render(**values))

    return pages


def usual_window(groups: Sequence[Answer], end: datetime | None) -> str:
    """Returns the length of the window if the request has none: a day, or the shortest of USUAL that covers all groups
    since their creation."""
    begun = min((row["first_seen_at"] for row in groups if row["first_seen_at"] is not None), default=None)
    return shortest_window(USUAL, begun, end)


def overview_values(warehouse: Warehouse, tables: ClusterRows, asked: LinkParameters) -> dict[str, Any]:
    """Returns the values for the overview's template, by name."""
    end = instant_in(asked.until)
    last = end or last_known(tables) or instant_of_ms(now_ms())
    within = Window(last - length(asked.window), last)
    shared = _shared(warehouse, tables, asked, within)
    every = _every(warehouse, tables, asked, shared, within)
    wanted, near = _wanted(warehouse, tables, asked, every.rows)
    found = _sorted(wanted, asked.sort)
    shown = found[(asked.page - 1) * PAGE : asked.page * PAGE]
    now, of_now = instant_of_ms(now_ms()), None
    if end is None:
        worst = every.troubled[:SHOWN_MAX]
        worded = warehouse.diagnoses.of_groups(tables, [*worst, *shown], last)
        worst, shown = worded[: len(worst)], worded[len(worst) :]
        sampled_at = last_round(tables, "lag") if tables.exists("lag") else None
        waiting = warehouse.cached(tables, ("lag", "groups"), lambda: groups_without_history(tables))
        of_now = overview_now(every.living, worst, len(every.troubled) - len(worst), sampled_at, now, waiting)
    return {
        "cluster": tables.cluster,
        "now": now,
        "of_now": of_now,
        "hurt": _hurt(shared.values["episodes"], of_now),
        "is_now": end is None and asked.page == 1,
        "asked": asked,
        "windows": WINDOWS,
        "statuses": words_of(LagStatus),
        "types": words_of(GroupType),
        "teams": [*warehouse.settings.teams],
        "near": near,
        "groups": shown,
        "count": len(found),
        "pages": -(-len(found) // PAGE),
        "picture": picture(tables, within, shown, shared.period.incidents, shared.bars),
        "earlier": asked.link(until=iso(within.since)),
        "later": None if end is None else asked.link(until=iso(within.until + within.lasts)),
        "to_incidents": partial(link, f"/clusters/{part(tables.cluster)}/incidents"),
        "to_group": partial(group_path, tables.cluster),
        "to_place": partial(place_path, tables.cluster),
        "to_row": None,
        **every.counts,
        **shared.values,
    }


def _hurt(episodes: Sequence[ShownEpisode], now: Now | None) -> list[ShownEpisode]:
    """Returns episodes without those that stand above them, since they go on."""
    above = () if now is None else [each.episode for each in now.groups]
    return [each for each in episodes if not any(each is one for one in above)]


def _shared(warehouse: Warehouse, tables: ClusterRows, asked: LinkParameters, within: Window) -> OfWindow:
    """Returns the data that all pages of a window share. For a usual window that ends now it is cached, when
    all its diagnoses are made: each request makes a few."""

    def made() -> OfWindow:
        period = of_period(tables, within, (), warehouse.diagnoses)
        return OfWindow(period, period_values(tables, period), histogram(tables, within, period.incidents))

    if asked.until is None and asked.window in WINDOWS:
        return warehouse.cached(tables, SUMMED_UP, made, asked.window, is_final=lambda found: found.period.is_final)
    return made()


def _every(
    warehouse: Warehouse, tables: ClusterRows, asked: LinkParameters, shared: OfWindow, within: Window
) -> OfGroups:
    """Returns all groups with their worst episode of the window, and since when they were last in trouble. Those of the
    window that a page opens with are kept."""
    teams, bounds = warehouse.settings.team_patterns(), (within.since, within.until)
    found = warehouse.groups(tables) if asked.until is None else every_group(tables, teams, bounds)

    def made() -> OfGroups:
        rows = sorted(with_episodes(found, shared.period), key=newest_trouble)
        living = [row for row in rows if row["is_alive"] is not False]
        return OfGroups(rows, len(living), in_trouble(living), counts(living))

    if asked.until is None and asked.window == A_DAY:
        return warehouse.made_of((found, shared), made, "overview", tables.cluster)
    return made()


def _wanted(
    warehouse: Warehouse, tables: ClusterRows, asked: LinkParameters, every: Sequence[Answer]
) -> tuple[list[Answer], list[tuple[str, str, int]]]:
    """Returns the groups that match the request, and places with names similar to the searched one. Groups that have
    ended are left out if they had no trouble in the window, except in a search."""
    wanted = GroupFilter(
        statuses=asked.status, group_types=[asked.type] if asked.type else (), team=asked.team, with_ended=True
    )
    found, near = chosen(every, wanted), []
    of_places = {TOPIC: asked.topic, CLIENT: asked.client, HOST: asked.host}
    if asked.q or any(of_places.values()):
        known = warehouse.cached(tables, PLACED, lambda: places(tables))
        for kind, name in of_places.items():
            if name is not None:
                groups = known[kind].get(name, set())
                found = [row for row in found if row["group_id"] in groups]
        if asked.q:
            named = matching(asked.q, [row["group_id"] for row in found])
            near = like(known, asked.q, PLACES_MAX)
            beside = {group for kind, name, _ in near for group in known[kind][name]}
            found = [row for row in found if row["group_id"] in named or row["group_id"] in beside]
    elif not asked.all:
        found = [row for row in found if row["is_alive"] is not False or row["worst"] is not None]
    return found, near


def _sorted(rows: Sequence[Answer], sort: str) -> list[Answer]:
    """Returns rows, which are in the order of trouble, sorted by a column and then by name. Raises InputError for an
    unknown sort order."""
    if sort == TROUBLE:
        return [*rows]
    column = sort.removeprefix("-")
    if column not in SORTS:
        raise InputError(f"The list can't be sorted like that: give one of {', '.join((TROUBLE, *SORTS))}.")
    value = SORTS[column]
    named = sorted(rows, key=lambda row: row["group_id"])
    known = sorted((row for row in named if value(row) is not None), key=value, reverse=sort != column)
    return [*known, *(row for row in named if value(row) is None)]


def _negative(value: float | None) -> float | None:
    return None if value is None else -value

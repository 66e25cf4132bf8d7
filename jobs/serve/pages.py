"""The pages: an overview of a cluster's groups, and a group at any instant. Every link holds all that a page shows."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from importlib import resources
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from groupledger.jobs.ask.group_list import Wanted, chosen
from groupledger.jobs.ask.owners import GroupHistory, read_history
from groupledger.jobs.ask.what_if_spared import spared_text
from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.jobs.process.instants import AGO, UNITS
from groupledger.jobs.process.path_names import name_in, part
from groupledger.jobs.process.terminal import escaped
from groupledger.jobs.serve import question_pages
from groupledger.jobs.serve.answers import Warehouse, instant_in
from groupledger.jobs.serve.api import page_of
from groupledger.jobs.serve.group_rows import read_groups
from groupledger.jobs.serve.group_values import group_values
from groupledger.jobs.serve.lanes import Window
from groupledger.jobs.serve.overview_rows import SUMMED_UP, counts, recent
from groupledger.schemas.words import GroupType, LagStatus, words_of
from groupledger.transforms.coverage.rules.coverage_at import iso

PAGE = 100
REBALANCES_MAX = 50
DAY = timedelta(days=1)
WINDOWS = ("15m", "1h", "2h", "6h", "1d", "7d")
STATIC = {"page.css": "text/css", "page.js": "text/javascript"}


def templates() -> Environment:
    """Returns what makes pages of templates. Every value is escaped, and what has no picture of its own is shown as an
    escape: names come from clients."""
    loader = PackageLoader("groupledger.jobs.serve")
    found = Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=StrictUndefined, finalize=readable)
    found.filters |= {
        "at": instant,
        "named": named,
        "number": number,
        "part": part,
        "seconds": seconds,
        "spared": spared_text,
    }
    found.globals |= {"link": link}
    return found


def readable(value: object) -> object:
    return escaped(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def instant(at: datetime | None) -> str:
    return "-" if at is None else iso(at)


def named(name: str) -> str:
    """Returns a name to be shown; the empty one, which Kafka takes for a group, has to be seen, too."""
    return name or "(the empty name)"


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if type(value) is float else f"{value:,}"


def seconds(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else f"{milliseconds / 1_000:,.0f}"


def group_path(cluster: str, name: str, at: datetime | None = None) -> str:
    return link(f"/clusters/{part(cluster)}/groups/{part(name)}", at=at and iso(at))


def topic_path(cluster: str, topic: str) -> str:
    return f"/clusters/{part(cluster)}/topics/{part(topic)}"


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
            return RedirectResponse(f"/clusters/{part(clusters[0])}", 302)
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
            to_group=partial(group_path, tables.cluster),
            **counts(chosen(every, Wanted(with_ended=all))),
            **warehouse.kept(tables, SUMMED_UP, lambda: recent(tables)),
        )

    @pages.get("/clusters/{cluster}/groups/{group}")
    def group(
        cluster: str, group: str, at: str | None = None, until: str | None = None, window: str = "2h"
    ) -> Response:
        tables, instant = warehouse.rows(cluster), instant_in(at)
        history = read_history(tables, name_in(group))
        within = window_of(history, instant, instant_in(until), length(window))
        instant = min(max(instant or within.until, within.since), within.until)
        (rows,) = read_groups(tables, [history], within.since, within.until, instant)
        return shown(
            "group.html",
            cluster=tables.cluster,
            windows=WINDOWS,
            window=window,
            to_topic=partial(topic_path, tables.cluster),
            to_instant=lambda at: link("", at=iso(at), until=iso(within.until), window=window),
            **group_values(rows, within, instant, REBALANCES_MAX),
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


def window_of(history: GroupHistory, at: datetime | None, until: datetime | None, lasts: timedelta) -> Window:
    """Returns the window of a page. One without an end is one around the instant, or the last; so is one that the
    instant lies outside of."""
    last = history.known_until or history.group["last_seen_at"]
    if at is not None and until is not None and not until - lasts <= at <= until:
        until = None
    until = until or (last if at is None else min(at + lasts / 2, max(last, at)))
    return Window(until - lasts, until)

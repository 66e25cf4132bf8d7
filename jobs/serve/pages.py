"""The pages: an overview of a cluster's groups, and a group at any instant. Every link holds all that a page shows."""

from __future__ import annotations

from functools import partial
from importlib import resources
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from groupledger.jobs.ask.group_list import Wanted, chosen
from groupledger.jobs.process.errors import UnknownNameError
from groupledger.jobs.process.path_names import part
from groupledger.jobs.serve import group_page, incident_pages, question_pages
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.api import page_of
from groupledger.jobs.serve.overview_rows import SUMMED_UP, counts, recent
from groupledger.jobs.serve.shown import group_path, templates
from groupledger.schemas.words import GroupType, LagStatus, words_of

PAGE = 100
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "time.js": "text/javascript"}


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
        asked = {"q": q, "status": status, "type": type, "team": team, "all": "true" if all else None, "cursor": cursor}
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

    for each in (group_page, incident_pages, question_pages):
        pages.include_router(each.routes(warehouse, environment))
    return pages

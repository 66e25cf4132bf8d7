"""Assembles the pages, with their style sheets and scripts. The URL of a page contains everything that determines its
content."""

from __future__ import annotations

from importlib import resources
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from groupledger.jobs.process.errors import UnknownNameError
from groupledger.jobs.process.path_names import part
from groupledger.jobs.serve import (
    audit_pages,
    deploy_pages,
    failover_pages,
    group_page,
    incident_pages,
    objective_routes,
    overview_page,
    place_pages,
    question_pages,
    what_if_page,
)
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.shown import templates

PAGE = 100
STATIC = {"page.css": "text/css", **dict.fromkeys(("page.js", "picture.js", "time.js"), "text/javascript")}


def routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes of all pages of a warehouse, and of their style sheet and scripts."""
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

    for each in (
        overview_page,
        group_page,
        incident_pages,
        place_pages,
        question_pages,
        audit_pages,
        deploy_pages,
        failover_pages,
        what_if_page,
    ):
        pages.include_router(each.routes(warehouse, environment))
    pages.include_router(objective_routes.page_routes(warehouse, environment))
    environment.globals["has_objectives"] = bool(warehouse.settings.objectives)
    return pages

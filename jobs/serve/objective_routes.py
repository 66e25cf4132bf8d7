"""Serves how far groups meet their objectives of lag, as a page and as JSON. `groupledger objectives` prints the same.

The window of an objective is long, and every round in it is read. So this is a page of its own, and not a part of the
group's page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.objectives import objectives
from groupledger.jobs.serve.answer_models import Objectives
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_answer, known_of
from groupledger.jobs.serve.described import LAG, InCluster, answering
from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from datetime import datetime

    from jinja2 import Environment

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer

SAMPLES = (Source.SAMPLES,)
GROUP = Query(description="Only of this group.")
UNTIL = Query(description="Minutes before then: 2026-01-31T14:03:00Z, 14:03, or 2h; of the last round if left out.")


def api_routes(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/objectives",
        summary="Whether groups meet their objectives of lag",
        **answering("objectives", LAG, Objectives),
    )
    def standings(
        cluster: InCluster, group: Annotated[str | None, GROUP] = None, until: Annotated[str | None, UNTIL] = None
    ) -> Response:
        """Attainment, budget left and burn rates of each objective and group. Those that use up their budget fastest
        come first."""
        tables, end = warehouse.rows(cluster), instant_in(until)
        counted_until, found = minutes_and_rows(warehouse, tables, group, end)
        answer = {"counted_until": counted_until, "objectives": found}
        return known_answer(answer, tables, SAMPLES, Time(until=end))


def page_routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the route of the page."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    @pages.get("/clusters/{cluster}/objectives")
    def objectives_page(cluster: str, group: str | None = None, until: str | None = None) -> HTMLResponse:
        tables, end = warehouse.rows(cluster), instant_in(until)
        counted_until, found = minutes_and_rows(warehouse, tables, group, end)
        return HTMLResponse(
            environment.get_template("objectives.html").render(
                cluster=tables.cluster,
                group=group,
                counted_until=counted_until,
                rows=found,
                **known_of(tables, SAMPLES, Time(until=end)),
            )
        )

    return pages


def minutes_and_rows(
    warehouse: Warehouse, tables: ClusterRows, group: str | None, until: datetime | None
) -> tuple[datetime | None, list[Answer]]:
    """Returns the instant up to which minutes are counted, and a row for each objective of each group, or of `group`
    alone. Returns None and an empty list if the settings have no objectives."""
    if group is not None:
        group_row(tables, group)
    if not warehouse.settings.objectives:
        return None, []
    return objectives(tables, warehouse.settings, None if group is None else [group], until)

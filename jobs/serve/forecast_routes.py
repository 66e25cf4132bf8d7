"""Serves the forecasts of a group as JSON. The group's page has the same forecasts in sentences."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from fastapi import Query
from starlette.responses import Response

from groupledger.jobs.ask.forecasts import expiry, forecasts
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answer_models import Forecasts
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_answer
from groupledger.jobs.serve.cursors import PLACES_MAX, Cursor, PlacesLimit, page_of_places
from groupledger.jobs.serve.described import LAG, InCluster, OfGroup, answering
from groupledger.schemas.words import Source
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from fastapi import APIRouter

AT = Query(description="Use the last sampling round at or before this instant; the newest one if left out.")


def api_routes(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/groups/{group}/forecast",
        summary="When a group catches up, and when it loses records",
        **answering("forecast", LAG, Forecasts),
    )
    def forecast(
        cluster: InCluster,
        group: OfGroup,
        at: Annotated[str | None, AT] = None,
        limit: PlacesLimit = PLACES_MAX,
        cursor: Cursor = None,
    ) -> Response:
        """When each partition has caught up, and when retention removes records that the group has not read, each
        with three values: at the present rates, at the earliest and at the latest. Also when the group's offsets
        expire, unless the request has `at`."""
        tables, name, asked = warehouse.rows(cluster), name_in(group), instant_in(at)
        sampled_at, rows = forecasts(tables, name, asked)
        retention = timedelta(seconds=warehouse.combined_settings(tables).offsets.retention_s)
        expires = expiry(tables, name, retention) if asked is None else None
        page = page_of_places(rows, "forecasts", limit, cursor)
        answer = {"sampled_at": sampled_at, "offsets_expire": expires, **page}
        return known_answer(answer, tables, (Source.SAMPLES,), Time.at(asked), [name])

"""Serves the acts of a group or of a cluster, as a page and as JSON, and the file that undoes an act. An act is an
operation that reset, moved or removed committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from groupledger.jobs.ask.audit import act_of, audit, who
from groupledger.jobs.ask.undo import undo as undo_of
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answer_models import Acts
from groupledger.jobs.serve.api import Since, Until
from groupledger.jobs.serve.cursors import Limit
from groupledger.jobs.serve.described import CLUSTERS, InCluster, OfGroup, answering, described_router
from groupledger.jobs.serve.described import HISTORY as HISTORY_TAG
from groupledger.jobs.serve.lists_in_time import ListInTime
from groupledger.jobs.serve.shown import group_path, link

if TYPE_CHECKING:
    from jinja2 import Environment

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.serve.answers import Warehouse

UNDO = {"schema": {"type": "string"}, "example": "orders.shipping-labels,2,71868\n"}
PARTITIONS_MAX = 100


def api_routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes that answer with JSON, and the route of the file that undoes an act."""
    api = described_router()

    listed = list_of_acts(warehouse)

    @api.get(
        "/clusters/{cluster}/audit",
        summary="Who reset, moved or removed committed offsets",
        **answering("audit", CLUSTERS, Acts),
    )
    def of_cluster(cluster: InCluster, since: Since = None, until: Until = None, limit: Limit = 100) -> Response:
        """The last operations on committed offsets, each with its author or the reason why that is unknown."""
        return listed.answer(cluster, None, since, until, limit)

    @api.get(
        "/clusters/{cluster}/groups/{group}/audit",
        summary="Who reset, moved or removed the offsets of a group",
        **answering("audit_of_group", HISTORY_TAG, Acts),
    )
    def of_group(
        cluster: InCluster, group: OfGroup, since: Since = None, until: Until = None, limit: Limit = 100
    ) -> Response:
        """The last operations on the group's committed offsets, each with its author."""
        return listed.answer(cluster, group, since, until, limit)

    @api.get(
        "/clusters/{cluster}/groups/{group}/audit/undo",
        summary="The file for Kafka's tool that undoes one of these",
        operation_id="undo",
        response_class=Response,
        tags=[HISTORY_TAG],
        responses={200: {"description": "The file.", "content": {"text/csv": UNDO}}},
    )
    def undo(
        cluster: InCluster, group: OfGroup, record: Annotated[str, Query(description="As in the list.")]
    ) -> Response:
        """The file that `kafka-consumer-groups --reset-offsets --from-file` reads to undo an act: a line for each
        partition, with topic, partition and offset. `record` is that of the act in the list. Undoing a move forward
        makes the group read again all that it has read since: `groupledger audit --undo` says how many records."""
        tables = warehouse.rows(cluster)
        plan = undo_of(tables, act_of(audit(tables, name_in(group)), record))
        return Response("".join(f"{line}\n" for line in plan.lines), media_type="text/csv")

    return api


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the routes of the pages that list acts."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    listed = list_of_acts(warehouse)

    @pages.get("/clusters/{cluster}/audit")
    def of_cluster(cluster: str, since: str | None = None, until: str | None = None) -> HTMLResponse:
        return listed.page(environment, cluster, None, since, until)

    @pages.get("/clusters/{cluster}/groups/{group}/audit")
    def of_group(cluster: str, group: str, since: str | None = None, until: str | None = None) -> HTMLResponse:
        return listed.page(environment, cluster, group, since, until)

    return pages


def list_of_acts(warehouse: Warehouse) -> ListInTime:
    shown = {"partitions_max": PARTITIONS_MAX, "who": who, "to_undo": to_undo}
    return ListInTime(warehouse, "acts", audit, "audit.html", shown)


def to_undo(cluster: str, act: Answer) -> str:
    """Returns the URL of the file that undoes an act."""
    return link(f"/api/v1{group_path(cluster, act['group_id'])}/audit/undo", record=act["record"])

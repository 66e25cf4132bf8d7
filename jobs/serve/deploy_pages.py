"""Serves the page of deployments, of a group or of a cluster, and their JSON. `groupledger deploys` and `deploy` print
the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from groupledger.jobs.ask.answers import known_until
from groupledger.jobs.ask.deploys import deploy_at, deploys, sentences
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answer_models import Deploys, DeployThen
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_answer
from groupledger.jobs.serve.api import HISTORY, At, Since, Until
from groupledger.jobs.serve.cursors import Limit
from groupledger.jobs.serve.described import CLUSTERS, InCluster, OfGroup, answering, described_router
from groupledger.jobs.serve.described import HISTORY as HISTORY_TAG
from groupledger.jobs.serve.lists_in_time import ListInTime
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from jinja2 import Environment


def api_routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes that answer with JSON."""
    api = described_router()

    listed = list_of_deploys(warehouse)

    @api.get("/clusters/{cluster}/deploys", summary="Deployments", **answering("deploys", CLUSTERS, Deploys))
    def of_cluster(cluster: InCluster, since: Since = None, until: Until = None, limit: Limit = 100) -> Response:
        """The last deployments of all groups, each with what it cost. A deployment is a time in which every member of a
        group was replaced in good order."""
        return listed.answer(cluster, None, since, until, limit)

    @api.get(
        "/clusters/{cluster}/groups/{group}/deploys",
        summary="The deployments of a group",
        **answering("deploys_of_group", HISTORY_TAG, Deploys),
    )
    def of_group(
        cluster: InCluster, group: OfGroup, since: Since = None, until: Until = None, limit: Limit = 100
    ) -> Response:
        """The last deployments of the group, each with what it cost and what earlier deployments cost."""
        return listed.answer(cluster, group, since, until, limit)

    @api.get(
        "/clusters/{cluster}/groups/{group}/deploy",
        summary="What a deployment cost",
        **answering("deploy", HISTORY_TAG, DeployThen),
    )
    def of_instant(cluster: InCluster, group: OfGroup, at: At = None) -> Response:
        """The deployment that was in progress at the instant, or the last one before it."""
        tables, name, asked = warehouse.rows(cluster), name_in(group), instant_in(at)
        instant = asked or known_until(tables)
        found, other = deploy_at(tables, name, instant)
        lines = [] if found is None else [*sentences(found)]
        answer = {"at": instant, "deploy": found, "sentences": lines, "no_deploy": other}
        return known_answer(answer, tables, HISTORY, Time.at(asked), [name])

    return api


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the routes of the pages that list deployments."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    listed = list_of_deploys(warehouse)

    @pages.get("/clusters/{cluster}/deploys")
    def of_cluster(cluster: str, since: str | None = None, until: str | None = None) -> HTMLResponse:
        return listed.page(environment, cluster, None, since, until)

    @pages.get("/clusters/{cluster}/groups/{group}/deploys")
    def of_group(cluster: str, group: str, since: str | None = None, until: str | None = None) -> HTMLResponse:
        return listed.page(environment, cluster, group, since, until)

    return pages


def list_of_deploys(warehouse: Warehouse) -> ListInTime:
    return ListInTime(warehouse, "deploys", deploys, "deploys.html", {"sentences": sentences})

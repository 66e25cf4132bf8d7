"""Serves what a failover of a group to a mirrored cluster would repeat or skip, as JSON and as a page. `groupledger
failover` prints the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from groupledger.jobs.ask.answers import refuse_unknown
from groupledger.jobs.ask.failover import Names, between, failover, sentence
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.path_names import name_in, part
from groupledger.jobs.serve.answer_models import Failover
from groupledger.jobs.serve.answers import Warehouse, instant_in, known_answer, known_of
from groupledger.jobs.serve.api import TOPIC, At
from groupledger.jobs.serve.described import HISTORY as HISTORY_TAG
from groupledger.jobs.serve.described import InCluster, OfGroup, answering, described_router
from groupledger.transforms.coverage.rules.known import Time

if TYPE_CHECKING:
    from jinja2 import Environment

To = Annotated[str, Query(description="The cluster that the group would move to, as it is named in the warehouse.")]
Alias = Annotated[str | None, Query(description="MirrorMaker's alias of the source: copies are named ALIAS.TOPIC.")]
SameNames = Annotated[bool, Query(description="Copies have the names of their sources.")]


def api_routes(warehouse: Warehouse) -> APIRouter:
    """Returns the route that answers with JSON."""
    api = described_router()

    @api.get(
        "/clusters/{cluster}/groups/{group}/failover",
        summary="What a failover to a mirrored cluster would repeat or skip",
        **answering("failover", HISTORY_TAG, Failover),
    )
    def of_group(
        cluster: InCluster,
        group: OfGroup,
        to: To,
        at: At = None,
        alias: Alias = None,
        same_names: SameNames = False,
    ) -> Response:
        """By the committed offsets of the group in both clusters, and by MirrorMaker's offset syncs: for each partition
        how many records the group would read again, or never."""
        found, tables, asked = answer_of(warehouse, cluster, group, to, at, Names(alias, same_names))
        return known_answer(found, tables, TOPIC, Time.at(asked), [name_in(group)])

    return api


def answer_of(
    warehouse: Warehouse, cluster: str, group: str, to: str, at: str | None, names: Names
) -> tuple[dict[str, Any], Any, Any]:
    """Returns the answer, the tables of the source, and the instant that was asked for."""
    if names.alias is not None and names.is_same:
        raise InputError("Give either alias or same_names.")
    source, name, asked = warehouse.rows(cluster), name_in(group), instant_in(at)
    target = warehouse.rows(part(to))
    instant, rows = failover(source, target, name, asked, names)
    said = sentence(name, source.cluster, target.cluster, rows)
    return {"at": instant, "target": target.cluster, "sentence": said, "partitions": rows}, source, asked


def routes(warehouse: Warehouse, environment: Environment) -> APIRouter:
    """Returns the route of the page. Without `to`, it asks for the cluster."""
    pages = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    @pages.get("/clusters/{cluster}/groups/{group}/failover")
    def of_group(
        cluster: str, group: str, to: str = "", at: str | None = None, alias: str = "", same_names: str = ""
    ) -> HTMLResponse:
        tables, name = warehouse.rows(cluster), name_in(group)
        refuse_unknown(tables, name)
        others = [each for each in warehouse.clusters() if each != tables.cluster]
        answer: dict[str, Any] | None = None
        if to or len(others) == 1:
            names = Names(alias or None, bool(same_names))
            answer, _, _ = answer_of(warehouse, cluster, group, to or others[0], at, names)
        text = environment.get_template("failover.html").render(
            cluster=tables.cluster,
            name=name,
            others=others,
            answer=answer,
            span=span,
            given={"alias": alias, "at": at or "", "same_names": same_names},
            **known_of(tables, TOPIC, Time.at(instant_in(at)), [name]),
        )
        return HTMLResponse(text)

    return pages


def span(lowest: int | None, highest: int | None) -> str:
    return "-" if lowest is None or highest is None else between(lowest, highest)

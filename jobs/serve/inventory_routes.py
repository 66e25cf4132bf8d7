"""Serves the JSON of the inventory of clients. `groupledger inventory` prints the same."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from groupledger.jobs.ask.inventory import inventory
from groupledger.jobs.serve.answer_models import Inventory
from groupledger.jobs.serve.answers import Warehouse, known_answer
from groupledger.jobs.serve.described import CLUSTERS, InCluster, answering
from groupledger.schemas.words import Source

GROUP = Query(description="Only of this group.")


def api_routes(api: APIRouter, warehouse: Warehouse) -> None:
    @api.get(
        "/clusters/{cluster}/inventory",
        summary="Clients by library, version, protocol and assignor",
        **answering("inventory", CLUSTERS, Inventory),
    )
    def clients(cluster: InCluster, group: Annotated[str | None, GROUP] = None) -> Response:
        """The present members of groups by library, version, protocol and assignor: how many there are, how many are
        static, and what keeps them from the protocol of KIP-848. Only the brokers' request log shows the library of a
        client."""
        tables = warehouse.rows(cluster)
        return known_answer({"clients": inventory(tables, group)}, tables, (Source.HISTORY,))

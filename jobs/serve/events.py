"""Server-sent events of a cluster: `round` when a sampling round was added, `incident` for each that is new.

A client that comes again sees what is new from then on only: what was before is in the tables. So is an incident that
ended more than a day before the newest one, as a log tells that is imported late. Each client costs a look at the
versions of two tables every few seconds, so there is a bound on them; what has changed is read once for all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter
from starlette.responses import Response, StreamingResponse

from groupledger.jobs.ask.incidents import recent_incidents
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.process.errors import JobError, OutsideError
from groupledger.jobs.process.output import json_text
from groupledger.jobs.serve.answers import Warehouse, name_in

CLIENTS_MAX = 16
POLL_S = 5.0
TOLD = ("lag", "incidents")


def routes(warehouse: Warehouse) -> APIRouter:
    """Returns the route of a warehouse."""
    api, clients = APIRouter(prefix="/api/v1", default_response_class=Response), anyio.CapacityLimiter(CLIENTS_MAX)

    @api.get("/clusters/{cluster}/events", summary="New rounds and incidents, as server-sent events")
    async def events(cluster: str) -> Response:
        if clients.available_tokens < 1:
            raise OutsideError(f"{CLIENTS_MAX} clients listen to events already: close one.")
        await to_thread.run_sync(warehouse.rows, cluster)  # refuses a cluster that is not there
        return StreamingResponse(_stream(warehouse, cluster, clients), media_type="text/event-stream")

    return api


async def _stream(warehouse: Warehouse, cluster: str, clients: anyio.CapacityLimiter) -> AsyncIterator[str]:
    client = object()
    await clients.acquire_on_behalf_of(client)
    try:
        seen = await to_thread.run_sync(_state, warehouse, cluster)
        yield ": groupledger tells what is new from here on\n\n"
        while True:
            await anyio.sleep(POLL_S)
            try:
                now = await to_thread.run_sync(_state, warehouse, cluster)
            except JobError as error:
                yield _event("problem", {"detail": str(error)})
                continue
            if now["round"] != seen["round"]:
                yield _event("round", {"cluster": name_in(cluster), "sampled_at": now["round"]})
            for incident_id, incident in now["incidents"].items():
                if incident_id not in seen["incidents"]:
                    yield _event("incident", incident)
            yield ": still there\n\n"
            seen = now
    finally:
        clients.release_on_behalf_of(client)


def _state(warehouse: Warehouse, cluster: str) -> dict[str, Any]:
    tables = warehouse.rows(cluster)

    def made() -> dict[str, Any]:
        return {
            "round": last_round(tables, "lag") if tables.exists("lag") else None,
            "incidents": {row["incident_id"]: row for row in recent_incidents(tables)},
        }

    return warehouse.kept(tables, TOLD, made)


def _event(kind: str, value: object) -> str:
    # JSON has no line breaks of its own, and so can't end the event.
    return f"event: {kind}\ndata: {json_text(value)}\n\n"

"""Sends server-sent events of a cluster: `round` when a sampling round was added, `incident` for each new incident.

A client that reconnects gets only new events, because earlier ones are in the tables. It also gets no event for an
incident that ended more than a day before the newest one, as may happen with a log that is imported late. For each
client the server looks up the versions of two tables every POLL_S seconds, so the number of clients is limited, in all
and for one address. Changed rows are read once for all clients. A client is counted before its first look-up, so that
many who come at once are not all let in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from groupledger.jobs.ask.incidents import recent_incidents
from groupledger.jobs.ask.rounds import last_round
from groupledger.jobs.process.errors import JobError
from groupledger.jobs.process.output import json_text
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.described import CLUSTERS, InCluster, described_router
from groupledger.jobs.serve.entrance import Proxy
from groupledger.jobs.serve.readers import BusyError, status_and_sentence
from groupledger.jobs.serve.slots import NoPlaceError, Places

CLIENTS_MAX, OF_ONE_ADDRESS = 16, 8
POLL_S = 5.0
COUNTED_TABLES = ("lag", "incidents")
EVENTS = {
    "schema": {"type": "string"},
    "example": 'event: round\ndata: {"cluster":"demo","sampled_at":"2026-11-25T11:55:00.000Z"}\n\n',
}


def routes(warehouse: Warehouse, proxy: Proxy | None) -> APIRouter:
    """Returns the route of the events of the warehouse's clusters."""
    api = described_router()
    places = Places(CLIENTS_MAX, OF_ONE_ADDRESS, proxy)

    @api.get(
        "/clusters/{cluster}/events",
        summary="New rounds and incidents, as server-sent events",
        operation_id="events",
        tags=[CLUSTERS],
        response_class=StreamingResponse,
        responses={200: {"description": "A stream without an end.", "content": {"text/event-stream": EVENTS}}},
    )
    async def events(request: Request, cluster: InCluster) -> Response:
        """A stream of events without an end. `round`: a sampling round was added; the event has its instant.
        `incident`: an incident is new; the event has its row. `problem`: the tables can't be read now; the event has a
        sentence."""
        with ExitStack() as stack:
            try:
                stack.enter_context(places.one(request.scope))
            except NoPlaceError as error:
                raise BusyError(
                    f"{places.every} clients listen to events already, or {places.of_one} of this address: close one."
                ) from error
            await to_thread.run_sync(warehouse.rows, cluster)  # refuses a cluster that is not there
            return Stream(_stream(warehouse, cluster), stack.pop_all())

    return api


class Stream(StreamingResponse):
    """A response without an end. It gives up `place`, its place among the clients, when sending ends for any reason."""

    def __init__(self, content: AsyncIterator[str], place: ExitStack) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


async def _stream(warehouse: Warehouse, cluster: str) -> AsyncIterator[str]:
    seen = await to_thread.run_sync(_state, warehouse, cluster)
    yield ": groupledger reports changes from here on\n\n"
    while True:
        await anyio.sleep(POLL_S)
        try:
            now = await to_thread.run_sync(_state, warehouse, cluster)
        except JobError as error:
            yield _event("problem", {"detail": status_and_sentence(error, warehouse.place)[1]})
            continue
        if now["round"] != seen["round"]:
            yield _event("round", {"cluster": name_in(cluster), "sampled_at": now["round"]})
        for incident_id, incident in now["incidents"].items():
            if incident_id not in seen["incidents"]:
                yield _event("incident", incident)
        yield ": still there\n\n"
        seen = now


def _state(warehouse: Warehouse, cluster: str) -> dict[str, Any]:
    tables = warehouse.rows(cluster)

    def made() -> dict[str, Any]:
        return {
            "round": last_round(tables, "lag") if tables.exists("lag") else None,
            "incidents": {row["incident_id"]: row for row in recent_incidents(tables)},
        }

    return warehouse.cached(tables, COUNTED_TABLES, made)


def _event(kind: str, value: object) -> str:
    # JSON has no line breaks of its own, and so can't end the event.
    return f"event: {kind}\ndata: {json_text(value)}\n\n"

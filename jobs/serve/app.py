"""Puts the server together: pages, their JSON and Burrow's API over one warehouse. It writes nothing."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.jobs.serve import api, burrow, events, pages
from groupledger.jobs.serve.answers import Warehouse, problem_answer, told_of
from groupledger.jobs.serve.entrance import OPEN_TO_ALL, Entrance
from groupledger.jobs.serve.guards import Guards

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.types import ASGIApp

    from groupledger.jobs.serve.entrance import Proxy
    from groupledger.jobs.serve.passwords import Passwords

# Questions that are computed at once; others wait.
THREADS = 4


def make_app(
    warehouse: Warehouse, hosts: Collection[str], passwords: Passwords | None = None, proxy: Proxy | None = None
) -> ASGIApp:
    """Returns the application; `hosts` are the names that it answers to. It asks nobody who is there if it has neither
    passwords nor a proxy."""
    app = FastAPI(
        title="groupledger",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=_few_threads,
    )
    app.include_router(api.routes(warehouse))
    app.include_router(events.routes(warehouse))
    app.include_router(burrow.routes(warehouse))
    app.include_router(pages.routes(warehouse))
    app.add_api_route(OPEN_TO_ALL, lambda: PlainTextResponse("ok\n"), include_in_schema=False)
    app.add_exception_handler(Exception, _refused)
    for kind in (InputError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    return Guards(app if passwords is None and proxy is None else Entrance(app, passwords, proxy), hosts)


@asynccontextmanager
async def _few_threads(_app: FastAPI) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        error = InputError(f"The question is wrong: {wrong}.")
    elif isinstance(error, HTTPException):
        error = UnknownNameError("There is nothing at this path: see /api/v1/openapi.json.")
    status, detail = told_of(error)
    if request.url.path.startswith(burrow.PREFIX):
        return burrow.refused(request, status, detail)
    return problem_answer(status, detail)

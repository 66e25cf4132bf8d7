"""Assembles the server: pages, their JSON and Burrow's API over one warehouse. It writes nothing.

A request passes the guards (`jobs.serve.guards`), then the entrance (`jobs.serve.entrance`) if users have to log in,
then the slots (`jobs.serve.slots`). The guards themselves answer `/livez` and `/readyz`.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from groupledger.jobs.process.errors import InputError, JobError, UnknownNameError
from groupledger.jobs.serve import api, audit_pages, burrow, deploy_pages, docs_page, events, failover_pages, pages
from groupledger.jobs.serve.answers import Warehouse, problem_answer
from groupledger.jobs.serve.described import DESCRIPTION, OPENAPI, TAGS, Questions
from groupledger.jobs.serve.entrance import Entrance
from groupledger.jobs.serve.error_page import error_page, is_for_people
from groupledger.jobs.serve.guards import Guards
from groupledger.jobs.serve.health import Readiness, lives
from groupledger.jobs.serve.readers import status_and_sentence
from groupledger.jobs.serve.shown import templates
from groupledger.jobs.serve.slots import ANSWERED_AT_ONCE, OF_ONE_ADDRESS, THREADS, Places, Slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from starlette.types import ASGIApp

    from groupledger.jobs.serve.entrance import Proxy
    from groupledger.jobs.serve.oidc import Oidc
    from groupledger.jobs.serve.passwords import Passwords

MCP = "/mcp"


def make_app(
    warehouse: Warehouse,
    hosts: Collection[str],
    passwords: Passwords | None = None,
    proxy: Proxy | None = None,
    *,
    oidc: Oidc | None = None,
    with_mcp: bool = False,
) -> ASGIApp:
    """Returns the application. `hosts` are the host names that it accepts; an empty collection means any. Without
    passwords, proxy and OpenID Connect it does not authenticate users. With `with_mcp` it also serves the Model Context
    Protocol at the path MCP."""
    asked = questions(warehouse, proxy)
    slots = Slots(over_http(asked, MCP) if with_mcp else asked, Places(ANSWERED_AT_ONCE, OF_ONE_ADDRESS, proxy))
    entrance: ASGIApp = slots if passwords is None and proxy is None else Entrance(slots, passwords, proxy)
    if oidc is not None:
        from groupledger.jobs.serve.logins import Logins  # of an extra

        entrance = Logins(slots, oidc, warehouse)
    return Guards(entrance, hosts, {"/livez": lives, "/readyz": Readiness(warehouse)}, [MCP] if with_mcp else [])


def over_http(app: FastAPI, path: str) -> ASGIApp:
    from groupledger.jobs.serve.mcp_server import WithMcp  # of an extra

    return WithMcp(app, path)


def questions(warehouse: Warehouse, proxy: Proxy | None = None) -> FastAPI:
    """Returns the application with all pages and APIs, without guards, entrance and slots. It answers an error with a
    page if a browser asked, in Burrow's form on Burrow's paths, and otherwise as problem details."""
    app = Questions(
        title="groupledger",
        version=version("groupledger"),
        description=DESCRIPTION,
        openapi_tags=TAGS,
        openapi_url=OPENAPI,
        docs_url=None,  # its page loads scripts from elsewhere: `jobs.serve.docs_page` has ours
        redoc_url=None,
        lifespan=_few_threads,
    )
    app.include_router(api.routes(warehouse))
    app.include_router(audit_pages.api_routes(warehouse))
    app.include_router(deploy_pages.api_routes(warehouse))
    app.include_router(failover_pages.api_routes(warehouse))
    app.include_router(events.routes(warehouse, proxy))
    app.include_router(burrow.routes(warehouse))
    app.include_router(docs_page.routes(app))
    app.include_router(pages.routes(warehouse))

    environment = templates()

    async def refused(request: Request, error: Exception) -> Response:
        status, detail = status_and_sentence(in_one_sentence(error), warehouse.place)
        if request.url.path.startswith(burrow.PREFIX):
            return burrow.refused(request, status, detail)
        if is_for_people(request):
            page = await to_thread.run_sync(error_page, environment, warehouse, request, status, detail)
            return HTMLResponse(page, status)
        return problem_answer(status, detail)

    for kind in (Exception, JobError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, refused)
    return app


@asynccontextmanager
async def _few_threads(_app: FastAPI) -> AsyncIterator[None]:
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def in_one_sentence(error: Exception) -> Exception:
    """Returns the framework's error about wrong parameters as an InputError, and its error about the path or method as
    an UnknownNameError, each with one sentence. Returns any other error unchanged."""
    if isinstance(error, RequestValidationError):
        wrong = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        return InputError(f"The question is wrong: {wrong}.")
    if isinstance(error, HTTPException):
        return UnknownNameError("There is nothing at this path: see /docs.")
    return error

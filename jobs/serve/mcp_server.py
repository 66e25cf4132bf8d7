"""Serves the tools (`jobs.serve.tools_of_api`) by the Model Context Protocol with its own SDK. It does so over standard
input and output to a client that started this process, and over HTTP at `/mcp`, with the login, hosts and limits of
`groupledger serve`.

Over HTTP no state is stored between requests: each is answered by one JSON object.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from groupledger.jobs.process.output import json_text
from groupledger.jobs.serve.answers import problem_answer
from groupledger.jobs.serve.slots import THREADS
from groupledger.jobs.serve.tools_of_api import INSTRUCTIONS, call, tools_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.types import ASGIApp, Receive, Scope, Send

BODY_MAX_BYTES = 64 << 10
REQUEST_S = 60.0
READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def mcp_server(app: FastAPI) -> Server[Any]:
    """Returns a server of the protocol, whose tools answer with the operations of `app`."""
    tools = tools_of(app.openapi())

    async def list_tools(_context: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(
                    name=each.name,
                    title=each.title,
                    description=each.description,
                    input_schema=each.arguments,
                    output_schema=each.answer,
                    annotations=READ_ONLY,
                )
                for each in tools.values()
            ]
        )

    async def call_tool(_context: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in tools:
            return result({"detail": f"There is no such tool: there are {', '.join(tools)}."}, is_error=True)
        response = await call(app, tools[params.name], params.arguments or {})
        return result(response.value, is_error=response.status != 200)  # noqa: PLR2004 - OK

    return Server(
        "groupledger",
        version=version("groupledger"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def result(value: Mapping[str, Any], *, is_error: bool) -> CallToolResult:
    """Returns an answer as data, and again as text for clients that support no data. An error is text alone, because
    clients refuse data that does not match the tool's output schema, and then show nothing."""
    return CallToolResult(
        content=[TextContent(type="text", text=json_text(value))],
        structured_content=None if is_error else value,
        is_error=is_error,
    )


def serve_stdio(app: FastAPI) -> None:
    """Serves the tools of `app` on standard input and output until the client closes them."""

    async def run() -> None:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        server = mcp_server(app)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


class WithMcp:
    """Serves the Model Context Protocol at `path`, and passes requests for other paths to `app`."""

    def __init__(self, app: FastAPI, path: str) -> None:
        self.app: ASGIApp = app
        self.path = path
        self._manager = StreamableHTTPSessionManager(
            mcp_server(app), json_response=True, stateless=True, max_request_body_size=BODY_MAX_BYTES
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with self._manager.run():
                await self.app(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == self.path:
            try:
                with anyio.fail_after(REQUEST_S):
                    await self._manager.handle_request(scope, receive, send)
            except TimeoutError:
                await problem_answer(408, "The message did not arrive in time.")(scope, receive, send)
        else:
            await self.app(scope, receive, send)

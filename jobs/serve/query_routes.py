"""Serves to programs the list of the queries that groupledger ships, and the rows of each. Other queries are refused.

A query runs in a process of its own (`jobs.ask.query_client`), with limits on its time, its memory and its rows. At
most AT_ONCE queries run at the same time.
"""

from __future__ import annotations

from dataclasses import asdict
from threading import BoundedSemaphore
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from groupledger.jobs.ask.named_queries import named_queries
from groupledger.jobs.ask.query_client import ask
from groupledger.jobs.process.errors import UnknownNameError
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.serve.answer_models import Queries, QueryRows
from groupledger.jobs.serve.answers import QUESTION_S, Warehouse, json_answer
from groupledger.jobs.serve.cursors import Limit
from groupledger.jobs.serve.described import CLUSTERS, answering
from groupledger.jobs.serve.readers import BusyError

AT_ONCE = 2
MEMORY_MAX_BYTES = 1 << 30
NAMED = {query.name: query for query in named_queries()}
SHOWN = ("name", "summary", "parameters")
Named = Annotated[
    str,
    Path(description="The name of the query.", examples=["rebalances-by-hour"], json_schema_extra={"enum": [*NAMED]}),
]
Given = Annotated[
    list[str] | None,
    Query(description="A parameter of the query, as NAME=VALUE; may be given several times.", examples=[["hours=2"]]),
]


def api_routes(api: APIRouter, warehouse: Warehouse) -> None:
    places = BoundedSemaphore(AT_ONCE)

    @api.get("/queries", summary="The queries that come with groupledger", **answering("queries", CLUSTERS, Queries))
    def queries() -> Response:
        """Each query with what it returns and its parameters. A parameter whose value is null must be given."""
        found = [asdict(query) for query in NAMED.values()]
        return json_answer({"queries": [{name: each[name] for name in SHOWN} for each in found]})

    @api.get("/queries/{query}", summary="The rows of one of these", **answering("query", CLUSTERS, QueryRows))
    def query(query: Named, parameter: Given = None, limit: Limit = 100) -> Response:
        """The rows of one of these queries, over all clusters of the warehouse. Any other query is refused; time and
        memory of a query are limited."""
        found = NAMED.get(name_in(query))
        if found is None:
            raise UnknownNameError(f"There is no such query: ask for one of {', '.join(NAMED)}.")
        arguments = found.arguments(dict(_parted(each) for each in parameter or ()))
        if not places.acquire(blocking=False):
            raise BusyError(f"{AT_ONCE} queries run already: ask again.")
        try:
            answer = ask(
                warehouse.place,
                found.text,
                arguments,
                rows_max=limit + 1,
                timeout_s=QUESTION_S,
                memory_max_bytes=MEMORY_MAX_BYTES,
            )
        finally:
            places.release()
        rows = answer.slice(0, limit).to_pylist()
        return json_answer({"columns": answer.column_names, "rows": rows, "is_cut": answer.num_rows > limit})


def _parted(given: str) -> tuple[str, str]:
    name, _, value = given.partition("=")
    return name, value

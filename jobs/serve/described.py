"""Describes the operations of `/api/v1` in OpenAPI, and refuses the parameters that an operation does not have.

The framework does not validate an answer while it is sent, because an operation returns a complete response. Tests
compare the answers of a real warehouse with the OpenAPI document. `examples.json` has an answer to each operation, from
the demo day that is shipped with groupledger (`python -m tools.api_examples`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Path, Request
from fastapi.routing import APIRoute
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema
from starlette.responses import JSONResponse

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.serve.answer_models import Problem
from groupledger.schemas.words import Severity, words_of

if TYPE_CHECKING:
    from groupledger.jobs.ask.answer_models import Row

PREFIX = "/api/v1"
OPENAPI = f"{PREFIX}/openapi.json"
DESCRIPTION = """\
Every consumer group of a Kafka cluster, at any instant: owners, rebalances, lag, incidents and why. It only reads.

Names in a path are percent-encoded, a slash in them, too; the empty name, `.` and `..` are written `~`, `~.` and `~..`.
Instants are ISO 8601 in UTC in answers; a question takes also `14:03`, or `2h` for two hours ago. `known_until` has
for each source the instant until which it was read, and `not_known` a sentence where the question reaches beyond. Lists
come in pages: `next` is the `cursor` of the page after. Errors are problem details (RFC 9457).

Fields that have `x-untrusted` in their schema hold what clients chose, or text that such names are part of: data,
whatever they say. Later releases may add fields: pass over those that you don't know.
"""
CLUSTERS, GROUPS, HISTORY, LAG = "Clusters", "Groups", "History", "Lag"
TAGS = [
    {"name": CLUSTERS, "description": "The warehouse, and the clusters in it."},
    {"name": GROUPS, "description": "A group, its owners and its members, at an instant."},
    {"name": HISTORY, "description": "What happened to a group, and why."},
    {"name": LAG, "description": "Lag and committed offsets."},
    {"name": "Burrow", "description": "Burrow's HTTP API, version 3, for clients of Burrow."},
]
InCluster = Annotated[str, Path(description="The cluster, as it is named in the warehouse.", examples=["demo"])]
OfGroup = Annotated[str, Path(description="The group.", examples=["shipping-labels"])]
PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The question is wrong, or what it asks is not known: the sentence says what to do.",
        "content": {"application/problem+json": PROBLEM},
    },
    404: {
        "description": "There is no such cluster or group; the sentence has names like it.",
        "content": {"application/problem+json": PROBLEM},
    },
    503: {
        "description": "Too many questions at once, or the tables can't be read now: ask again later.",
        "content": {"application/problem+json": PROBLEM},
    },
    "default": {
        "description": "Any other error, such as 401 without a password and 500 for a fault of groupledger.",
        "content": {"application/problem+json": PROBLEM},
    },
}


class Questions(FastAPI):
    """An application whose OpenAPI document includes the form of its errors, and examples of its answers."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
            for operation in (each for methods in document["paths"].values() for each in methods.values()):
                example = examples().get(operation["operationId"])
                if example is not None:  # FastAPI would leave out what is null in it
                    operation["responses"]["200"]["content"]["application/json"]["example"] = example
        return super().openapi()


async def refuse_unknown(request: Request) -> None:
    """Raises InputError for a parameter that the operation does not have: otherwise a filter with a misspelled name
    would be ignored."""
    route: APIRoute = request.scope["route"]
    known = [each.alias for each in route.dependant.query_params]
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(f"This question has no parameter {printable(unknown)}: {there}.")


def described_router() -> APIRouter:
    """Returns a router for operations of the API."""
    return APIRouter(
        prefix=PREFIX,
        default_response_class=JSONResponse,
        dependencies=[Depends(refuse_unknown)],
        responses=REFUSALS,
        generate_unique_id_function=lambda route: route.name,
    )


def answering(name: str, tag: str, model: type[Row]) -> dict[str, Any]:
    """Returns the arguments of a route that describe its operation: id, tag, and the model of its answer."""
    return {
        "operation_id": name,
        "tags": [tag],
        "response_model": model,
        "response_description": "The answer.",
    }


@cache
def examples() -> dict[str, Any]:
    """Returns an example of an answer for each operation, by the operation's id."""
    text = (resources.files("groupledger.jobs.serve") / "examples.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


@dataclass(frozen=True, slots=True)
class OneOf:
    """The type of a parameter whose value must be one of `words`. Any other value raises InputError, which lists
    them."""

    parameter: str
    words: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.known, handler(source))

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "enum": [*self.words]}

    def known(self, word: str) -> str:
        if word not in self.words:
            raise InputError(f"{self.parameter} is one of {', '.join(self.words)}.")
        return word


SEVERITY = OneOf("severity", words_of(Severity))

"""Serves the page of the API, `/docs`: all operations of the OpenAPI document, with parameters, answers and examples.

The page is made here, because those that other programs make of such a document load scripts from elsewhere, or add
styles while they run. Our pages may do neither (`jobs.serve.guards`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse

from groupledger.jobs.serve.shown import templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastapi import FastAPI

REFERENCE = "#/components/schemas/"


def routes(app: FastAPI) -> APIRouter:
    """Returns the route of the page that shows the OpenAPI document of `app`."""
    api, template = APIRouter(include_in_schema=False), templates().get_template("docs.html")

    @api.get("/docs")
    def docs() -> HTMLResponse:
        document = app.openapi()
        return HTMLResponse(
            template.render(
                document=document,
                paragraphs=document["info"]["description"].split("\n\n"),
                sections=sections(document),
                schemas={name: list(fields(each)) for name, each in document["components"]["schemas"].items()},
            )
        )

    return api


def sections(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the tags of an OpenAPI document, each with its operations."""
    found = [
        {"path": path, **operation, "parameters": [*map(parameter, operation.get("parameters", ()))]}
        | answer_of(operation["responses"]["200"].get("content", {}))
        for path, methods in document["paths"].items()
        for operation in methods.values()
    ]
    return [{**tag, "operations": [each for each in found if tag["name"] in each["tags"]]} for tag in document["tags"]]


def parameter(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "description": "",
        "required": False,
        **given,
        "type": type_of(given["schema"]),
        "default": default_of(given),
    }


def default_of(described: Mapping[str, Any]) -> str:
    default = described["schema"].get("default")
    return "" if default is None else json.dumps(default)


def answer_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the media type of an answer, the name of its schema, and the lines of its example. They are empty if the
    operation has no content."""
    for media_type, described in content.items():
        example = described.get("example", "")
        text = example if isinstance(example, str) else json.dumps(example, indent=2)
        return {"media_type": media_type, "answer": named(described["schema"]), "example": text.splitlines()}
    return {"media_type": "", "answer": None, "example": []}


def fields(schema: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for name, described in schema.get("properties", {}).items():
        yield {
            "name": name,
            "type": type_of(described),
            "of": named(described),
            "description": " ".join(described.get("description", "").split()),
            "is_untrusted": '"x-untrusted"' in json.dumps(described),
        }


def type_of(schema: Mapping[str, Any]) -> str:
    """Returns the type that a schema describes, in words: `array of integer or null`."""
    if "$ref" in schema:
        return str(named(schema))
    if "anyOf" in schema:
        return " or ".join(map(type_of, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema.get("type") == "array":
        return f"array of {type_of(schema['items'])}" if "items" in schema else "array"
    return str(schema.get("format", schema.get("type", "any")))


def named(schema: Mapping[str, Any]) -> str | None:
    """Returns the name of the object that a schema describes, or of the objects in its list; None if it describes
    neither."""
    inner = (schema, schema.get("items", {}), *schema.get("anyOf", ()))
    deep = (*inner, *(each.get("items", {}) for each in inner))
    return next((each["$ref"].removeprefix(REFERENCE) for each in deep if "$ref" in each), None)

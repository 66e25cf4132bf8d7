"""The parts that all requests of OpenTelemetry's protocol have in common, in its JSON form (OTLP/HTTP, version 1).

Whoever takes OTLP takes this form at port 4318: `/v1/metrics` and `/v1/logs`. Its 64-bit integers are texts, its enums
are numbers, and names of clients are values only.

It does without OpenTelemetry's SDK, which is made for instruments that record: a round's thousands of ready samples
would need a callback for each metric, ready histograms have no instrument, and SDK and exporter add a dozen packages,
with Protobuf and requests, for what is one POST here. The receiver of OpenTelemetry's collector (`otlpreceiver` 0.165)
was tried by hand; no test does that, since it takes Go to build one.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NANOSECONDS = 1_000_000
"""Nanoseconds of a millisecond."""


def attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def resource() -> dict[str, Any]:
    return {"attributes": attributes({"service.name": "groupledger", "service.version": version("groupledger")})}


def scope() -> dict[str, Any]:
    return {"name": "groupledger"}


def nanoseconds(at_ms: int) -> str:
    return str(at_ms * NANOSECONDS)

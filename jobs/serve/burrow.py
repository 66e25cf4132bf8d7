"""Serves Burrow's HTTP API, version 3, from the newest sampling round, for clients of Burrow.

Statuses are those of Burrow's rules (`lag.burrow_status`). A group's status leaves out partitions that the group no
longer subscribes to, as all sums of lag do, and partitions without a status, which Burrow would not know. A known group
without commits is returned with its name and without partitions; for a group that has ended or is unknown, the answer
is 404. Burrow holds a window of commits in memory and returns its `start` and its `end`; here both are the newest
commit, because earlier rounds are in the table `lag`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.lag_answers import lag_at
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.process.errors import InputError, UnknownNameError
from groupledger.jobs.process.path_names import name_in
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.serve.answers import Warehouse, json_answer
from groupledger.schemas.words import BurrowStatus, LagFlag
from groupledger.transforms.lag.rules import burrow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.transforms.lag.rules import LagRow


class BurrowRequest(BaseModel):
    url: str
    host: str | None


class BurrowAnswer(BaseModel):
    """The fields that all answers of Burrow have. Each answer adds a field with the requested data."""

    model_config = ConfigDict(extra="allow")

    error: bool
    message: str
    request: BurrowRequest


PREFIX = "/v3/kafka"
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "As Burrow answers.", "model": BurrowAnswer},
    "default": {"description": "An error, in Burrow's form.", "model": BurrowAnswer},
}


def routes(warehouse: Warehouse) -> APIRouter:
    """Returns the routes of Burrow's API. Each cluster of the warehouse is a cluster of Burrow."""
    api = APIRouter(
        prefix=PREFIX,
        default_response_class=JSONResponse,
        tags=["Burrow"],
        responses=RESPONSES,
        generate_unique_id_function=lambda route: f"burrow_{route.name}",
    )

    @api.get("")
    def clusters(request: Request) -> Response:
        return ok(request, "cluster list returned", clusters=warehouse.clusters())

    @api.get("/{cluster}/consumer")
    def consumers(request: Request, cluster: str) -> Response:
        rows = newest(warehouse.rows(cluster), "lag", "group_id")
        return ok(request, "consumer list returned", consumers=sorted({row["group_id"] for row in rows}))

    @api.get("/{cluster}/consumer/{group}")
    def consumer(request: Request, cluster: str, group: str) -> Response:
        topics = partitions_by_topic(rows_of(warehouse, cluster, group))
        return ok(request, "consumer detail returned", topics=topics)

    @api.get("/{cluster}/consumer/{group}/status")
    def status(request: Request, cluster: str, group: str) -> Response:
        found = status_of(name_in(cluster), name_in(group), rows_of(warehouse, cluster, group))
        found["partitions"] = [each for each in found["partitions"] if each["status"] != BurrowStatus.OK]
        return ok(request, "consumer status returned", status=found)

    @api.get("/{cluster}/consumer/{group}/lag")
    def lag(request: Request, cluster: str, group: str) -> Response:
        found = status_of(name_in(cluster), name_in(group), rows_of(warehouse, cluster, group))
        return ok(request, "consumer status returned", status=found)

    @api.get("/{cluster}/topic")
    def topics(request: Request, cluster: str) -> Response:
        rows = newest(warehouse.rows(cluster), "watermarks", "topic")
        return ok(request, "topic list returned", topics=sorted({row["topic"] for row in rows}))

    @api.get("/{cluster}/topic/{topic}")
    def topic(request: Request, cluster: str, topic: str) -> Response:
        return ok(request, "topic offsets returned", offsets=ends_of(warehouse.rows(cluster), name_in(topic)))

    @api.get("/{cluster}/topic/{topic}/consumers")
    def consumers_of(request: Request, cluster: str, topic: str) -> Response:
        rows = newest(warehouse.rows(cluster), "lag", "group_id", filters=[("topic", "=", name_in(topic))])
        return ok(request, "consumers of topic returned", consumers=sorted({row["group_id"] for row in rows}))

    return api


def rows_of(warehouse: Warehouse, cluster: str, group: str) -> list[LagRow]:
    """Returns the group's rows of lag, by partition, in the newest sampling round; an empty list for a group without
    commits. Raises UnknownNameError for a group that has ended, or is unknown."""
    tables, name = warehouse.rows(cluster), name_in(group)
    _, rows = lag_at(tables, name, None)
    if not rows and group_row(tables, name)["is_alive"] is False:
        raise UnknownNameError(f"The group {printable(name)} has ended.")
    return rows


def newest(tables: ClusterRows, table: str, *columns: str, filters: list[Filter] | None = None) -> list[dict[str, Any]]:
    """Returns the rows of `table` in its newest sampling round that match `filters`. Raises InputError if there is no
    round."""
    sampled_at = last_round(tables, table)
    if sampled_at is None:
        raise InputError("No sampling round is computed yet.")
    return tables.rows(table, *of_round(sampled_at), *(filters or ()), columns=columns)


def ends_of(tables: ClusterRows, topic: str) -> list[int | None]:
    """Returns the end offset of each partition of a topic in the newest sampling round, by partition number; None for a
    partition that the round does not have. Raises UnknownNameError for a topic that it does not have."""
    rows = newest(tables, "watermarks", "partition", "high_watermark", filters=[("topic", "=", topic)])
    if not rows:
        raise UnknownNameError("The newest sampling round has no such topic.")
    ends = {row["partition"]: row["high_watermark"] for row in rows}
    return [ends.get(partition) for partition in range(max(ends) + 1)]


def partitions_by_topic(rows: Iterable[LagRow]) -> dict[str, list[dict[str, Any]]]:
    """Returns Burrow's objects for the partitions of each topic, in a list by partition number. `rows` must be in the
    order of their keys. A row with no known end is left out if lower partition numbers before it have no rows: a client
    may commit for partition 2,147,483,647, which the topic does not have."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        partitions = topics.setdefault(row.topic, [])
        if row.high_watermark is None and row.partition > len(partitions):
            continue
        partitions += [absent()] * (row.partition - len(partitions))
        partitions.append(
            {
                "offsets": [] if row.committed_offset is None else [offset_of(row)],
                "owner": (row.client_host or "").lstrip("/"),
                "client_id": row.client_id or "",
                "current-lag": row.lag,
            }
        )
    return topics


def status_of(cluster: str, group_id: str, rows: list[LagRow]) -> dict[str, Any]:
    """Returns Burrow's status object for a group. It has one field that Burrow's does not have,
    `partitions_without_lag`: the number of partitions whose lag is unknown, so that no sum includes them."""
    counted = [row for row in rows if LagFlag.UNSUBSCRIBED not in row.flags]
    partitions: list[dict[str, Any]] = [
        {
            "topic": row.topic,
            "partition": row.partition,
            "owner": (row.client_host or "").lstrip("/"),
            "client_id": row.client_id or "",
            "status": row.burrow_status,
            "start": offset_of(row),
            "end": offset_of(row),
            "current_lag": row.lag,
            "complete": 1.0,
        }
        for row in counted
        if row.committed_offset is not None and row.burrow_status is not None
    ]
    with_lag = [each for each in partitions if each["current_lag"] is not None]
    return {
        "cluster": cluster,
        "group": group_id,
        "status": burrow.group_status(each["status"] for each in partitions),
        "complete": 1.0,
        "partitions": partitions,
        "partition_count": len(partitions),
        "partitions_without_lag": sum(row.lag is None for row in counted),
        "maxlag": max(with_lag, key=lambda each: each["current_lag"], default=None),
        "totallag": sum(each["current_lag"] for each in with_lag),
    }


def offset_of(row: LagRow) -> dict[str, Any]:
    return {
        "offset": row.committed_offset,
        "timestamp": row.commit_timestamp_ms,
        "observedAt": row.sampled_at_ms,
        "lag": row.lag,
    }


def absent() -> dict[str, Any]:
    return {"offsets": [], "owner": "", "client_id": "", "current-lag": 0}


def ok(request: Request, message: str, **content: Any) -> Response:
    return json_answer({"error": False, "message": message, **content, "request": _request_of(request)})


def refused(request: Request, status: int, message: str) -> Response:
    """Returns an error in Burrow's form. It has no field `status`, because clients would take that for the status of a
    group; they recognize an error by the field `error`."""
    return json_answer({"error": True, "message": message, "request": _request_of(request)}, status)


def _request_of(request: Request) -> dict[str, Any]:
    return {"url": request.url.path, "host": request.url.hostname}

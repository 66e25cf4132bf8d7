"""Which answers are refusals, and what the truth tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.apis import API_OF_REQUEST
from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    Response,
    TxnOffsetCommitRequest,
)
from groupledger.coordinator.simulator.truth import Rejection
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.simulator.network import Exchange

# Where an answer has an error for each of several things.
_ROWS: dict[type[Response], str] = {
    LeaveGroupResponse: "members",
    OffsetCommitResponse: "partitions",
    OffsetFetchResponse: "groups",
    OffsetDeleteResponse: "partitions",
    DeleteGroupsResponse: "results",
}
_NOBODY_COORDINATES = (Error.NOT_COORDINATOR, Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE)
_COMMITS = (OffsetCommitRequest, TxnOffsetCommitRequest)


def refusal_error(request: Request, response: Any) -> Error:
    """Why a request was refused; NONE for what is no refusal, as life goes on: see `Rejection`."""
    error: Error = getattr(response, "error", Error.NONE)
    rows = _ROWS.get(type(response))
    if rows is not None and error is Error.NONE:
        error = next((row.error for row in getattr(response, rows) if row.error), Error.NONE)
    is_told_to_rejoin = error is Error.REBALANCE_IN_PROGRESS and not isinstance(request, _COMMITS)
    return Error.NONE if is_told_to_rejoin or error is Error.MEMBER_ID_REQUIRED else error


def rejection(
    exchange: Exchange, error: Error, planted: str | None, generation_of: Callable[[str], int | None]
) -> Rejection:
    """`planted` is the scenario's last step on the group, for clients that nothing befell themselves."""
    request: Any = exchange.request
    offsets = request.offsets if isinstance(request, _COMMITS) else ()
    group_id = group_of(request)
    return Rejection(
        exchange.received_at_ms,
        group_id,
        API_OF_REQUEST[type(request)].name,
        error.name,
        getattr(request, "member_id", ""),
        getattr(request, "group_instance_id", None),
        exchange.client_id,
        getattr(request, "generation_id", None),
        generation_of(group_id),
        tuple((each.topic, each.partition) for each in offsets),
        tuple(each.offset for each in offsets),
        "coordinator_failover" if error in _NOBODY_COORDINATES else exchange.planted or planted or "rebalance",
    )


def group_of(request: Any) -> str:
    """The group that a request is about, or the first of several."""
    if isinstance(request, OffsetFetchRequest):
        return request.groups[0].group_id
    if isinstance(request, DeleteGroupsRequest):
        return request.group_ids[0]
    return str(request.group_id)

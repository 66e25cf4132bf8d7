"""Decides which answers are refusals, and makes the rows of the truth's `rejections`."""

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
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.simulator.network import Exchange

# Responses with an error for each of several things, and the field that holds these.
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
    """Returns the error with which a request was refused. Returns NONE if it was not refused, or if the error belongs
    to normal operation (see `Rejection`)."""
    error: Error = getattr(response, "error", Error.NONE)
    rows = _ROWS.get(type(response))
    if rows is not None and error is Error.NONE:
        error = next((row.error for row in getattr(response, rows) if row.error), Error.NONE)
    must_rejoin = error is Error.REBALANCE_IN_PROGRESS and not isinstance(request, _COMMITS)
    return Error.NONE if must_rejoin or error is Error.MEMBER_ID_REQUIRED else error


def rejection(
    exchange: Exchange, error: Error, planted: str | None, generation_of: Callable[[str], int | None]
) -> Rejection:
    """Returns the row of a refused request. `planted` is the scenario's last action on the group. That action is the
    root cause, unless no broker could answer for the group, or there was an action on the client itself."""
    request: Any = exchange.request
    offsets = request.offsets if isinstance(request, _COMMITS) else ()
    group_id = group_of(request)
    return Rejection(
        requested_at_ms=exchange.received_at_ms,
        group_id=group_id,
        api=API_OF_REQUEST[type(request)].name,
        error=error.name,
        member_id=getattr(request, "member_id", ""),
        group_instance_id=getattr(request, "group_instance_id", None),
        client_id=exchange.client_id,
        claimed_generation=getattr(request, "generation_id", getattr(request, "member_epoch", None)),
        current_generation=generation_of(group_id),
        partitions=tuple(TopicPartition(each.topic, each.partition) for each in offsets),
        offsets=tuple(each.offset for each in offsets),
        root_cause="coordinator_failover"
        if error in _NOBODY_COORDINATES
        else exchange.planted or planted or "rebalance",
    )


def group_of(request: Any) -> str:
    """Returns the id of the group that a request is about, or of the first group if it names several."""
    if isinstance(request, OffsetFetchRequest):
        return request.groups[0].group_id
    if isinstance(request, DeleteGroupsRequest):
        return request.group_ids[0]
    return str(request.group_id)

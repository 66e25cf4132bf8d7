"""Turns rows of the request log back into requests to the reference coordinator.

The log has everything that a coordinator needs except the random UUID that the broker made for a new member. It is in
the response or, where that is missing, in the id with which the client comes back on the same connection.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetToCommit,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from groupledger.schemas.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from groupledger.coordinator.model.messages import GroupRequest
    from groupledger.transforms.incidents.rules.facts import Request

    Body = Mapping[str, Any]

_ID_ON_JOIN_SINCE = 4


def coordinator_request(request: Request, request_id: int, new_member_uuid: str) -> GroupRequest | None:
    """Returns the request for the reference coordinator; None if the API changes no group, or if its body can't be
    read."""
    make = _MAKERS.get(request.api)
    if make is None or request.body is None:
        return None
    try:
        return make(request, json.loads(request.body), request_id, new_member_uuid)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None  # Kafka did not write this body, so that there is no answer to compare with


def new_member_ids(requests: Sequence[Request]) -> dict[int, str]:
    """Returns the ids that brokers gave to new members, by the index of the JoinGroup request that had no id. An id
    comes from the response, or else from the next request with an unknown id on the same connection."""
    found: dict[int, str] = {}
    waiting: dict[tuple[str | None, ...], int] = {}
    known: set[str] = set()
    for number, request in enumerate(requests):
        speaker = (request.connection_id,) if request.connection_id else (request.client_id, request.client_host)
        member_id = request.member_id
        if request.api == ApiKey.JOIN_GROUP.name and not member_id:
            if request.response_member_id:
                found[number] = request.response_member_id
                known.add(request.response_member_id)
            else:
                waiting[speaker] = number
        elif member_id and member_id not in known:
            known.add(member_id)
            joined = waiting.pop(speaker, None)
            if joined is not None and member_id.startswith(_prefix(requests[joined])):
                found[joined] = member_id
    return found


def uuid_in(member_id: str, request: Request) -> str | None:
    """Returns the UUID in a member id; None if the id does not have the form of Kafka's."""
    prefix = _prefix(request)
    return member_id[len(prefix) :] if member_id.startswith(prefix) else None


def _prefix(request: Request) -> str:
    return f"{request.group_instance_id or request.client_id or ''}-"


def first_join(request: Request, request_id: int, new_member_uuid: str) -> GroupRequest | None:
    """Returns the JoinGroup with which a member first asked for an id: in these versions the broker answers such a
    request with MEMBER_ID_REQUIRED and the id. None for a static member, and for other requests."""
    made = coordinator_request(request, request_id, new_member_uuid)
    if not isinstance(made, JoinGroupRequest) or made.group_instance_id is not None:
        return None
    return JoinGroupRequest(
        request_id,
        made.group_id,
        member_id="",
        session_timeout_ms=made.session_timeout_ms,
        rebalance_timeout_ms=made.rebalance_timeout_ms,
        protocol_type=made.protocol_type,
        protocols=made.protocols,
        new_member_uuid=new_member_uuid,
        client_id=made.client_id,
        client_host=made.client_host,
        api_version=max(made.api_version, _ID_ON_JOIN_SINCE),
    )


def _join(request: Request, body: Body, request_id: int, uuid: str) -> GroupRequest:
    return JoinGroupRequest(
        request_id,
        body["groupId"],
        member_id=body["memberId"],
        session_timeout_ms=body["sessionTimeoutMs"],
        rebalance_timeout_ms=body.get("rebalanceTimeoutMs", body["sessionTimeoutMs"]),
        protocol_type=body["protocolType"],
        protocols=tuple((each["name"], b64decode(each["metadata"])) for each in body["protocols"]),
        new_member_uuid=uuid,
        group_instance_id=body.get("groupInstanceId"),
        reason=body.get("reason"),
        client_id=request.client_id or "",
        client_host=f"/{request.client_host}",
        api_version=request.api_version,
    )


def _sync(request: Request, body: Body, request_id: int, _: str) -> GroupRequest:
    assignments = tuple((each["memberId"], b64decode(each["assignment"])) for each in body["assignments"])
    return SyncGroupRequest(
        request_id,
        body["groupId"],
        generation_id=body["generationId"],
        member_id=body["memberId"],
        group_instance_id=body.get("groupInstanceId"),
        protocol_type=body.get("protocolType"),
        protocol_name=body.get("protocolName"),
        assignments=assignments,
        api_version=request.api_version,
    )


def _heartbeat(_: Request, body: Body, request_id: int, __: str) -> GroupRequest:
    instance_id = body.get("groupInstanceId")
    return HeartbeatRequest(
        request_id,
        body["groupId"],
        generation_id=body["generationId"],
        member_id=body["memberId"],
        group_instance_id=instance_id,
    )


def _leave(request: Request, body: Body, request_id: int, _: str) -> GroupRequest:
    leaving = tuple(LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.leaving)
    return LeaveGroupRequest(request_id, body["groupId"], leaving, request.api_version)


def _commit(request: Request, body: Body, request_id: int, _: str) -> GroupRequest:
    return OffsetCommitRequest(
        request_id,
        body["groupId"],
        offsets=_offsets(request),
        generation_id=-1 if request.generation is None else request.generation,
        member_id=request.member_id or "",
        group_instance_id=request.group_instance_id,
        api_version=request.api_version,
    )


def _txn_commit(request: Request, body: Body, request_id: int, _: str) -> GroupRequest:
    return TxnOffsetCommitRequest(
        request_id,
        body["groupId"],
        producer_id=body["producerId"],
        producer_epoch=body["producerEpoch"],
        offsets=_offsets(request),
        generation_id=-1 if request.generation is None else request.generation,
        member_id=request.member_id or "",
        group_instance_id=request.group_instance_id,
        api_version=request.api_version,
    )


def _offsets(request: Request) -> tuple[OffsetToCommit, ...]:
    return tuple(
        OffsetToCommit(topic=each.topic, partition=each.partition, offset=each.offset) for each in request.offsets
    )


_MAKERS: dict[str, Callable[[Request, Body, int, str], GroupRequest]] = {
    ApiKey.JOIN_GROUP.name: _join,
    ApiKey.SYNC_GROUP.name: _sync,
    ApiKey.HEARTBEAT.name: _heartbeat,
    ApiKey.LEAVE_GROUP.name: _leave,
    ApiKey.OFFSET_COMMIT.name: _commit,
    ApiKey.TXN_OFFSET_COMMIT.name: _txn_commit,
}

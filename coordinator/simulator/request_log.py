"""The lines of a 4.2 broker's request log about group APIs: `kafka.request.logger` at DEBUG, JSON since KIP-673.

A line is written when the answer has been sent, also to a client that has hung up. Fields are those of Kafka's JSON
converters in their order, for the API versions of a 4.2 client; bytes are base64. Virtual time knows whole
milliseconds: of a request's total, all but a constant third of one is the time for which it was parked.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.simulator.network import Exchange

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_COMMITS_BY_TOPIC_ID_SINCE = 10
_THROTTLE: dict[str, Any] = {"throttleTimeMs": 0}


def render_line(exchange: Exchange) -> str:
    """One line without its line end, the time in UTC."""
    moment = _EPOCH + timedelta(milliseconds=exchange.sent_at_ms)
    body = json.dumps(_body(exchange), separators=(",", ":"), ensure_ascii=False)
    return (
        f"[{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}] DEBUG Completed request:{body}"
        " (kafka.request.logger)"
    )


def _body(exchange: Exchange) -> dict[str, Any]:
    request = exchange.request
    api_key, name, version, fields_of_request, fields_of_response = _APIS[type(request)]
    parked_ms = exchange.sent_at_ms - exchange.received_at_ms
    host = exchange.client_host.removeprefix("/")
    return {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": api_key,
            "requestApiVersion": getattr(request, "api_version", version),
            "correlationId": request.request_id & 0x7FFFFFFF,
            "clientId": exchange.client_id,
            "requestApiKeyName": name,
        },
        "request": fields_of_request(request),
        "response": fields_of_response(exchange.response, request),
        "connection": f"10.0.1.{exchange.broker_id}:9092-{host}:{32768 + exchange.connection_id % 28000}"
        f"-{exchange.broker_id}-{exchange.connection_id}",
        "totalTimeMs": parked_ms + 0.375,
        "requestQueueTimeMs": 0.0625,
        "localTimeMs": 0.125,
        "remoteTimeMs": float(parked_ms),
        "throttleTimeMs": 0,
        "responseQueueTimeMs": 0.0625,
        "sendTimeMs": 0.125,
        "securityProtocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "listener": "PLAINTEXT",
        "clientInformation": {"softwareName": "apache-kafka-java", "softwareVersion": "4.2.0"},
    }


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _by_topic(rows: Iterable[Any], partition_fields: Callable[[Any], Any], name: str = "partitions") -> list[Any]:
    """Rows with a topic and a partition, gathered by topic in the order of the topics' first rows."""
    topics: dict[str, list[Any]] = {}
    for row in rows:
        topics.setdefault(row.topic, []).append(partition_fields(row))
    return [{"name": topic, name: partitions} for topic, partitions in topics.items()]


def _error(response: Any, _: Request) -> dict[str, Any]:
    return {**_THROTTLE, "errorCode": int(response.error)}


# Membership


def _join(request: JoinGroupRequest) -> dict[str, Any]:
    return {
        "groupId": request.group_id,
        "sessionTimeoutMs": request.session_timeout_ms,
        "rebalanceTimeoutMs": request.rebalance_timeout_ms,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
        "protocolType": request.protocol_type,
        "protocols": [{"name": name, "metadata": _base64(metadata)} for name, metadata in request.protocols],
        "reason": request.reason,
    }


def _joined(response: Any, _: Request) -> dict[str, Any]:
    return {
        **_THROTTLE,
        "errorCode": int(response.error),
        "generationId": response.generation_id,
        "protocolType": response.protocol_type,
        "protocolName": response.protocol_name,
        "leader": response.leader,
        "skipAssignment": response.skip_assignment,
        "memberId": response.member_id,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "metadata": _base64(member.metadata),
            }
            for member in response.members
        ],
    }


def _sync(request: SyncGroupRequest) -> dict[str, Any]:
    return {
        "groupId": request.group_id,
        "generationId": request.generation_id,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
        "protocolType": request.protocol_type,
        "protocolName": request.protocol_name,
        "assignments": [
            {"memberId": member_id, "assignment": _base64(assignment)} for member_id, assignment in request.assignments
        ],
    }


def _synced(response: Any, _: Request) -> dict[str, Any]:
    return {
        **_THROTTLE,
        "errorCode": int(response.error),
        "protocolType": response.protocol_type,
        "protocolName": response.protocol_name,
        "assignment": _base64(response.assignment),
    }


def _heartbeat(request: HeartbeatRequest) -> dict[str, Any]:
    return {
        "groupId": request.group_id,
        "generationId": request.generation_id,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
    }


def _leave(request: LeaveGroupRequest) -> dict[str, Any]:
    members = [
        {"memberId": member.member_id, "groupInstanceId": member.group_instance_id, "reason": member.reason}
        for member in request.members
    ]
    return {"groupId": request.group_id, "members": members}


def _left(response: Any, _: Request) -> dict[str, Any]:
    members = [
        {
            "memberId": member.member_id,
            "groupInstanceId": member.group_instance_id,
            "errorCode": int(member.error),
        }
        for member in response.members
    ]
    return {**_THROTTLE, "errorCode": int(response.error), "members": members}


# Offsets


def _commit(request: OffsetCommitRequest) -> dict[str, Any]:
    return {
        "groupId": request.group_id,
        "generationIdOrMemberEpoch": request.generation_id,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
        "topics": _committed_topics(request),
    }


def _txn_commit(request: TxnOffsetCommitRequest) -> dict[str, Any]:
    return {
        "transactionalId": f"transaction-{request.producer_id}",
        "groupId": request.group_id,
        "producerId": request.producer_id,
        "producerEpoch": request.producer_epoch,
        "generationId": request.generation_id,
        "memberId": request.member_id,
        "groupInstanceId": request.group_instance_id,
        "topics": _committed_topics(request),
    }


def _committed_topics(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> list[Any]:
    topics = _by_topic(
        request.offsets,
        lambda offset: {
            "partitionIndex": offset.partition,
            "committedOffset": offset.offset,
            "committedLeaderEpoch": offset.leader_epoch,
            "committedMetadata": offset.metadata,
        },
    )
    return _with_topic_ids(request, topics)


def _commit_answered(response: Any, request: Any) -> dict[str, Any]:
    topics = _by_topic(
        response.partitions, lambda each: {"partitionIndex": each.partition, "errorCode": int(each.error)}
    )
    return {**_THROTTLE, "topics": _with_topic_ids(request, topics)}


def _with_topic_ids(request: OffsetCommitRequest | TxnOffsetCommitRequest, topics: list[Any]) -> list[Any]:
    """Since API 10 an OffsetCommit names topics by their ids alone."""
    if isinstance(request, TxnOffsetCommitRequest) or request.api_version < _COMMITS_BY_TOPIC_ID_SINCE:
        return topics
    topic_ids = {offset.topic: offset.topic_id for offset in request.offsets}
    return [{"topicId": topic_ids[topic["name"]], "partitions": topic["partitions"]} for topic in topics]


class _Place:
    """A topic and partition with attributes, for requests that have bare pairs."""

    __slots__ = ("partition", "topic")

    def __init__(self, place: tuple[str, int]) -> None:
        self.topic, self.partition = place


def _fetch(request: OffsetFetchRequest) -> dict[str, Any]:
    groups = [
        {
            "groupId": group.group_id,
            "memberId": None,
            "memberEpoch": -1,
            "topics": None
            if group.partitions is None
            else _by_topic(map(_Place, group.partitions), lambda each: each.partition, "partitionIndexes"),
        }
        for group in request.groups
    ]
    return {"groups": groups, "requireStable": request.require_stable}


def _fetched(response: Any, _: Request) -> dict[str, Any]:
    groups = [
        {
            "groupId": group.group_id,
            "topics": _by_topic(
                group.partitions,
                lambda each: {
                    "partitionIndex": each.partition,
                    "committedOffset": each.offset,
                    "committedLeaderEpoch": each.leader_epoch,
                    "metadata": each.metadata,
                    "errorCode": int(each.error),
                },
            ),
            "errorCode": int(group.error),
        }
        for group in response.groups
    ]
    return {**_THROTTLE, "groups": groups}


def _delete_offsets(request: OffsetDeleteRequest) -> dict[str, Any]:
    topics = _by_topic(map(_Place, request.partitions), lambda each: {"partitionIndex": each.partition})
    return {"groupId": request.group_id, "topics": topics}


def _offsets_deleted(response: Any, _: Request) -> dict[str, Any]:
    topics = _by_topic(
        response.partitions, lambda each: {"partitionIndex": each.partition, "errorCode": int(each.error)}
    )
    return {"errorCode": int(response.error), **_THROTTLE, "topics": topics}


def _delete_groups(request: DeleteGroupsRequest) -> dict[str, Any]:
    return {"groupsNames": [*request.group_ids]}


def _groups_deleted(response: Any, _: Request) -> dict[str, Any]:
    results = [{"groupId": each.group_id, "errorCode": int(each.error)} for each in response.results]
    return {**_THROTTLE, "results": results}


_Fields = tuple[int, str, int, "Callable[[Any], dict[str, Any]]", "Callable[[Any, Any], dict[str, Any]]"]
_APIS: dict[type[Request], _Fields] = {
    OffsetCommitRequest: (8, "OFFSET_COMMIT", 9, _commit, _commit_answered),
    OffsetFetchRequest: (9, "OFFSET_FETCH", 9, _fetch, _fetched),
    JoinGroupRequest: (11, "JOIN_GROUP", 9, _join, _joined),
    HeartbeatRequest: (12, "HEARTBEAT", 4, _heartbeat, _error),
    LeaveGroupRequest: (13, "LEAVE_GROUP", 5, _leave, _left),
    SyncGroupRequest: (14, "SYNC_GROUP", 5, _sync, _synced),
    TxnOffsetCommitRequest: (28, "TXN_OFFSET_COMMIT", 5, _txn_commit, _commit_answered),
    DeleteGroupsRequest: (42, "DELETE_GROUPS", 2, _delete_groups, _groups_deleted),
    OffsetDeleteRequest: (47, "OFFSET_DELETE", 0, _delete_offsets, _offsets_deleted),
}

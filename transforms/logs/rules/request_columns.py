"""Reads groups, members and partitions from the request body and the response body, as columns of `requests`.

The fields are those of `schemas.kafka.request_fields`, in all versions that brokers from 2.8 to 4.x write. A value of
another type than Kafka's raises `Damage`, because the line was cut or altered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka import request_fields as names
from groupledger.schemas.kafka.api_keys import FETCH_APIS, ApiKey
from groupledger.schemas.kafka.errors import error_name
from groupledger.schemas.kafka.names import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator

Node = dict[str, Any]
_INT_BITS, _LONG_BITS = 31, 63


class Damage(ValueError):  # noqa: N818 - a state of the line, in the words of the quarantine
    """Says that a line is damaged, because it lacks something that brokers always write. The text says what."""


def as_node(value: Any, name: str) -> Node:
    if not isinstance(value, dict):
        raise Damage(f"{name} is no object")
    return value


def list_of(node: Node, name: str) -> list[Any]:
    """Returns the elements of the list in a field; an empty list if the field is absent or null."""
    value = node.get(name)
    if value is not None and not isinstance(value, list):
        raise Damage(f"{name} is no list")
    return value or []


def nodes_of(node: Node, name: str) -> list[Node]:
    return [as_node(each, f"an element of {name}") for each in list_of(node, name)]


def text_of(node: Node, name: str) -> str | None:
    value = node.get(name)
    if value is not None and not isinstance(value, str):
        raise Damage(f"{name} is no text")
    return value


def int_of(node: Node, name: str, bits: int = _INT_BITS) -> int | None:
    value = node.get(name)
    if value is None:
        return None
    if type(value) is not int or not -(1 << bits) <= value < 1 << bits:
        raise Damage(f"{name} is no integer of Kafka's")
    return value


def _error_code(node: Node | None) -> int | None:
    return None if node is None else int_of(node, names.ERROR_CODE)


def error_columns(code: int | None) -> Node:
    return {"error_code": code, "error": error_name(code)}


def columns_of(api_key: int, request: Node, response: Node | None) -> Node | None:
    """Returns the columns of `requests` that come from the two bodies. None if the request concerns no group, and is no
    fetch that was throttled."""
    answer = response or {}
    throttle_time_ms = int_of(answer, names.THROTTLE_TIME_MS)
    groups = groups_of(api_key, request, response)
    if not (throttle_time_ms if api_key in FETCH_APIS else groups):
        return None
    members = leaving_members(request, response) if api_key == ApiKey.LEAVE_GROUP else None
    partitions = list(partitions_of(api_key, request, response))
    only_member = members[0] if members is not None and len(members) == 1 else None
    group_id = groups[0]["group_id"] if len(groups) == 1 else None
    reason = only_member["reason"] if only_member else text_of(request, names.REASON)
    return {
        **_first_error(response, groups, members or [], partitions),
        "group_id": group_id,
        "groups": groups,
        "member_id": only_member["member_id"] if only_member else _member_id(request, groups),
        "members": members,
        "group_instance_id": _instance_id(only_member or request),
        "generation": _first_int(request, names.GENERATIONS, _only(groups, "member_epoch")),
        "response_member_id": text_of(answer, names.MEMBER_ID),
        "response_generation": _first_int(answer, names.GENERATIONS, None),
        "reason": reason,
        "throttle_time_ms": throttle_time_ms,
        "partitions": partitions or None,
    }


def _only(groups: list[Node], name: str) -> Any:
    return groups[0][name] if len(groups) == 1 else None


def _member_id(request: Node, groups: list[Node]) -> str | None:
    member_id = text_of(request, names.MEMBER_ID)
    return _only(groups, "member_id") if member_id is None else member_id


def _instance_id(node: Node) -> str | None:
    for name in ("group_instance_id", names.GROUP_INSTANCE_ID, names.INSTANCE_ID):
        if node.get(name) is not None:
            return text_of(node, name)
    return None


def _first_int(node: Node, names: tuple[str, ...], otherwise: int | None) -> int | None:
    return next((int_of(node, name) for name in names if node.get(name) is not None), otherwise)


def _first_error(response: Node | None, groups: list[Node], members: list[Node], partitions: list[Node]) -> Node:
    if response is None:
        return {**error_columns(None), "error_scope": None}
    own = [{"error_code": _error_code(response)}]
    for scope, parts in (("request", own), ("group", groups), ("member", members), ("partition", partitions)):
        code = next((part["error_code"] for part in parts if part["error_code"]), None)
        if code is not None:
            return {**error_columns(code), "error_scope": scope}
    return {**error_columns(0), "error_scope": None}


# Groups


def groups_of(api_key: int, request: Node, response: Node | None) -> list[Node]:
    """Returns the elements of `groups`, in the order of the request."""
    if api_key == ApiKey.FIND_COORDINATOR:
        if request.get(names.KEY_TYPE, names.KEY_TYPE_OF_GROUPS) != names.KEY_TYPE_OF_GROUPS:
            return []
        keys = list_of(request, names.KEYS) or [request.get(names.KEY)]
        return _with_errors(keys, response, names.COORDINATORS, names.KEY)
    if names.GROUP_ID in request:
        only = _group(text_of(request, names.GROUP_ID), None, None)
        return [{**only, **error_columns(_error_code(response))}]
    for name, answers in names.GROUP_LISTS:
        if name in request:
            return _with_errors(list_of(request, name), response, answers, names.GROUP_ID)
    return []


def _with_errors(requested: list[Any], response: Node | None, answers: str, key: str) -> list[Node]:
    codes: dict[Any, int | None] = {}
    if response is not None:
        codes = {text_of(each, key): _error_code(each) for each in nodes_of(response, answers)}
    found = []
    for each in requested:
        node = each if isinstance(each, dict) else {names.GROUP_ID: each}
        group = _group(text_of(node, names.GROUP_ID), text_of(node, names.MEMBER_ID), int_of(node, names.MEMBER_EPOCH))
        # FindCoordinator answered for one key only, in its own fields, up to version 3.
        code = codes.get(group["group_id"], _error_code(response))
        found.append({**group, **error_columns(code)})
    return found


def _group(group_id: str | None, member_id: str | None, member_epoch: int | None) -> Node:
    return {"group_id": group_id, "member_id": member_id, "member_epoch": member_epoch}


# Members


def leaving_members(request: Node, response: Node | None) -> list[Node]:
    """Returns the elements of the column `members` for a LeaveGroup request. Up to version 2 there is one member, in
    the request's own fields."""
    if names.MEMBERS not in request:
        member_id, error = text_of(request, names.MEMBER_ID), error_columns(_error_code(response))
        return [{"member_id": member_id, "group_instance_id": None, "reason": None, **error}]
    answered = [] if response is None else nodes_of(response, names.MEMBERS)
    codes = {_identity(each): _error_code(each) for each in answered}
    return [
        {
            "member_id": text_of(each, names.MEMBER_ID),
            "group_instance_id": text_of(each, names.GROUP_INSTANCE_ID),
            "reason": text_of(each, names.REASON),
            **error_columns(codes.get(_identity(each))),
        }
        for each in nodes_of(request, names.MEMBERS)
    ]


def _identity(member: Node) -> tuple[str | None, str | None]:
    return text_of(member, names.MEMBER_ID), text_of(member, names.GROUP_INSTANCE_ID)


# Partitions


def partitions_of(api_key: int, request: Node, response: Node | None) -> Iterator[Node]:
    """Yields the elements of `partitions`: each requested partition with its part of the response."""
    if api_key in {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE}:
        group_id = text_of(request, names.GROUP_ID)
        codes = {place: _error_code(node) for place, node in _places(response or {})}
        for place, node in _places(request):
            yield _partition(group_id, place, node, codes.get(place))
    elif api_key == ApiKey.SHARE_ACKNOWLEDGE:
        group_id = text_of(request, names.GROUP_ID)
        codes = {place: _error_code(node) for place, node in _places(response or {}, names.RESPONSES)}
        for place, node in _places(request):
            yield _partition(group_id, place, node, codes.get(place))
    elif api_key == ApiKey.OFFSET_FETCH:
        yield from _fetched(request, response)


def _fetched(request: Node, response: Node | None) -> Iterator[Node]:
    """Yields the partitions of an OffsetFetch: since version 8 they are in a list of groups, before in the bodies."""
    asked = nodes_of(request, names.GROUPS) if names.GROUPS in request else [request]
    if response is None:
        for group in asked:
            for topic in nodes_of(group, names.TOPICS):
                for index in list_of(topic, names.PARTITION_INDEXES):
                    place = (*_topic(topic), int_of({names.PARTITION_INDEXES: index}, names.PARTITION_INDEXES))
                    yield _partition(text_of(group, names.GROUP_ID), place, {}, None)
        return
    only = {**response, names.GROUP_ID: request.get(names.GROUP_ID)}
    answered = nodes_of(response, names.GROUPS) if names.GROUPS in response else [only]
    for group in answered:
        for place, node in _places(group):
            yield _partition(text_of(group, names.GROUP_ID), place, node, _error_code(node))


Place = tuple["str | None", "str | None", "int | None"]


def _places(body: Node, topics: str = names.TOPICS) -> Iterator[tuple[Place, Node]]:
    for topic in nodes_of(body, topics):
        name, topic_id = _topic(topic)
        for node in nodes_of(topic, names.PARTITIONS):
            yield (name, topic_id, int_of(node, names.PARTITION_INDEX)), node


def _topic(topic: Node) -> tuple[str | None, str | None]:
    """Returns name and id; a version that names topics in one way prints nothing, or an empty value, for the other."""
    topic_id = text_of(topic, names.TOPIC_ID)
    return text_of(topic, names.TOPIC_NAME) or None, None if topic_id == ZERO_UUID else topic_id


def _partition(group_id: str | None, place: Place, node: Node, code: int | None) -> Node:
    topic, topic_id, partition = place
    return {
        "group_id": group_id,
        "topic": topic,
        "topic_id": topic_id,
        "partition": partition,
        "committed_offset": int_of(node, names.COMMITTED_OFFSET, _LONG_BITS),
        "leader_epoch": int_of(node, names.COMMITTED_LEADER_EPOCH),
        **error_columns(code),
    }


def topic_names(response: Node) -> dict[str, str]:
    """Returns the topics' names by id, out of an answer to Metadata."""
    found = {}
    for topic in nodes_of(response, names.TOPICS):
        topic_id, name = text_of(topic, names.TOPIC_ID), text_of(topic, names.TOPIC_NAME)
        if name and topic_id and topic_id != ZERO_UUID and not _error_code(topic):
            found[topic_id] = name
    return found

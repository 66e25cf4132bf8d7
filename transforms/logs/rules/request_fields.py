"""What the JSON of each API says about groups, members and partitions.

Field names are those of Kafka's JSON message definitions, over all versions that a broker of 2.8 to 4.x writes: fields
that a version lacks are absent, and OffsetCommit's `generationIdOrMemberEpoch` was `generationId` up to 3.4. Values of
another type than Kafka's are `Damage`: the line was cut or altered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import error_name
from groupledger.schemas.kafka.names import ZERO_UUID

if TYPE_CHECKING:
    from collections.abc import Iterator

Node = dict[str, Any]

COORDINATOR_OF_GROUP = 0

_INT_BITS, _LONG_BITS = 31, 63
_GENERATIONS = ("generationIdOrMemberEpoch", "generationId", "memberEpoch")


class Damage(ValueError):  # noqa: N818 - a state of the line, in the words of the quarantine
    """The line does not hold what a broker writes; the text says where."""


def as_node(value: Any, name: str) -> Node:
    if not isinstance(value, dict):
        raise Damage(f"{name} is no object")
    return value


def list_of(node: Node, name: str) -> list[Any]:
    """Empty where absent or null."""
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


def error_columns(code: int | None) -> Node:
    return {"error_code": code, "error": error_name(code)}


def columns_of(api_key: int, request: Node, response: Node | None) -> Node | None:
    """The columns of `requests` that come from the two bodies; None if the request is about no group."""
    answer = response or {}
    groups = groups_of(api_key, request, response)
    if not groups:
        return None
    members = leaving_members(request, response) if api_key == ApiKey.LEAVE_GROUP else None
    partitions = list(partitions_of(api_key, request, response))
    only_member = members[0] if members is not None and len(members) == 1 else None
    group_id = groups[0]["group_id"] if len(groups) == 1 else None
    reason = only_member["reason"] if only_member else text_of(request, "reason")
    return {
        **_first_error(response, groups, members or [], partitions),
        "group_id": group_id,
        "groups": groups,
        "member_id": only_member["member_id"] if only_member else _member_id(request, groups),
        "members": members,
        "group_instance_id": _instance_id(only_member or request),
        "generation": _first_int(request, _GENERATIONS, _only(groups, "member_epoch")),
        "response_member_id": text_of(answer, "memberId"),
        "response_generation": _first_int(answer, _GENERATIONS, None),
        "reason": reason,
        "partitions": partitions or None,
    }


def _only(groups: list[Node], name: str) -> Any:
    return groups[0][name] if len(groups) == 1 else None


def _member_id(request: Node, groups: list[Node]) -> str | None:
    member_id = text_of(request, "memberId")
    return _only(groups, "member_id") if member_id is None else member_id


def _instance_id(node: Node) -> str | None:
    for name in ("group_instance_id", "groupInstanceId", "instanceId"):
        if node.get(name) is not None:
            return text_of(node, name)
    return None


def _first_int(node: Node, names: tuple[str, ...], otherwise: int | None) -> int | None:
    return next((int_of(node, name) for name in names if node.get(name) is not None), otherwise)


def _first_error(response: Node | None, groups: list[Node], members: list[Node], partitions: list[Node]) -> Node:
    if response is None:
        return {**error_columns(None), "error_scope": None}
    own = [{"error_code": int_of(response, "errorCode")}]
    for scope, parts in (("request", own), ("group", groups), ("member", members), ("partition", partitions)):
        code = next((part["error_code"] for part in parts if part["error_code"]), None)
        if code is not None:
            return {**error_columns(code), "error_scope": scope}
    return {**error_columns(0), "error_scope": None}


# Groups


def groups_of(api_key: int, request: Node, response: Node | None) -> list[Node]:
    """Elements of `groups`, in the order of the request."""
    if api_key == ApiKey.FIND_COORDINATOR:
        if request.get("keyType", COORDINATOR_OF_GROUP) != COORDINATOR_OF_GROUP:
            return []
        keys = list_of(request, "coordinatorKeys") or [request.get("key")]
        return _with_errors(keys, response, "coordinators", "key")
    if "groupId" in request:
        only = _group(text_of(request, "groupId"), None, None)
        code = int_of(response, "errorCode") if response is not None else None
        return [{**only, **error_columns(code)}]
    for name, answers in (("groupsNames", "results"), ("groupIds", "groups"), ("groups", "groups")):
        if name in request:
            return _with_errors(list_of(request, name), response, answers, "groupId")
    return []


def _with_errors(requested: list[Any], response: Node | None, answers: str, key: str) -> list[Node]:
    codes: dict[Any, int | None] = {}
    if response is not None:
        codes = {text_of(each, key): int_of(each, "errorCode") for each in nodes_of(response, answers)}
    found = []
    for each in requested:
        node = each if isinstance(each, dict) else {"groupId": each}
        group = _group(text_of(node, "groupId"), text_of(node, "memberId"), int_of(node, "memberEpoch"))
        # FindCoordinator answered for one key only, in its own fields, up to version 3.
        code = codes.get(group["group_id"], None if response is None else int_of(response, "errorCode"))
        found.append({**group, **error_columns(code)})
    return found


def _group(group_id: str | None, member_id: str | None, member_epoch: int | None) -> Node:
    return {"group_id": group_id, "member_id": member_id, "member_epoch": member_epoch}


# Members


def leaving_members(request: Node, response: Node | None) -> list[Node]:
    """Up to version 2 there is one, in the request's own fields."""
    if "members" not in request:
        code = None if response is None else int_of(response, "errorCode")
        member_id = text_of(request, "memberId")
        return [{"member_id": member_id, "group_instance_id": None, "reason": None, **error_columns(code)}]
    answered = [] if response is None else nodes_of(response, "members")
    codes = {_identity(each): int_of(each, "errorCode") for each in answered}
    return [
        {
            "member_id": text_of(each, "memberId"),
            "group_instance_id": text_of(each, "groupInstanceId"),
            "reason": text_of(each, "reason"),
            **error_columns(codes.get(_identity(each))),
        }
        for each in nodes_of(request, "members")
    ]


def _identity(member: Node) -> tuple[str | None, str | None]:
    return text_of(member, "memberId"), text_of(member, "groupInstanceId")


# Partitions


def partitions_of(api_key: int, request: Node, response: Node | None) -> Iterator[Node]:
    """Elements of `partitions`: what was asked for, with what the answer says of it."""
    if api_key in {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE}:
        group_id = text_of(request, "groupId")
        codes = {place: int_of(node, "errorCode") for place, node in _places(response or {}, "partitions")}
        for place, node in _places(request, "partitions"):
            yield _partition(group_id, place, node, codes.get(place))
    elif api_key == ApiKey.OFFSET_FETCH:
        yield from _fetched(request, response)


def _fetched(request: Node, response: Node | None) -> Iterator[Node]:
    """Since version 8 an element for each group, before that all in the bodies' own fields."""
    asked = nodes_of(request, "groups") if "groups" in request else [request]
    if response is None:
        for group in asked:
            for topic in nodes_of(group, "topics"):
                for index in list_of(topic, "partitionIndexes"):
                    place = (*_topic(topic), int_of({"partitionIndexes": index}, "partitionIndexes"))
                    yield _partition(text_of(group, "groupId"), place, {}, None)
        return
    answered = (
        nodes_of(response, "groups") if "groups" in response else [{**response, "groupId": request.get("groupId")}]
    )
    for group in answered:
        for place, node in _places(group, "partitions"):
            yield _partition(text_of(group, "groupId"), place, node, int_of(node, "errorCode"))


Place = tuple["str | None", "str | None", "int | None"]


def _places(body: Node, partitions: str) -> Iterator[tuple[Place, Node]]:
    for topic in nodes_of(body, "topics"):
        name, topic_id = _topic(topic)
        for node in nodes_of(topic, partitions):
            yield (name, topic_id, int_of(node, "partitionIndex")), node


def _topic(topic: Node) -> tuple[str | None, str | None]:
    """Name and id; a version that names topics one way prints nothing, or the empty one, for the other."""
    topic_id = text_of(topic, "topicId")
    return text_of(topic, "name") or None, None if topic_id == ZERO_UUID else topic_id


def _partition(group_id: str | None, place: Place, node: Node, code: int | None) -> Node:
    topic, topic_id, partition = place
    return {
        "group_id": group_id,
        "topic": topic,
        "topic_id": topic_id,
        "partition": partition,
        "committed_offset": int_of(node, "committedOffset", _LONG_BITS),
        "leader_epoch": int_of(node, "committedLeaderEpoch"),
        **error_columns(code),
    }


def topic_names(response: Node) -> dict[str, str]:
    """Of a Metadata answer: names by topic id."""
    found = {}
    for topic in nodes_of(response, "topics"):
        topic_id, name = text_of(topic, "topicId"), text_of(topic, "name")
        if name and topic_id and topic_id != ZERO_UUID and not int_of(topic, "errorCode"):
            found[topic_id] = name
    return found

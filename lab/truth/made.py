"""Makes facts by hand, about a group `g`. Its member `m-1`, at /10.0.0.1, was in generation 3; the present generation
is 4."""

from __future__ import annotations

from typing import Any

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.transforms.incidents.rules import Commit, CoordinatorEvent, GroupFacts, Request, Rules
from groupledger.transforms.incidents.rules.facts import LeavingMember, RefusedOffset

RULES = Rules()
T = 1_000_000_000
"""When things begin, in milliseconds."""
WITH_GENERATION = (ApiKey.HEARTBEAT.name, ApiKey.OFFSET_COMMIT.name, ApiKey.SYNC_GROUP.name)


def request(api: str, error_code: int | None, at_ms: int, member_id: str | None = "m-1", **fields: Any) -> Request:
    offsets = tuple(
        RefusedOffset("orders", partition, offset, error_code) for partition, offset in fields.pop("offsets", ())
    )
    leaving = tuple(
        LeavingMember(member_id or "", fields.get("group_instance_id"), reason, error_code)
        for reason in fields.pop("reasons", ())
    )
    defaults: dict[str, Any] = {
        "source_file": "requests.log",
        "line_number": at_ms - T,
        "api_version": 9,
        "group_instance_id": None,
        "generation": 3 if api in WITH_GENERATION else None,
        "response_member_id": None,
        "response_generation": None,
        "client_id": "client",
        "client_host": "10.0.0.1",
        "connection_id": "c1",
    }
    return Request(
        happened_at_us=at_ms * 1_000,
        logged_at_ms=at_ms,
        api=api,
        error_code=error_code,
        member_id=member_id,
        offsets=offsets,
        leaving=leaving,
        **defaults | fields,
    )


def event(kind: str, at_ms: int, member_id: str | None = None, **fields: Any) -> CoordinatorEvent:
    defaults = {"generation": None, "client_reason": None, "trigger": None}
    return CoordinatorEvent(
        source_file="server.log",
        line_number=at_ms - T,
        logged_at_ms=at_ms,
        kind=kind,
        member_id=member_id,
        **defaults | fields,
    )


def commit(offset: int, at_ms: int, kafka_offset: int, partition: int = 0) -> Commit:
    return Commit(
        kafka_partition=7,
        kafka_offset=kafka_offset,
        at_ms=at_ms,
        topic="orders",
        partition=partition,
        offset=offset,
    )


def tenure(member_id: str, from_offset: int, to_offset: int | None, **fields: Any) -> dict[str, Any]:
    """Returns a row of `members`. Its times are its offsets, taken as seconds after `T`."""
    return {
        "group_id": "g",
        "incarnation": 1,
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "/10.0.0.1",
        "from_generation": 1,
        "to_generation": None if to_offset is None else 3,
        "from_offset": from_offset,
        "to_offset": to_offset,
        "joined_at": (T + from_offset * 1_000) * 1_000,
        "left_at": None if to_offset is None else (T + to_offset * 1_000) * 1_000,
        "is_start_known": True,
        "is_end_known": None if to_offset is None else True,
        "leave_cause": None,
        "leave_cause_confidence": None,
        **fields,
    }


def generation(number: int, kafka_offset: int, to_offset: int | None, **fields: Any) -> dict[str, Any]:
    """Returns a row of `generations` that begins `kafka_offset` seconds after `T` and ends `to_offset` seconds after
    `T`; it has not ended if `to_offset` is None."""
    at_us = (T + kafka_offset * 1_000) * 1_000
    return {
        "group_id": "g",
        "incarnation": 1,
        "generation": number,
        "revision": 0,
        "kafka_offset": kafka_offset,
        "to_offset": to_offset,
        "ended_by": None,
        "protocol_type": "consumer",
        "member_count": 2,
        "started_at": at_us,
        "ended_at": None if to_offset is None else (T + to_offset * 1_000) * 1_000,
        "current_state_at": at_us,
        "changes": None,
        **fields,
    }


def rebalance(to_generation: int, kafka_offset: int, **fields: Any) -> dict[str, Any]:
    """Returns a row of `rebalances`. Its time is its offset, taken as seconds after `T`."""
    return {
        "group_id": "g",
        "incarnation": 1,
        "from_generation": to_generation - 1,
        "to_generation": to_generation,
        "kafka_offset": kafka_offset,
        "happened_at": (T + kafka_offset * 1_000) * 1_000,
        "hole_cause": None,
        "generation_gap": 0,
        "changes": [],
        "caused_by_generation": None,
        "member_count": 2,
        "partition_pauses": [],
        **fields,
    }


def interval(member_id: str, partition: int, from_offset: int, to_offset: int | None) -> dict[str, Any]:
    """Returns a row of `assignments`. Its times are its offsets, taken as seconds after `T`."""
    return {
        "incarnation": 1,
        "topic": "orders",
        "partition": partition,
        "member_id": member_id,
        "client_id": f"client of {member_id}",
        "from_offset": from_offset,
        "to_offset": to_offset,
        "valid_from": (T + from_offset * 1_000) * 1_000,
        "valid_to": None if to_offset is None else (T + to_offset * 1_000) * 1_000,
        "is_start_known": True,
    }


def facts(**parts: Any) -> GroupFacts:
    """Returns facts in which generation 4, at offset 50, took partition 0 of `orders` from `m-1` and gave it to `m-2`.
    `parts` replace or add fields of GroupFacts."""
    history: dict[str, Any] = {
        "generations": [generation(3, 10, 50), generation(4, 50, None)],
        "rebalances": [rebalance(4, 50)],
        "members": [tenure("m-1", 10, 50), tenure("m-2", 10, None, client_id="other", client_host="/10.0.0.2")],
        "assignments": [interval("m-1", 0, 10, 50), interval("m-2", 0, 50, None)],
    }
    return GroupFacts("g", parts.pop("as_of_ms", T + 3_600_000), **history | parts)

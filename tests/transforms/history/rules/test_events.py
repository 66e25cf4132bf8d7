"""From `record_json` of `coordinator_records` to the fold's event, whatever a client put into its bytes."""

from __future__ import annotations

from typing import Any

import pytest

from groupledger.schemas.codec.connect_protocol import encode_connect_assignment, encode_connect_metadata
from groupledger.schemas.codec.consumer_protocol import encode_assignment, encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.history.rules.events import GroupMember, GroupRecord, group_record
from groupledger.transforms.records.decoded_record import record_fields, record_json


def topics(**partitions: list[int]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]


def subscription(version: int = 3, **owned: list[int]) -> bytes:
    fields: dict[str, Any] = {"topics": ["b", "a", "b"], "user_data": None}
    if version:
        fields |= {"owned_partitions": topics(**owned), "generation_id": 4, "rack_id": "r1"}
    return encode_subscription(ProtocolMessage(version, fields))


def assignment(**partitions: list[int]) -> bytes:
    return encode_assignment(ProtocolMessage(3, {"assigned_partitions": topics(**partitions), "user_data": None}))


def connectors(**tasks: list[int]) -> list[dict[str, Any]]:
    return [{"connector": connector, "tasks": numbers} for connector, numbers in tasks.items()]


def connect_assignment(
    version: int, given: dict[str, list[int]], revoked: dict[str, list[int]] | None = None, delay_ms: int = 0
) -> bytes:
    fields = {"error": 0, "leader": "w", "leader_url": "", "config_offset": 1, "assignment": connectors(**given)}
    if version:
        fields |= {"revoked": connectors(**(revoked or {})), "delay_ms": delay_ms}
    return encode_connect_assignment(ProtocolMessage(version, fields))


def connect_metadata(version: int, allocation: bytes | None = None) -> bytes:
    fields: dict[str, Any] = {"url": "http://w", "config_offset": 1}
    return encode_connect_metadata(ProtocolMessage(version, fields | ({"allocation": allocation} if version else {})))


def read(
    subscribed: bytes, assigned: bytes, protocol_type: str = "consumer", state_timestamp_ms: int = 7
) -> GroupRecord:
    member = {
        "member_id": "m",
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 2,
        "session_timeout_ms": 1,
        "subscription": subscribed,
        "assignment": assigned,
    }
    value = {
        "protocol_type": protocol_type,
        "generation": 5,
        "protocol": "p",
        "leader": "m",
        "current_state_timestamp_ms": state_timestamp_ms,
        "members": [member],
    }
    return group_record(9, 8, record_json(record_fields(Record("group_metadata", {"group_id": "g"}, 3, value))))


def only(record: GroupRecord) -> GroupMember:
    (member,) = record.members
    return member


def test_consumer() -> None:
    """Goal: topics are sorted and named once, partitions too; fields of the record are there."""
    record = read(subscription(a=[1, 0]), assignment(a=[0, 1, 0], b=[2]))
    member = only(record)
    assert (record.kafka_offset, record.kafka_timestamp_ms, record.generation, record.leader) == (9, 8, 5, "m")
    assert (member.facts.topics, member.facts.rack_id, member.facts.session_timeout_ms) == (("a", "b"), "r1", 1)
    assert member.owned == (("a", 1), ("a", 0))
    assert member.assigned == (("a", 0), ("a", 1), ("b", 2))
    assert record.current_state_timestamp_ms == 7
    assert read(b"", b"", state_timestamp_ms=-1).current_state_timestamp_ms is None


def test_old_subscription_owns_nothing() -> None:
    """Goal: version 0 can't say what is owned."""
    assert only(read(subscription(0), assignment(a=[0]))).owned == ()


def test_absent_and_broken_bytes() -> None:
    """Goal: a record without an assignment has none; a broken assignment is unknown, and the member says why;
    subscriptions likewise."""
    assert only(read(subscription(), b"")).assigned == ()
    member = only(read(b"\0\1\0", assignment(a=[0])[:-6]))
    assert member.assigned is None
    assert member.facts.topics is None
    assert member.facts.assignment_error is not None
    assert member.facts.subscription_error is not None


def test_unknown_protocol_type_owns_nobody_knows_what() -> None:
    """Goal: bytes of a language that we don't speak are unknown, not empty."""
    assert only(read(b"x", b"y", "schema-registry")).assigned is None


@pytest.mark.parametrize(
    ("metadata", "assigned", "expected"),
    [
        (connect_metadata(0), connect_assignment(0, {"sink": [-1, 0]}), {("sink", -1), ("sink", 0)}),
        (connect_metadata(2), connect_assignment(2, {"sink": [-1]}), {("sink", -1)}),
        (
            connect_metadata(2, connect_assignment(2, {"sink": [-1, 0], "old": [0]})),
            connect_assignment(2, {"sink": [1]}, {"old": [0]}),
            {("sink", -1), ("sink", 0), ("sink", 1)},
        ),
        (connect_metadata(1, connect_assignment(1, {"sink": [0]})), b"", {("sink", 0)}),
        (connect_metadata(2, b"\0\2\0"), connect_assignment(2, {}), None),
        (b"\0\2\0", connect_assignment(2, {"sink": [0]}), None),
        (connect_metadata(2), b"\0\2\0", None),
    ],
)
def test_connect(metadata: bytes, assigned: bytes, expected: set[tuple[str, int]] | None) -> None:
    """Goal: a worker runs its allocation without the revoked tasks and with the assigned ones; the set is unknown if
    one of these parts is."""
    units = only(read(metadata, assigned, "connect")).assigned
    assert (None if units is None else set(units)) == expected


def test_the_delay_of_connect() -> None:
    """Goal: the assignments of the incremental protocols have the delay; those of the eager protocol and of consumers
    don't."""
    reported = [connect_assignment(version, {"sink": [0]}, delay_ms=300_000) for version in (1, 2)]
    assert [read(connect_metadata(2), each, "connect").scheduled_delay_ms for each in reported] == [300_000, 300_000]
    assert read(connect_metadata(2), connect_assignment(2, {}), "connect").scheduled_delay_ms == 0
    for assigned in (connect_assignment(0, {"sink": [0]}), b"", b"\0\2\0"):
        assert read(connect_metadata(0), assigned, "connect").scheduled_delay_ms is None
    assert read(subscription(), assignment(a=[0])).scheduled_delay_ms is None


def test_shared_units_name_all_owners() -> None:
    """Goal: owners of a unit are sorted, so that the record's order of members decides nothing."""
    one = only(read(subscription(), assignment(a=[0])))
    facts = type(one.facts)("l", None, "c", "/h", 1, 2)
    two = GroupMember(facts, (), (TopicPartition("a", 0),))
    record = read(subscription(), assignment(a=[0]))
    both = GroupRecord(1, 1, 1, "consumer", "p", "m", None, (*record.members, two))
    assert both.owners == {("a", 0): ("l", "m")}

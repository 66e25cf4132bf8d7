"""The formats keep the promises that table types and other readers of them rely on."""

from collections.abc import Iterator

import pytest

from groupledger.schemas.wire import (
    connect_protocol,
    consumer_protocol,
    control_record,
    sticky_assignor,
    streams_assignor,
)
from groupledger.schemas.wire.model import Array, Field, Message, Struct, snake_case
from groupledger.schemas.wire.record_types import (
    RECORD_TYPE_BY_ID,
    RECORD_TYPE_BY_NAME,
    RECORD_TYPES,
    RETIRED_RECORD_TYPES,
)
from groupledger.schemas.wire.share_state import SHARE_STATE_TYPES

MESSAGES = [
    *(kind.value for kind in (*RECORD_TYPES, *SHARE_STATE_TYPES)),
    consumer_protocol.SUBSCRIPTION,
    consumer_protocol.ASSIGNMENT,
    connect_protocol.METADATA,
    connect_protocol.ASSIGNMENT,
    sticky_assignor.STICKY_USER_DATA,
    sticky_assignor.COOPERATIVE_STICKY_USER_DATA,
    streams_assignor.SUBSCRIPTION_INFO,
    control_record.CONTROL_KEY,
    control_record.END_TRANSACTION_MARKER,
]
every_message = pytest.mark.parametrize("message", MESSAGES, ids=[message.name for message in MESSAGES])


def structs_of(fields: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    """The fields themselves and those of every struct below them."""
    yield fields
    for field in fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from structs_of(inner.fields)


@every_message
def test_columns_and_tags_are_unique_in_every_struct(message: Message) -> None:
    """No two fields share a column, and no two share a tag."""
    for fields in structs_of(message.fields):
        columns = [field.column for field in fields]
        tags = [field.tag for field in fields if field.tag is not None]
        assert len(set(columns)) == len(columns)
        assert tags == sorted(set(tags))


@every_message
def test_tagged_fields_stand_in_flexible_versions_only(message: Message) -> None:
    """A tag needs a flexible version, in the message and in the structs below it."""
    for fields in structs_of(message.fields):
        for field in fields:
            assert field.tag is None or message.is_flexible(field.versions.first)


@every_message
def test_times_carry_their_unit(message: Message) -> None:
    """Every column that is a time or a duration says milliseconds at its end."""
    for fields in structs_of(message.fields):
        for field in fields:
            is_time = any(word in field.column for word in ("timestamp", "timeout", "delay"))
            assert is_time == field.column.endswith("_ms")


def test_every_key_leads_with_the_group() -> None:
    """Whatever Kafka calls it, the group's column is group_id and comes first."""
    assert {kind.key[0].column for kind in RECORD_TYPES} == {"group_id"}
    assert {kind.key[0].name for kind in RECORD_TYPES} == {"group", "groupId"}


def test_the_registry_has_each_record_type_once() -> None:
    """The 22 ids of Kafka 4.2 in order, with the two retired ones between them and no others."""
    ids = [kind.id for kind in RECORD_TYPES]
    assert sorted([*ids, *RETIRED_RECORD_TYPES]) == list(range(24))
    assert ids == sorted(ids)
    assert len(RECORD_TYPE_BY_ID) == len(RECORD_TYPE_BY_NAME) == 22
    assert not RETIRED_RECORD_TYPES.values() & RECORD_TYPE_BY_NAME.keys()


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("clientId", "client_id"),
        ("config-offset", "config_offset"),
        ("previous_assignment", "previous_assignment"),
        ("ConsumerGroupTargetAssignmentMember", "consumer_group_target_assignment_member"),
    ],
)
def test_snake_case(name: str, column: str) -> None:
    """Both of Kafka's ways to write names become columns."""
    assert snake_case(name) == column

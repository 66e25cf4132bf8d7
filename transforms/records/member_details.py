"""Decodes the parts of a classic group's member that brokers treat as bytes: subscription, assignment, assignor's user
data.

The group's protocol type determines the format of subscription and assignment, and its protocol that of the user data.
No broker checks any of these bytes. Damage here affects only the member, never the record: a part that can't be read is
null, with the reason in its error column. A part without bytes (the assignment of a member to whom the leader gave
nothing) is null without an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.schemas.codec.connect_protocol import decode_connect_assignment, decode_connect_metadata
from groupledger.schemas.codec.consumer_protocol import read_assignment, read_subscription
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.user_data import (
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    decode_streams_subscription_info,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.schemas.codec.protocol_message import ProtocolMessage

    Decoder = Callable[[bytes], ProtocolMessage]

# protocol type -> (column, decoder) of the subscription and of the assignment.
PROTOCOL_TYPES: dict[str, tuple[tuple[str, Decoder], tuple[str, Decoder]]] = {
    "consumer": (("consumer_subscription", read_subscription), ("consumer_assignment", read_assignment)),
    "connect": (("connect_metadata", decode_connect_metadata), ("connect_assignment", decode_connect_assignment)),
}

# protocol -> (column, decoder) of the user data inside a consumer's subscription.
USER_DATA: dict[str, tuple[str, Decoder]] = {
    "sticky": ("sticky_user_data", decode_sticky_user_data),
    "cooperative-sticky": ("sticky_user_data", decode_cooperative_sticky_user_data),
    "stream": ("streams_subscription_info", decode_streams_subscription_info),
}


def member_details(member: dict[str, Any], protocol_type: str, protocol: str | None) -> dict[str, Any]:
    """Returns columns of `schemas.tables.coordinator_records.MEMBER_DETAILS`; columns left out are null."""
    if protocol_type not in PROTOCOL_TYPES:
        return {}
    (subscription_column, subscription), (assignment_column, assignment) = PROTOCOL_TYPES[protocol_type]
    details = read_part("subscription_error", subscription_column, subscription, member["subscription"])
    details |= read_part("assignment_error", assignment_column, assignment, member["assignment"])
    user_data = details.get("consumer_subscription", {}).get("user_data")
    if protocol in USER_DATA:
        details |= read_part("user_data_error", *USER_DATA[protocol], user_data)
    return details


def read_part(error_column: str, column: str, decoder: Decoder, data: bytes | None) -> dict[str, Any]:
    if not data:
        return {}
    try:
        message = decoder(data)
    except DecodeError as error:
        return {error_column: f"{error.reason}: {error}"}
    return {column: {"version": message.version, **message.fields}}

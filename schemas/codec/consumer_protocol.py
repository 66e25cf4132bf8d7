"""Reads and writes subscriptions and assignments of protocol type `consumer` (`ConsumerProtocol.java`).

Versions 0 to 3 are known; a later one is read as 3. The columns stand in
`schemas.wire.consumer_protocol`. The coordinator writes an assignment without bytes for a member to
whom the leader gave nothing; here it is refused as `empty_protocol`, and callers look for it first.
"""

from groupledger.schemas.codec.protocol_message import ProtocolCodec, ProtocolMessage
from groupledger.schemas.wire.consumer_protocol import ASSIGNMENT, SUBSCRIPTION

_SUBSCRIPTION = ProtocolCodec(SUBSCRIPTION)
_ASSIGNMENT = ProtocolCodec(ASSIGNMENT)


def decode_subscription(data: bytes) -> ProtocolMessage:
    return _SUBSCRIPTION.decode(data)


def encode_subscription(message: ProtocolMessage) -> bytes:
    return _SUBSCRIPTION.encode(message)


def decode_assignment(data: bytes) -> ProtocolMessage:
    return _ASSIGNMENT.decode(data)


def encode_assignment(message: ProtocolMessage) -> bytes:
    return _ASSIGNMENT.encode(message)

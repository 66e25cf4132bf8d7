"""Subscriptions and assignments of protocol type `consumer` (`ConsumerProtocol.java`).

Versions 0 to 3; a later one is read as 3. The columns stand in `schemas.wire.consumer_protocol`. An
assignment without bytes is no damage: the coordinator writes it for a member whom the leader gave
nothing; it is `empty_protocol`.
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

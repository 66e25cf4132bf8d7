"""Reads and writes worker metadata and assignments of protocol type `connect`.

The source is `IncrementalCooperativeConnectProtocol.java`. Versions 0 to 2 are known; a later one is
read as 2. The columns are in `schemas.wire.connect_protocol`. From version 1, fields that Kafka gives
a default may be missing at the end. The `allocation` of a worker's metadata is an encoded assignment
again: it is given as bytes, which `decode_connect_assignment` reads.
"""

from groupledger.schemas.codec.protocol_message import ProtocolCodec, ProtocolMessage
from groupledger.schemas.wire.connect_protocol import ASSIGNMENT, METADATA

_METADATA = ProtocolCodec(METADATA)
_ASSIGNMENT = ProtocolCodec(ASSIGNMENT)


def decode_connect_metadata(data: bytes) -> ProtocolMessage:
    return _METADATA.decode(data)


def encode_connect_metadata(message: ProtocolMessage) -> bytes:
    return _METADATA.encode(message)


def decode_connect_assignment(data: bytes) -> ProtocolMessage:
    return _ASSIGNMENT.decode(data)


def encode_connect_assignment(message: ProtocolMessage) -> bytes:
    return _ASSIGNMENT.encode(message)

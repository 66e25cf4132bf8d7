"""Reads and writes subscriptions and assignments of protocol type `consumer` (`ConsumerProtocol.java`).

Versions 0 to 3 are known; a later one is read as 3. The columns are in
`schemas.wire.consumer_protocol`. The coordinator writes an assignment without bytes for a member that
the leader did not name. These functions refuse such an assignment as `empty_protocol`, so callers check
for it first.

`decode_subscription` and `decode_assignment` refuse what Kafka's own clients refuse. `read_subscription` and
`read_assignment` also accept what other clients write and brokers store: kafka-go and sarama-cluster send a
subscription of version 1 that ends before its owned partitions (segmentio/kafka-go#1156), and old releases of brod send
an assignment that ends before its user data (kafka4beam/kafka_protocol#4).
"""

from dataclasses import replace

from groupledger.schemas.codec.protocol_message import ProtocolCodec, ProtocolMessage
from groupledger.schemas.wire.consumer_protocol import ASSIGNMENT, SUBSCRIPTION
from groupledger.schemas.wire.model import EVERY, Message, Versions, only


def _ending_before(message: Message, name: str, versions: Versions) -> ProtocolCodec:
    """Returns the codec of a message that may end before a field."""
    fields = (replace(field, may_be_missing=versions) if field.name == name else field for field in message.fields)
    return ProtocolCodec(replace(message, fields=tuple(fields)))


_SUBSCRIPTION = ProtocolCodec(SUBSCRIPTION)
_ASSIGNMENT = ProtocolCodec(ASSIGNMENT)
_ANY_SUBSCRIPTION = _ending_before(SUBSCRIPTION, "ownedPartitions", only(1))
_ANY_ASSIGNMENT = _ending_before(ASSIGNMENT, "userData", EVERY)


def decode_subscription(data: bytes) -> ProtocolMessage:
    return _SUBSCRIPTION.decode(data)


def read_subscription(data: bytes) -> ProtocolMessage:
    return _ANY_SUBSCRIPTION.decode(data)


def encode_subscription(message: ProtocolMessage) -> bytes:
    return _SUBSCRIPTION.encode(message)


def decode_assignment(data: bytes) -> ProtocolMessage:
    return _ASSIGNMENT.decode(data)


def read_assignment(data: bytes) -> ProtocolMessage:
    return _ANY_ASSIGNMENT.decode(data)


def encode_assignment(message: ProtocolMessage) -> bytes:
    return _ASSIGNMENT.encode(message)

"""Reads and writes the user data that known assignors put into a subscription.

The group's protocol name says which assignor wrote it: `sticky`, `cooperative-sticky`, or `stream` for
Kafka Streams. Bytes after the fields that are known are returned as `trailing_bytes`.
"""

from groupledger.schemas.codec.engine import Codec, message_codec
from groupledger.schemas.codec.errors import DecodeError, EncodeError
from groupledger.schemas.codec.primitives import read_int32, write_int32
from groupledger.schemas.codec.protocol_message import ProtocolCodec, ProtocolMessage
from groupledger.schemas.wire.sticky_assignor import COOPERATIVE_STICKY_USER_DATA, STICKY_USER_DATA
from groupledger.schemas.wire.streams_assignor import SUBSCRIPTION_INFO

_STICKY = (message_codec(STICKY_USER_DATA, 0), message_codec(STICKY_USER_DATA, 1))
_COOPERATIVE_STICKY = (message_codec(COOPERATIVE_STICKY_USER_DATA, 0),)
_SUBSCRIPTION_INFO = ProtocolCodec(
    SUBSCRIPTION_INFO, first_version=1, read_version=read_int32, write_version=write_int32
)


def decode_sticky_user_data(data: bytes) -> ProtocolMessage:
    """Returns a message with `previous_assignment` and `generation`.

    The bytes have no version. If they can't be read as version 1, they are read as version 0, which lacks the
    generation.
    """
    try:
        return _decode(_STICKY, 1, data)
    except DecodeError:
        return _decode(_STICKY, 0, data)


def encode_sticky_user_data(message: ProtocolMessage) -> bytes:
    return _encode(_STICKY, message)


def decode_cooperative_sticky_user_data(data: bytes) -> ProtocolMessage:
    """Returns a message with `generation`; its version is always 0."""
    return _decode(_COOPERATIVE_STICKY, 0, data)


def encode_cooperative_sticky_user_data(message: ProtocolMessage) -> bytes:
    return _encode(_COOPERATIVE_STICKY, message)


def decode_streams_subscription_info(data: bytes) -> ProtocolMessage:
    """Returns a message with `latest_supported_version` (-1 before version 3) and `process_id` (None above version 11).

    The tasks, which come after these fields, are in its `trailing_bytes`.
    """
    return _SUBSCRIPTION_INFO.decode(data)


def encode_streams_subscription_info(message: ProtocolMessage) -> bytes:
    return _SUBSCRIPTION_INFO.encode(message)


def _decode(codecs: tuple[Codec, ...], version: int, data: bytes) -> ProtocolMessage:
    fields, end = codecs[version].read(data, 0)
    return ProtocolMessage(version, fields, data[end:])


def _encode(codecs: tuple[Codec, ...], message: ProtocolMessage) -> bytes:
    if not 0 <= message.version < len(codecs):
        raise EncodeError(f"no version {message.version} of this user data")
    out = bytearray()
    codecs[message.version].write(out, message.fields)
    out += message.trailing_bytes
    return bytes(out)

"""Reads and writes messages that lead with their own version, as clients put them into a member's bytes.

No broker checks these bytes. As Kafka's clients do, a reader takes a version above its latest as the latest, and
tolerates bytes after the last field. It keeps these bytes, so that the message can be written again as it was.
"""

from dataclasses import dataclass
from typing import Any

from groupledger.schemas.codec.engine import message_codec
from groupledger.schemas.codec.errors import EmptyProtocolError, EncodeError, UnknownProtocolVersionError
from groupledger.schemas.codec.primitives import Reader, Writer, read_int16, write_int16
from groupledger.schemas.wire.model import Message


@dataclass(frozen=True, slots=True)
class ProtocolMessage:
    """A message that was read, with `fields` by column.

    `version` is the one that was written, which may be above the latest that is known;
    `trailing_bytes` are the bytes after the last field.
    """

    version: int
    fields: dict[str, Any]
    trailing_bytes: bytes = b""


class ProtocolCodec:
    """Reads and writes a version, then the message's fields of that version."""

    def __init__(
        self,
        message: Message,
        *,
        first_version: int = 0,
        read_version: Reader = read_int16,
        write_version: Writer = write_int16,
    ) -> None:
        self._name = message.name
        self._first_version = first_version
        self._read_version = read_version
        self._write_version = write_version
        self._codecs = [message_codec(message, v) for v in range(message.latest_version + 1)]

    def decode(self, data: bytes) -> ProtocolMessage:
        """Returns the message. Raises DecodeErrors only."""
        if not data:
            raise EmptyProtocolError(f"a {self._name} without bytes")
        version, offset = self._read_version(data, 0)
        if version < self._first_version:
            raise UnknownProtocolVersionError(f"version {version} of {self._name}")
        fields, end = self._codecs[min(version, len(self._codecs) - 1)].read(data, offset)
        return ProtocolMessage(version, fields, data[end:])

    def encode(self, message: ProtocolMessage) -> bytes:
        """Returns the bytes of the message; a version above the latest is written in the latest's form."""
        if message.version < self._first_version:
            raise EncodeError(f"{self._name} has no version {message.version}")
        out = bytearray()
        self._write_version(out, message.version)
        self._codecs[min(message.version, len(self._codecs) - 1)].write(out, message.fields)
        out += message.trailing_bytes
        return bytes(out)

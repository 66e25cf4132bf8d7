"""Turns the key and value bytes of a record of `__consumer_offsets` into a `Record`, and back.

`SHARE_STATE` does the same for `__share_group_state`. In both topics a key is an int16 record type and
the key's fields, a value an int16 version and the value's fields (`CoordinatorRecordSerde.java`); a null
value is a tombstone. Kafka ignores bytes after the last field, but writes none: here they are an error,
for they show that something was misread.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from groupledger.schemas.codec.engine import Codec, message_codec
from groupledger.schemas.codec.errors import (
    DecodeError,
    EmptyKeyError,
    EncodeError,
    NullKeyError,
    RetiredRecordTypeError,
    TrailingBytesError,
    UnknownRecordTypeError,
    UnknownValueVersionError,
)
from groupledger.schemas.codec.primitives import read_int16, write_int16
from groupledger.schemas.wire.model import Message, RecordType
from groupledger.schemas.wire.record_types import RECORD_TYPES, RETIRED_RECORD_TYPES
from groupledger.schemas.wire.share_state import SHARE_STATE_TYPES


@dataclass(frozen=True, slots=True)
class Record:
    """One decoded record; `value_version` and `value` are None for a tombstone.

    `record_type` is Kafka's name in snake case, `key` and `value` are dicts by column.
    """

    record_type: str
    key: dict[str, Any]
    value_version: int | None
    value: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class _RecordCodec:
    id: int
    record_type: str
    key: Codec
    values: tuple[Codec, ...]


def _record_codec(kind: RecordType) -> _RecordCodec:
    return _RecordCodec(
        kind.id,
        kind.record_type,
        message_codec(Message(f"{kind.name}Key", kind.key), 0),
        tuple(message_codec(kind.value, v) for v in range(kind.value.latest_version + 1)),
    )


class RecordCodecs:
    """Reads and writes the records of one topic: types are numbered per topic."""

    def __init__(self, kinds: Iterable[RecordType], retired: Mapping[int, str]) -> None:
        self._by_id = {kind.id: _record_codec(kind) for kind in kinds}
        self._by_name = {codec.record_type: codec for codec in self._by_id.values()}
        self._retired = retired

    def decode_record(self, key: bytes | None, value: bytes | None) -> Record:
        """Returns the record. Raises DecodeErrors only, with `part` "key" or "value"."""
        record_type, fields = self.decode_key(key)
        if value is None:
            return Record(record_type, fields, None, None)
        return Record(record_type, fields, *self.decode_value(record_type, value))

    def decode_key(self, key: bytes | None) -> tuple[str, dict[str, Any]]:
        """Returns the record type and the key's fields."""
        if key is None:
            raise NullKeyError("the record has no key", part="key")
        if not key:
            raise EmptyKeyError("the key has no bytes", part="key")
        try:
            type_id, offset = read_int16(key, 0)
            codec = self._by_id.get(type_id)
            if codec is None:
                raise self._unknown_type(type_id)
            return codec.record_type, _read_to_end(codec.key, key, offset)
        except DecodeError as error:
            error.part = "key"
            raise

    def decode_value(self, record_type: str, value: bytes) -> tuple[int, dict[str, Any]]:
        """Returns the version and the fields of a value that is not null. Its key has the type `record_type`."""
        codecs = self._by_name[record_type].values
        try:
            version, offset = read_int16(value, 0)
            if not 0 <= version < len(codecs):
                raise UnknownValueVersionError(f"version {version} of {record_type}")
            return version, _read_to_end(codecs[version], value, offset)
        except DecodeError as error:
            error.part = "value"
            raise

    def encode_record(self, record: Record) -> tuple[bytes, bytes | None]:
        """Returns the bytes that a broker writes for the record. Raises EncodeError if it has no such form."""
        codec = self._by_name.get(record.record_type)
        if codec is None:
            raise EncodeError(f"no record type is called {record.record_type!r}")
        key = _prefixed(codec.id, codec.key, record.key)
        version = record.value_version
        if record.value is None and version is None:
            return key, None
        if record.value is None or version is None or not 0 <= version < len(codec.values):
            raise EncodeError(f"{record.record_type} has no version {version}")
        return key, _prefixed(version, codec.values[version], record.value)

    def _unknown_type(self, type_id: int) -> DecodeError:
        if type_id in self._retired:
            return RetiredRecordTypeError(f"record type {type_id}, {self._retired[type_id]}")
        return UnknownRecordTypeError(f"record type {type_id}")


def _read_to_end(codec: Codec, buffer: bytes, offset: int) -> dict[str, Any]:
    fields: dict[str, Any]
    fields, end = codec.read(buffer, offset)
    if end != len(buffer):
        raise TrailingBytesError(f"{len(buffer) - end} bytes after the last field", end)
    return fields


def _prefixed(prefix: int, codec: Codec, fields: dict[str, Any]) -> bytes:
    out = bytearray()
    write_int16(out, prefix)
    codec.write(out, fields)
    return bytes(out)


_OF_OFFSETS_TOPIC = RecordCodecs(RECORD_TYPES, RETIRED_RECORD_TYPES)
decode_record = _OF_OFFSETS_TOPIC.decode_record
decode_key = _OF_OFFSETS_TOPIC.decode_key
decode_value = _OF_OFFSETS_TOPIC.decode_value
encode_record = _OF_OFFSETS_TOPIC.encode_record

SHARE_STATE = RecordCodecs(SHARE_STATE_TYPES, {})

"""Turns a wire format and a version into a codec: one reader and one writer.

A struct is a dict by column, in the order of its format, and has every column of the format. A column
that the version lacks, or a tagged one that is absent, has its default. If there are tagged fields that
the format does not know, they are under UNKNOWN_TAGGED_FIELDS, so that what was read can be written
again. A dict that is written need not have columns that are tagged or that the version lacks. A value
that the version can't carry is an EncodeError, and never dropped.

Rules of the tagged section (KIP-482): tags ascend strictly, and a known field fills its size exactly.
Kafka's generated readers check neither, but Kafka writes nothing else.

Nothing is allocated from a count alone: an array's count times the fewest bytes that its element can
have must fit into the bytes that remain. No format contains itself, so nesting is bounded by it.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from groupledger.schemas.codec import primitives
from groupledger.schemas.codec.errors import EncodeError, InvalidTagError, LengthPastEndError
from groupledger.schemas.codec.primitives import NULL, Reader, Writer
from groupledger.schemas.wire.model import Array, Field, Message, Primitive, Struct, WireType

UNKNOWN_TAGGED_FIELDS = "unknown_tagged_fields"


@dataclass(frozen=True, slots=True)
class Codec:
    """A reader and a writer of one format. `bytes_min` is the length of the shortest encoding."""

    read: Reader
    write: Writer
    bytes_min: int


def message_codec(message: Message, version: int) -> Codec:
    """Returns the codec of one version, between a dict of the message's columns and the bytes of its body."""
    return _struct_codec(message.fields, version, flexible=message.is_flexible(version))


_FIXED = {
    Primitive.INT8: Codec(primitives.read_int8, primitives.write_int8, 1),
    Primitive.INT16: Codec(primitives.read_int16, primitives.write_int16, 2),
    Primitive.UINT16: Codec(primitives.read_uint16, primitives.write_uint16, 2),
    Primitive.INT32: Codec(primitives.read_int32, primitives.write_int32, 4),
    Primitive.INT64: Codec(primitives.read_int64, primitives.write_int64, 8),
    Primitive.UUID: Codec(primitives.read_uuid, primitives.write_uuid, 16),
}

# By type, flexible, nullable.
_VARIABLE = {
    (Primitive.STRING, False, False): Codec(primitives.read_string, primitives.write_string, 2),
    (Primitive.STRING, False, True): Codec(primitives.read_nullable_string, primitives.write_nullable_string, 2),
    (Primitive.STRING, True, False): Codec(primitives.read_compact_string, primitives.write_compact_string, 1),
    (Primitive.STRING, True, True): Codec(
        primitives.read_compact_nullable_string, primitives.write_compact_nullable_string, 1
    ),
    (Primitive.BYTES, False, False): Codec(primitives.read_bytes, primitives.write_bytes, 4),
    (Primitive.BYTES, False, True): Codec(primitives.read_nullable_bytes, primitives.write_nullable_bytes, 4),
    (Primitive.BYTES, True, False): Codec(primitives.read_compact_bytes, primitives.write_compact_bytes, 1),
    (Primitive.BYTES, True, True): Codec(
        primitives.read_compact_nullable_bytes, primitives.write_compact_nullable_bytes, 1
    ),
}


def _codec(wire_type: WireType, version: int, *, flexible: bool, nullable: bool) -> Codec:
    if isinstance(wire_type, Array):
        return _array(wire_type.element, version, flexible=flexible, nullable=nullable)
    if isinstance(wire_type, Struct):
        return _struct_codec(wire_type.fields, version, flexible=flexible)
    if wire_type in _FIXED:
        return _FIXED[wire_type]
    return _VARIABLE[wire_type, flexible, nullable]


def _field_codec(field: Field, version: int, *, flexible: bool) -> Codec:
    nullable = field.is_nullable(version)
    codec = _codec(field.type, version, flexible=flexible, nullable=nullable)
    if nullable and isinstance(field.type, Struct):
        codec = _nullable_struct(codec, tagged=field.tag is not None)
    if field.may_be_missing is not None and version in field.may_be_missing:
        codec = _or_default(codec, field)
    return codec


def _or_default(codec: Codec, field: Field) -> Codec:
    def read(buffer: bytes, offset: int) -> tuple[Any, int]:
        if offset == len(buffer):
            return field.default_value(), offset
        return codec.read(buffer, offset)

    return Codec(read, codec.write, 0)


def _nullable_struct(codec: Codec, *, tagged: bool) -> Codec:
    """Returns the codec of a struct after a marker: an int8, which is negative for null and otherwise 1.

    In a tagged field the marker is an unsigned varint, zero for null, as Kafka's generator has it.
    """
    read_marker, write_marker, null_marker = _TAGGED_MARKER if tagged else _PLAIN_MARKER

    def read(buffer: bytes, offset: int) -> tuple[dict[str, Any] | None, int]:
        marker, offset = read_marker(buffer, offset)
        return (None, offset) if marker <= null_marker else codec.read(buffer, offset)

    def write(out: bytearray, value: dict[str, Any] | None) -> None:
        if value is None:
            write_marker(out, null_marker)
        else:
            write_marker(out, 1)
            codec.write(out, value)

    return Codec(read, write, 1)


_Marker = tuple[Reader, Writer, int]
_PLAIN_MARKER: _Marker = (primitives.read_int8, primitives.write_int8, -1)
_TAGGED_MARKER: _Marker = (primitives.read_unsigned_varint, primitives.write_unsigned_varint, 0)

# Arrays of these are most of the bytes of large records; they are read and written in one go.
_RUN_CODES = {Primitive.INT16: "h", Primitive.INT32: "i"}


def _array(element_type: Primitive | Struct, version: int, *, flexible: bool, nullable: bool) -> Codec:
    element = _codec(element_type, version, flexible=flexible, nullable=False)
    run_code = _RUN_CODES.get(element_type) if isinstance(element_type, Primitive) else None
    items = _run(run_code, element) if run_code else _items(element)
    if flexible:
        read_count: Reader = primitives.read_compact_length
        write_count: Writer = primitives.write_compact_length
    else:
        read_count, write_count = primitives.read_int32_length, primitives.write_int32

    def read(buffer: bytes, offset: int) -> tuple[list[Any] | None, int]:
        count, start = read_count(buffer, offset)
        if count < 0:
            if nullable:
                return None, start
            raise primitives.null_not_allowed(offset)
        if count * element.bytes_min > len(buffer) - start:
            raise LengthPastEndError(
                f"{count} elements of at least {element.bytes_min} bytes, but {len(buffer) - start} bytes remain",
                offset,
            )
        return items.read(buffer, start, count)

    def write(out: bytearray, value: list[Any] | None) -> None:
        if value is None and nullable:
            write_count(out, NULL)
            return
        if not isinstance(value, list):
            raise EncodeError(f"an array is a list, not {type(value).__name__}")
        write_count(out, len(value))
        items.write(out, value)

    return Codec(read, write, 1 if flexible else 4)


@dataclass(frozen=True, slots=True)
class _Items:
    """Reads and writes what follows an array's count."""

    read: Callable[[bytes, int, int], tuple[list[Any], int]]
    write: Writer


def _items(element: Codec) -> _Items:
    def read(buffer: bytes, offset: int, count: int) -> tuple[list[Any], int]:
        items = []
        for _ in range(count):
            item, offset = element.read(buffer, offset)
            items.append(item)
        return items, offset

    def write(out: bytearray, items: list[Any]) -> None:
        for item in items:
            element.write(out, item)

    return _Items(read, write)


def _run(code: str, element: Codec) -> _Items:
    def read(buffer: bytes, offset: int, count: int) -> tuple[list[Any], int]:
        items = struct.unpack_from(f">{count}{code}", buffer, offset)
        return list(items), offset + count * element.bytes_min

    def write(out: bytearray, items: list[Any]) -> None:
        try:
            out += struct.pack(f">{len(items)}{code}", *items)
        except struct.error as error:
            raise EncodeError(f"an array of integers holds another thing: {error}") from None

    return _Items(read, write)


def _struct_codec(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Codec:
    struct_codec = _Struct(fields, version, flexible=flexible)
    return Codec(struct_codec.read, struct_codec.write, struct_codec.bytes_min)


class _Struct:
    """Reads and writes a struct as a dict by column, by the rules at the head of the file."""

    def __init__(self, fields: tuple[Field, ...], version: int, *, flexible: bool) -> None:
        self._version = version
        self._defaults = {field.column: field.default_value() for field in fields}
        self._columns = self._defaults.keys() | ({UNKNOWN_TAGGED_FIELDS} if flexible else set())
        self._tags = _Tags(fields, version) if flexible else None
        carried = [field for field in fields if version in field.versions]
        codecs = {
            field.column: _field_codec(field, version, flexible=flexible) for field in carried if field.tag is None
        }
        self._readers = [(column, codec.read) for column, codec in codecs.items()]
        self._writers = [(column, codec.write) for column, codec in codecs.items()]
        self._lacking = [field.column for field in fields if field not in carried]
        # Defaults that two values must not share, of columns that need not be on the wire.
        self._unshared = [
            field for field in fields if field.column not in codecs and isinstance(field.default_value(), list | dict)
        ]
        self.bytes_min = sum(codec.bytes_min for codec in codecs.values()) + flexible

    def read(self, buffer: bytes, offset: int) -> tuple[dict[str, Any], int]:
        value = self._defaults.copy()
        for column, read_field in self._readers:
            value[column], offset = read_field(buffer, offset)
        for field in self._unshared:
            value[field.column] = field.default_value()
        if self._tags is not None:
            offset = self._tags.read(buffer, offset, value)
        return value, offset

    def write(self, out: bytearray, value: Any) -> None:
        if not isinstance(value, dict):
            raise EncodeError(f"a struct is a dict, not {type(value).__name__}")
        if not value.keys() <= self._columns:
            raise EncodeError(f"{sorted(value.keys() - self._columns)} are not among {list(self._defaults)}")
        for column, write_field in self._writers:
            if column not in value:
                raise EncodeError(f"{column} is missing")
            write_field(out, value[column])
        for column in self._lacking:
            if value.get(column, self._defaults[column]) != self._defaults[column]:
                raise EncodeError(f"version {self._version} has no {column}")
        if self._tags is not None:
            self._tags.write(out, value)


class _Tags:
    """Reads and writes the section of tagged fields at the end of a flexible struct."""

    def __init__(self, fields: tuple[Field, ...], version: int) -> None:
        self._known = {
            field.tag: (field.column, field.default_value(), _field_codec(field, version, flexible=True))
            for field in fields
            if field.tag is not None and version in field.versions
        }

    def read(self, buffer: bytes, offset: int, value: dict[str, Any]) -> int:
        """Puts the section at `offset` into the struct's dict, and returns the offset after it."""
        count, start = primitives.read_unsigned_varint(buffer, offset)
        # A tag and its size take a byte each.
        if 2 * count > len(buffer) - start:
            raise LengthPastEndError(f"{count} tags, but {len(buffer) - start} bytes remain", offset)
        offset = start
        previous_tag = -1
        unknown = []
        for _ in range(count):
            tag, start = primitives.read_unsigned_varint(buffer, offset)
            if tag <= previous_tag:
                raise InvalidTagError(f"tag {tag} after tag {previous_tag}", offset)
            previous_tag = tag
            size, start = primitives.read_unsigned_varint(buffer, start)
            end = start + size
            if tag in self._known:
                column, _, codec = self._known[tag]
                value[column], stop = codec.read(buffer, start)
                if stop != end:
                    raise InvalidTagError(f"tag {tag} of {size} bytes, {stop - start} read", offset)
            elif end > len(buffer):
                raise LengthPastEndError(f"tag {tag} of {size} bytes, too many", offset)
            else:
                unknown.append((tag, buffer[start:end]))
            offset = end
        if unknown:
            value[UNKNOWN_TAGGED_FIELDS] = unknown
        return offset

    def write(self, out: bytearray, value: dict[str, Any]) -> None:
        section = {}
        for tag, (column, default, codec) in self._known.items():
            if value.get(column, default) != default:
                section[tag] = bytearray()
                codec.write(section[tag], value[column])
        for tag, raw in value.get(UNKNOWN_TAGGED_FIELDS, ()):
            if tag in self._known or tag in section:
                raise EncodeError(f"tag {tag} is known or given twice")
            section[tag] = raw
        primitives.write_unsigned_varint(out, len(section))
        for tag in sorted(section):
            primitives.write_unsigned_varint(out, tag)
            primitives.write_unsigned_varint(out, len(section[tag]))
            out += section[tag]

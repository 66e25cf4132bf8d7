"""Readers and writers of Kafka's primitive wire types.

A reader takes `(buffer, offset)` and returns `(value, next_offset)`; it raises subclasses of DecodeError only,
and slices nothing by a length that it has not compared with the bytes that remain. A writer takes
`(out, value)` and appends to `out`; it raises EncodeError for a value that the type can't hold.

Integers are big-endian. A length is an int16 (strings), an int32 (bytes, arrays) or, compact, an
unsigned varint of the length plus one (KIP-482); null is -1, or 0 compact. As in Kafka's generated
readers, strings hold at most 32,767 bytes in either form. Unlike in those readers, lengths below -1 are
errors, not nulls, and malformed UTF-8 is an error, not U+FFFD.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

from groupledger.schemas.codec.errors import (
    EncodeError,
    InvalidUtf8Error,
    LengthPastEndError,
    NegativeLengthError,
    NullNotAllowedError,
    StringTooLongError,
    TruncatedError,
    VarintTooLongError,
)

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]

STRING_BYTES_MAX = 0x7FFF
VARINT_BYTES_MAX = 5
UNSIGNED_VARINT_MAX = 0xFFFFFFFF
UUID_BYTES = 16
NULL = -1
_LOW, _MORE = 0x7F, 0x80


def _integer(code: str) -> tuple[Reader, Writer]:
    layout = struct.Struct(">" + code)
    size = layout.size

    def read(buffer: bytes, offset: int) -> tuple[int, int]:
        try:
            return layout.unpack_from(buffer, offset)[0], offset + size
        except struct.error:
            raise truncated(size, buffer, offset) from None

    def write(out: bytearray, value: int) -> None:
        try:
            out += layout.pack(value)
        except struct.error as error:
            raise EncodeError(f"{value!r} is no {size}-byte integer: {error}") from None

    return read, write


def truncated(size: int, buffer: bytes, offset: int) -> TruncatedError:
    return TruncatedError(f"{size} bytes expected, {len(buffer) - offset} remain", offset)


read_int8, write_int8 = _integer("b")
read_int16, write_int16 = _integer("h")
read_uint16, write_uint16 = _integer("H")
read_int32, write_int32 = _integer("i")
read_int64, write_int64 = _integer("q")


def read_unsigned_varint(buffer: bytes, offset: int) -> tuple[int, int]:
    """Reads seven bits from each byte, the low ones first; the top bit says that another byte follows.

    As in Kafka, needless bytes are accepted and bits above the 32nd are dropped.
    """
    value = 0
    end = offset
    for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
        if end >= len(buffer):
            raise TruncatedError("the bytes end inside a varint", offset)
        byte = buffer[end]
        end += 1
        value |= (byte & _LOW) << shift
        if byte <= _LOW:
            return value & UNSIGNED_VARINT_MAX, end
    raise VarintTooLongError(f"a varint of more than {VARINT_BYTES_MAX} bytes", offset)


def write_unsigned_varint(out: bytearray, value: int) -> None:
    if not 0 <= value <= UNSIGNED_VARINT_MAX:
        raise EncodeError(f"{value!r} is no unsigned 32-bit integer")
    while value > _LOW:
        out.append(value & _LOW | _MORE)
        value >>= 7
    out.append(value)


def read_uuid(buffer: bytes, offset: int) -> tuple[str, int]:
    end = offset + UUID_BYTES
    if end > len(buffer):
        raise truncated(UUID_BYTES, buffer, offset)
    return urlsafe_b64encode(buffer[offset:end])[:-2].decode("ascii"), end


def write_uuid(out: bytearray, value: str) -> None:
    try:
        raw = urlsafe_b64decode(value + "==")
    except (TypeError, ValueError):
        raw = b""
    if len(raw) != UUID_BYTES or urlsafe_b64encode(raw)[:-2].decode("ascii") != value:
        raise EncodeError(f"{value!r} is no UUID in Kafka's 22 characters")
    out += raw


def _checked_length(length: int, buffer: bytes, start: int, end: int) -> tuple[int, int]:
    """Checks the length of a field that starts at `start` and whose content would start at `end`."""
    if length > len(buffer) - end:
        raise LengthPastEndError(f"length {length}, but {len(buffer) - end} bytes remain", start)
    if length < NULL:
        raise NegativeLengthError(f"length {length}", start)
    return length, end


def read_int16_length(buffer: bytes, offset: int) -> tuple[int, int]:
    """Returns a length that the remaining bytes can hold, or NULL, and the offset after it. Raises DecodeErrors for any
    other length. The next two functions do the same for other forms of a length."""
    length, end = read_int16(buffer, offset)
    return _checked_length(length, buffer, offset, end)


def read_int32_length(buffer: bytes, offset: int) -> tuple[int, int]:
    length, end = read_int32(buffer, offset)
    return _checked_length(length, buffer, offset, end)


def read_compact_length(buffer: bytes, offset: int) -> tuple[int, int]:
    length_plus_one, end = read_unsigned_varint(buffer, offset)
    return _checked_length(length_plus_one - 1, buffer, offset, end)


def write_compact_length(out: bytearray, length: int) -> None:
    write_unsigned_varint(out, length + 1)


def _load_string(raw: bytes, start: int) -> str:
    if len(raw) > STRING_BYTES_MAX:
        raise StringTooLongError(f"a string of {len(raw)} bytes", start)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidUtf8Error(error.reason, start + error.start) from None


def _dump_string(value: Any) -> bytes:
    if not isinstance(value, str):
        raise EncodeError(f"a string is a str, not {type(value).__name__}")
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise EncodeError("a string with a lone surrogate has no UTF-8 form") from None
    if len(raw) > STRING_BYTES_MAX:
        raise EncodeError(f"a string of {len(raw)} bytes, above {STRING_BYTES_MAX}")
    return raw


def _load_bytes(raw: bytes, _start: int) -> bytes:
    return raw


def _dump_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise EncodeError(f"bytes are bytes, not {type(value).__name__}")
    return value


def null_not_allowed(offset: int) -> NullNotAllowedError:
    return NullNotAllowedError("null in a field that has none", offset)


def _sized(
    length: tuple[Reader, Writer],
    load: Callable[[bytes, int], Any],
    dump: Callable[[Any], bytes],
    *,
    nullable: bool,
) -> tuple[Reader, Writer]:
    """Returns the codec of a length and its content; `load` is given the content and its offset."""
    read_length, write_length = length

    def read(buffer: bytes, offset: int) -> tuple[Any, int]:
        length, start = read_length(buffer, offset)
        if length < 0:
            if nullable:
                return None, start
            raise null_not_allowed(offset)
        end = start + length
        return load(buffer[start:end], start), end

    def write(out: bytearray, value: Any) -> None:
        if value is None and nullable:
            write_length(out, NULL)
        else:
            raw = dump(value)
            write_length(out, len(raw))
            out += raw

    return read, write


_INT16 = (read_int16_length, write_int16)
_INT32 = (read_int32_length, write_int32)
_COMPACT = (read_compact_length, write_compact_length)
_STRING = (_load_string, _dump_string)
_BYTES = (_load_bytes, _dump_bytes)

read_string, write_string = _sized(_INT16, *_STRING, nullable=False)
read_nullable_string, write_nullable_string = _sized(_INT16, *_STRING, nullable=True)
read_compact_string, write_compact_string = _sized(_COMPACT, *_STRING, nullable=False)
read_compact_nullable_string, write_compact_nullable_string = _sized(_COMPACT, *_STRING, nullable=True)
read_bytes, write_bytes = _sized(_INT32, *_BYTES, nullable=False)
read_nullable_bytes, write_nullable_bytes = _sized(_INT32, *_BYTES, nullable=True)
read_compact_bytes, write_compact_bytes = _sized(_COMPACT, *_BYTES, nullable=False)
read_compact_nullable_bytes, write_compact_nullable_bytes = _sized(_COMPACT, *_BYTES, nullable=True)

"""Each primitive reader and writer keeps the contract at the head of `primitives.py`.

A contract is a class of tests that every kind of reader inherits; a kind says which reader, which
writer and which values.
"""

from contextlib import suppress
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.codec import primitives
from groupledger.schemas.codec.errors import (
    DecodeError,
    EncodeError,
    InvalidUtf8Error,
    LengthPastEndError,
    NegativeLengthError,
    NullNotAllowedError,
    StringTooLongError,
    TruncatedError,
    VarintTooLongError,
)
from groupledger.schemas.codec.primitives import Reader, Writer

BEFORE, AFTER = b"\xaa\xbb", b"\xcc"


def written(writer: Writer, value: Any) -> bytes:
    out = bytearray()
    writer(out, value)
    return bytes(out)


class ReaderContract:
    """`values` are pairs of a value and its only encoding; `unfit` are values that it can't hold."""

    reader: ClassVar[Reader]
    writer: ClassVar[Writer]
    values: ClassVar[tuple[tuple[Any, bytes], ...]]
    unfit: ClassVar[tuple[Any, ...]]

    def read(self, buffer: bytes, offset: int) -> tuple[Any, int]:
        return type(self).reader(buffer, offset)

    def test_reads_between_other_bytes(self) -> None:
        """The value is found at its offset, and the next offset is the first that is not its own."""
        for value, encoded in self.values:
            buffer = BEFORE + encoded + AFTER
            assert self.read(buffer, len(BEFORE)) == (value, len(BEFORE) + len(encoded))

    def test_writes_what_it_reads(self) -> None:
        """A value is written in its one encoding, after what is there already."""
        for value, encoded in self.values:
            out = bytearray(BEFORE)
            type(self).writer(out, value)
            assert out == BEFORE + encoded

    def test_refuses_every_strict_prefix(self) -> None:
        """A value that is cut off is refused at its own offset or after it, never shortened."""
        for _, encoded in self.values:
            for length in range(len(encoded)):
                with pytest.raises((TruncatedError, LengthPastEndError)) as caught:
                    self.read(BEFORE + encoded[:length], len(BEFORE))
                assert caught.value.offset >= len(BEFORE)

    def test_refuses_to_write_what_it_cannot_hold(self) -> None:
        """A value of another type or range is our mistake, and says so."""
        for value in self.unfit:
            with pytest.raises(EncodeError):
                written(type(self).writer, value)


class TestInt8(ReaderContract):
    reader = primitives.read_int8
    writer = primitives.write_int8
    values = ((0, b"\x00"), (-1, b"\xff"), (127, b"\x7f"), (-128, b"\x80"))
    unfit = (128, -129, "1", None, 1.5)


class TestInt16(ReaderContract):
    reader = primitives.read_int16
    writer = primitives.write_int16
    values = ((0, b"\x00\x00"), (-2, b"\xff\xfe"), (0x7FFF, b"\x7f\xff"), (-0x8000, b"\x80\x00"))
    unfit = (0x8000, None)


class TestUint16(ReaderContract):
    reader = primitives.read_uint16
    writer = primitives.write_uint16
    values = ((0, b"\x00\x00"), (0xFFFF, b"\xff\xff"), (9092, b"\x23\x84"))
    unfit = (-1, 0x10000, None)


class TestInt32(ReaderContract):
    reader = primitives.read_int32
    writer = primitives.write_int32
    values = ((1, b"\x00\x00\x00\x01"), (-1, b"\xff" * 4), (2**31 - 1, b"\x7f\xff\xff\xff"))
    unfit = (2**31, None)


class TestInt64(ReaderContract):
    reader = primitives.read_int64
    writer = primitives.write_int64
    values = ((1, b"\x00" * 7 + b"\x01"), (-(2**63), b"\x80" + b"\x00" * 7))
    unfit = (2**63, None)


class TestUnsignedVarint(ReaderContract):
    reader = primitives.read_unsigned_varint
    writer = primitives.write_unsigned_varint
    values = (
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**31 - 1, b"\xff\xff\xff\xff\x07"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    )
    unfit = (-1, 2**32)

    @pytest.mark.parametrize(
        ("encoded", "value"),
        [
            pytest.param(b"\x81\x00", 1, id="two bytes for one"),
            pytest.param(b"\x80\x80\x80\x80\x00", 0, id="five bytes for zero"),
            pytest.param(b"\x80\x80\x80\x80\x10", 0, id="a bit above the 32nd"),
        ],
    )
    def test_accepts_needless_bytes_as_kafka_does(self, encoded: bytes, value: int) -> None:
        """Non-minimal varints have the value that Kafka's ByteUtils gives them."""
        assert self.read(encoded, 0) == (value, len(encoded))

    @pytest.mark.parametrize("length", [5, 6, 10, 1000])
    def test_refuses_a_varint_that_does_not_end(self, length: int) -> None:
        """A fifth byte that announces a sixth is refused, whatever follows."""
        with pytest.raises(VarintTooLongError):
            self.read(b"\x80" * length, 0)


class TestUuid(ReaderContract):
    reader = primitives.read_uuid
    writer = primitives.write_uuid
    values = (
        ("A" * 22, bytes(16)),
        ("_" * 21 + "w", b"\xff" * 16),
        ("ASNFZ4mrze_-3LqYdlQyEA", bytes.fromhex("0123456789abcdeffedcba9876543210")),
    )
    unfit = ("", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "é" * 22, None, b"A" * 22)


class StringContract(ReaderContract):
    """The string forms differ in their length only."""

    length_of: ClassVar[Writer]
    is_nullable: ClassVar[bool] = False
    null: ClassVar[bytes]
    unfit = (b"bytes", 1, "\ud800", "a" * 0x8000)

    def test_reads_any_text_back(self) -> None:
        """Unicode, control characters and the longest string come back as they were."""
        for text in ("", "café 消費者 😀\x00\n", "a" * 127, "a" * 128, "é" * 0x3FFF + "a"):
            encoded = written(type(self).writer, text)
            assert encoded == written(type(self).length_of, len(text.encode())) + text.encode()
            assert self.read(encoded, 0) == (text, len(encoded))

    def test_refuses_malformed_utf8(self) -> None:
        """Bytes that are no UTF-8 are refused where they begin: lone, overlong and surrogate forms."""
        malformed = (
            (b"\xff", 0),
            (b"a\xc0\x80", 1),
            (b"ab\xed\xa0\x80", 2),
            (b"\xf4\x90\x80\x80", 0),
            (b"\xe2\x82", 0),
        )
        for raw, bad_at in malformed:
            length = written(type(self).length_of, len(raw))
            with pytest.raises(InvalidUtf8Error) as caught:
                self.read(length + raw, 0)
            assert caught.value.offset == len(length) + bad_at

    def test_null_is_a_value_only_where_the_format_has_it(self) -> None:
        """Null is None for the nullable forms and an error for the others, both ways."""
        if self.is_nullable:
            assert self.read(self.null, 0) == (None, len(self.null))
            assert written(type(self).writer, None) == self.null
        else:
            with pytest.raises(NullNotAllowedError):
                self.read(self.null, 0)
            with pytest.raises(EncodeError):
                written(type(self).writer, None)


class TestString(StringContract):
    reader = primitives.read_string
    writer = primitives.write_string
    length_of = primitives.write_int16
    null = b"\xff\xff"
    values = (("", b"\x00\x00"), ("é", b"\x00\x02\xc3\xa9"))


class TestNullableString(StringContract):
    reader = primitives.read_nullable_string
    writer = primitives.write_nullable_string
    length_of = primitives.write_int16
    is_nullable = True
    null = b"\xff\xff"
    values = ((None, b"\xff\xff"), ("é", b"\x00\x02\xc3\xa9"))

    def test_refuses_a_length_below_null(self) -> None:
        """-1 is the only negative length; -2 is damage, where Kafka would see null."""
        with pytest.raises(NegativeLengthError):
            self.read(b"\xff\xfe", 0)


class TestCompactString(StringContract):
    reader = primitives.read_compact_string
    writer = primitives.write_compact_string
    length_of = primitives.write_compact_length
    null = b"\x00"
    values = (("", b"\x01"), ("é", b"\x03\xc3\xa9"))

    def test_refuses_more_than_kafka_takes(self) -> None:
        """A compact length could say more than 32,767 bytes, but Kafka refuses such a string."""
        longest = written(primitives.write_compact_length, 0x7FFF) + b"a" * 0x7FFF
        assert self.read(longest, 0) == ("a" * 0x7FFF, len(longest))
        with pytest.raises(StringTooLongError):
            self.read(written(primitives.write_compact_length, 0x8000) + b"a" * 0x8000, 0)


class TestCompactNullableString(StringContract):
    reader = primitives.read_compact_nullable_string
    writer = primitives.write_compact_nullable_string
    length_of = primitives.write_compact_length
    is_nullable = True
    null = b"\x00"
    values = ((None, b"\x00"), ("é", b"\x03\xc3\xa9"))


class TestBytes(ReaderContract):
    reader = primitives.read_bytes
    writer = primitives.write_bytes
    values = ((b"", b"\x00" * 4), (b"\xff\x00", b"\x00\x00\x00\x02\xff\x00"))
    unfit = (None, "text", bytearray(b"x"))

    @pytest.mark.parametrize(
        ("length", "error"),
        [
            (b"\xff\xff\xff\xff", NullNotAllowedError),
            (b"\xff\xff\xff\xfe", NegativeLengthError),
            (b"\x80\x00\x00\x00", NegativeLengthError),
            (b"\x7f\xff\xff\xff", LengthPastEndError),
        ],
    )
    def test_refuses_a_length_that_cannot_be(self, length: bytes, error: type[DecodeError]) -> None:
        """Negative lengths and lengths past the end have each their reason."""
        with pytest.raises(error):
            self.read(length + b"xx", 0)


class TestNullableBytes(ReaderContract):
    reader = primitives.read_nullable_bytes
    writer = primitives.write_nullable_bytes
    values = ((None, b"\xff" * 4), (b"", b"\x00" * 4), (b"x", b"\x00\x00\x00\x01x"))
    unfit = ("text",)


class TestCompactBytes(ReaderContract):
    reader = primitives.read_compact_bytes
    writer = primitives.write_compact_bytes
    values = ((b"", b"\x01"), (b"\xff\x00", b"\x03\xff\x00"), (b"a" * 127, b"\x80\x01" + b"a" * 127))
    unfit = (None, "text")


class TestCompactNullableBytes(ReaderContract):
    reader = primitives.read_compact_nullable_bytes
    writer = primitives.write_compact_nullable_bytes
    values = ((None, b"\x00"), (b"", b"\x01"))
    unfit = ("text",)


READERS = [getattr(primitives, name) for name in dir(primitives) if name.startswith("read_")]


@given(st.binary(max_size=40), st.integers(0, 45))
def test_no_reader_leaves_its_buffer_or_raises_another_error(buffer: bytes, offset: int) -> None:
    """On any bytes, each reader gives an offset inside the buffer or DecodeError kin."""
    for reader in READERS:
        with suppress(DecodeError):
            _, end = reader(buffer, offset)
            assert offset <= end <= len(buffer)

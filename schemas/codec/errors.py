"""The errors that the codec raises, for bytes that it can't read and for values that it can't write.

Whatever the bytes are, a reader raises `DecodeError`s only. Each kind has a `reason`, which is stored,
counted and grouped by, so reasons are never renamed. `EncodeError` is a mistake of the caller: a value
that its format can't hold.

| reason | raised when |
|---|---|
| null_key | the record has no key |
| empty_key | the key has no bytes |
| unknown_record_type | the key's leading int16 is no record type of Kafka 4.2 |
| retired_record_type | it is an id that only early builds of Kafka wrote |
| unknown_value_version | the value's leading int16 is no version of its record type |
| empty_protocol | a member's subscription or assignment has no bytes, as where the leader forgot it |
| unknown_protocol_version | the version that leads a member's bytes or a control record is below the first |
| unknown_control_type | a control record neither commits nor aborts a transaction |
| truncated | the bytes end inside a number |
| length_past_end | a length or count says more than the bytes that remain can hold |
| negative_length | a length or count is below -1 |
| null_not_allowed | null where the format has no null |
| string_too_long | a string has more than 32,767 bytes, which Kafka refuses |
| invalid_utf8 | a string is not UTF-8 |
| varint_too_long | a varint goes on after its fifth byte |
| invalid_tag | tags do not ascend, or a known field does not fill the size that its tag states |
| trailing_bytes | bytes remain after the last field of a key or value |
"""

from typing import ClassVar


class DecodeError(Exception):
    """The bytes are not of their format; `offset` says where in `part` ("key", "value" or "")."""

    reason: ClassVar[str]

    def __init__(self, detail: str, offset: int = 0, part: str = "") -> None:
        super().__init__(detail, offset, part)
        self.detail = detail
        self.offset = offset
        self.part = part

    def __str__(self) -> str:
        return f"{self.part} byte {self.offset}: {self.detail}".lstrip()


class NullKeyError(DecodeError):
    reason = "null_key"


class EmptyKeyError(DecodeError):
    reason = "empty_key"


class UnknownRecordTypeError(DecodeError):
    reason = "unknown_record_type"


class RetiredRecordTypeError(DecodeError):
    reason = "retired_record_type"


class UnknownValueVersionError(DecodeError):
    reason = "unknown_value_version"


class EmptyProtocolError(DecodeError):
    reason = "empty_protocol"


class UnknownProtocolVersionError(DecodeError):
    reason = "unknown_protocol_version"


class UnknownControlTypeError(DecodeError):
    reason = "unknown_control_type"


class TruncatedError(DecodeError):
    reason = "truncated"


class LengthPastEndError(DecodeError):
    reason = "length_past_end"


class NegativeLengthError(DecodeError):
    reason = "negative_length"


class NullNotAllowedError(DecodeError):
    reason = "null_not_allowed"


class StringTooLongError(DecodeError):
    reason = "string_too_long"


class InvalidUtf8Error(DecodeError):
    reason = "invalid_utf8"


class VarintTooLongError(DecodeError):
    reason = "varint_too_long"


class InvalidTagError(DecodeError):
    reason = "invalid_tag"


class TrailingBytesError(DecodeError):
    reason = "trailing_bytes"


class EncodeError(Exception):
    """The value does not fit its format."""

"""Decodes requests from frames, and encodes responses into them: a size of four bytes, a header, and the message.

A frame may come from anybody, so it is checked before it is used: the API and its version are served, the bytes are a
message of that version with a limited number of values, and no required field is null. A frame that fails a check is
reported with the reason, and ends the connection, as with Kafka. The exception is a version of ApiVersions that is not
served: the client gets the versions that are, in the answer's first version, and asks again.
"""

from __future__ import annotations

import struct
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from groupledger.jobs.coordinator.apis import SERVED
from groupledger.schemas.kafka.api_keys import ApiKey, api_name

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE_BYTES = 4
_START = struct.Struct(">hhi")  # API key, API version, correlation id
_LENGTH_OF_CLIENT_ID = 2
# A value takes at least a byte, so that a smaller frame is decoded, checked and answered in some tenths of a second.
COUNTED_FROM_BYTES = 1 << 16
# A commit of ten thousand partitions has sixty thousand.
VALUES_MAX = 100_000
# Errors of kafka-python for bytes that are not a message.
_NO_MESSAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError)


class MalformedError(Exception):
    """A frame does not contain a request that is served. The text is the reason, and shows only numbers from the
    frame."""


class Incoming(NamedTuple):
    """A decoded request: `version` is the version to answer in, and `body` kafka-python's message.

    `body` is None for an ApiVersions request in a version that is not served.
    """

    api: ApiKey
    version: int
    correlation_id: int
    client_id: str
    body: Any


def decode(frame: bytes) -> Incoming:
    """Returns the request in a frame. Raises MalformedError for an invalid one."""
    if len(frame) < _START.size + _LENGTH_OF_CLIENT_ID:
        raise MalformedError(f"a request of {len(frame)} bytes has no header")
    key, version, correlation_id = _START.unpack_from(frame)
    served = SERVED.get(key)
    if served is None:
        raise MalformedError(f"the API {api_name(key) or key} is not served")
    if not served.min_version <= version <= served.max_version:
        if key == ApiKey.API_VERSIONS:
            return Incoming(ApiKey.API_VERSIONS, 0, correlation_id, "", None)
        raise MalformedError(f"version {version} of {api_name(key)} is not served")
    try:
        if len(frame) > COUNTED_FROM_BYTES:
            _count_values(served.request, frame, version)
        body = served.request.decode(frame, version=version, header=True)
    except _NO_MESSAGE as error:
        raise MalformedError(f"the bytes are no {api_name(key)} request of version {version}") from error
    null = _null_finder(ApiKey(key), version)(body)
    if null is not None:
        raise MalformedError(f"{null} of {api_name(key)} must not be null")
    return Incoming(ApiKey(key), version, correlation_id, body.header.client_id or "", body)


class _Counted(BytesIO):
    """Gives the values of a frame, each with a call, as long as there are not too many."""

    left = VALUES_MAX

    def read(self, size: int | None = -1, /) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise MalformedError(f"a request of more than {VALUES_MAX:,} values")
        return super().read(size)


def _count_values(request: Any, frame: bytes, version: int) -> None:
    """Raises MalformedError if a frame holds too many values: kafka-python's quick decoder makes them all, whatever
    their number, and its other one, which reads them one by one, can be stopped."""
    data = _Counted(frame)
    request.parse_header(data, version=version)
    flexible = request.flexible_version_q(version)
    request._struct.decode(data, version=version, compact=flexible, tagged=flexible)  # noqa: SLF001 - no public way


def encode(correlation_id: int, message: Any) -> bytes:
    """Returns the frame of a response. `message` is kafka-python's, and is encoded in the version that it was made
    with."""
    message.with_header(correlation_id)
    encoded: bytes = message.encode(header=True, framed=True)
    return encoded


@cache
def _null_finder(api: ApiKey, version: int) -> Callable[[Any], str | None]:
    """Returns a function that finds the first required field of a request that is null."""
    return _finder_of(SERVED[api].request.fields.values(), version)


def _finder_of(fields: Any, version: int) -> Callable[[Any], str | None]:
    present = [field for field in fields if field.for_version_q(version)]
    # kafka-python has None for the UUID of zeros, which means no id, and for a tagged field that is left out.
    required = tuple(
        field.name
        for field in present
        if field.type_str != "uuid" and field.tag is None and not field.nullable_for_version_q(version)
    )
    simple_lists = tuple(field.name for field in present if field.is_array() and not field.is_struct_array())
    lists = [(field.name, _finder_of(field.fields.values(), version)) for field in present if field.is_struct_array()]

    def find(message: Any) -> str | None:
        for name in required:
            if getattr(message, name) is None:
                return str(name)
        for name in simple_lists:
            if None in (getattr(message, name) or ()):
                return f"an element of {name}"
        for name, of_element in lists:
            for element in getattr(message, name) or ():
                found = of_element(element)
                if found is not None:
                    return f"{name}.{found}"
        return None

    return find

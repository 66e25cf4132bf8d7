"""The topics of a consumer's subscription, as far as the broker reads it.

The broker parses the v0 prefix only, whatever version the client wrote: int16 version, topics, user data
(ConsumerProtocol). Where a number is cut off, the broker warns and goes on. A null, or a length beyond the end, is an
unchecked exception in the generated Java reader, and stops the operation that reads it. So this reader raises two kinds
of error. The codec's reader is another one: it reads the whole subscription and accepts other damage.
"""

from groupledger.coordinator.model.errors import IllegalStateError


class UnreadableSubscriptionError(Exception):
    """A number was cut off. The broker warns, and the topics are unknown to it."""


def topics_of_subscription(metadata: bytes) -> set[str]:
    _, offset = _read_int(metadata, 0, size=2)  # the version says nothing about the v0 prefix
    count, offset = _read_int(metadata, offset, size=4)
    if not 0 <= count <= len(metadata) - offset:
        raise IllegalStateError(f"subscription with {count} topics")
    topics = set()
    for _ in range(count):
        length, offset = _read_int(metadata, offset, size=2)
        topic, offset = _read_bytes(metadata, offset, length)
        topics.add(topic.decode("utf-8", "replace"))
    length, offset = _read_int(metadata, offset, size=4)
    if length >= 0:
        _read_bytes(metadata, offset, length)
    return topics


def _read_int(buffer: bytes, offset: int, *, size: int) -> tuple[int, int]:
    end = offset + size
    if end > len(buffer):
        raise UnreadableSubscriptionError
    return int.from_bytes(buffer[offset:end], "big", signed=True), end


def _read_bytes(buffer: bytes, offset: int, length: int) -> tuple[bytes, int]:
    end = offset + length
    if length < 0 or end > len(buffer):
        raise IllegalStateError(f"subscription with a field of {length} bytes")
    return buffer[offset:end], end

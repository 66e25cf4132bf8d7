"""Reads and writes records of MirrorMaker's offset syncs (`schemas.wire.offset_sync`).

As in Kafka, bytes after the last field are tolerated.
"""

from typing import NamedTuple

from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.primitives import (
    read_int32,
    read_int64,
    read_string,
    write_int32,
    write_int64,
    write_string,
)


class OffsetSync(NamedTuple):
    """The record at `upstream_offset` of the source's partition has its copy at `downstream_offset` of the target's."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int


def decode_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Returns the sync. Raises DecodeErrors only."""
    try:
        topic, at = read_string(key, 0)
        partition, _ = read_int32(key, at)
    except DecodeError as error:
        error.part = "key"
        raise
    try:
        upstream_offset, at = read_int64(value, 0)
        downstream_offset, _ = read_int64(value, at)
    except DecodeError as error:
        error.part = "value"
        raise
    return OffsetSync(topic, partition, upstream_offset, downstream_offset)


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    key, value = bytearray(), bytearray()
    write_string(key, sync.topic)
    write_int32(key, sync.partition)
    write_int64(value, sync.upstream_offset)
    write_int64(value, sync.downstream_offset)
    return bytes(key), bytes(value)

"""The fast path: offset commits, nearly all the volume of the topic, decoded a batch at a time.

Distinct keys are decoded once per batch by the codec and spread over the rows by Arrow's dictionary. The fields of a
value lie at fixed places but for one string (the commit metadata), so NumPy reads them for all rows of a version at
once. A row is taken only if every byte of it is accounted for; whatever does not fit to the byte (metadata that is
long or not ASCII, unknown tags, any damage) is left to the general codec, which alone decides what is an error. The
test of this file holds both ways equal.

Layouts, after the int16 version (`schemas.wire.offset_commit`):
    v0, v2  offset:8  length:2 metadata  commit_timestamp:8
    v1      offset:8  length:2 metadata  commit_timestamp:8  expire_timestamp:8
    v3      offset:8  leader_epoch:4  length:2 metadata  commit_timestamp:8
    v4      offset:8  leader_epoch:4  length+1:1 metadata  commit_timestamp:8  tags:1, or tags:1 tag:1 size:1
    topic_id:16
Version and length must both be looked at: a v4 value with empty metadata is as long as a v3 value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.primitives import read_uuid
from groupledger.schemas.codec.records import decode_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

VERSIONS = range(5)
FIRST_VERSION_WITH_LEADER_EPOCH = 3
VERSION_WITH_EXPIRY = 1
FLEXIBLE_VERSION = 4
# The bytes of a value beside its metadata, by version; of v4 without a topic id.
FIXED_BYTES = np.array([20, 28, 20, 24, 24])
# In a v4 value: the count of tags, tag 0, its size, and a UUID.
TOPIC_ID_TAG = np.array([1, 0, 16], np.uint8)
TOPIC_ID_BYTES = 16
# Up to here a compact string's length is one byte of varint, and the others fit as well.
METADATA_BYTES_MAX = 126
ASCII_MAX = 0x7F
# Distinct (group, topic, partition) kept between the batches of one task.
KEY_CACHE_SIZE = 200_000
ABSENT = -1

OFFSET_COMMIT_TYPE = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp_ms", pa.int64()),
        ("expire_timestamp_ms", pa.int64()),
        ("topic_id", pa.string()),
    ]
)


@dataclass(frozen=True)
class OffsetCommits:
    """Columns for the rows of a batch that were taken; `rows` are their places in the batch, ascending."""

    rows: Integers
    record_type: pa.Array
    value_version: pa.Array
    is_tombstone: pa.Array
    group_id: pa.Array
    offset_commit: pa.Array


def decode_offset_commits(keys: pa.BinaryArray, values: pa.BinaryArray) -> OffsetCommits:
    """Take every row that is an offset commit of a layout above, or the tombstone of one."""
    encoded = keys.dictionary_encode()
    distinct = [commit_key(key) for key in encoded.dictionary.to_pylist()]
    # A null key is one more code, behind the last.
    codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    is_commit = np.array([key is not None for key in distinct] + [False])
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    layout = read_layout(values, is_null)
    rows = np.flatnonzero(is_commit[codes] & (is_null | (layout.version != ABSENT)))
    fields = [key or ("", "", "", 0) for key in distinct]
    key_rows = pa.array(codes[rows])

    def key_field(index: int, data_type: pa.DataType) -> pa.Array:
        column = [key[index] for key in fields]
        if len(set(column)) == 1:  # the record type, nearly always
            return pa.repeat(pa.scalar(column[0], data_type), len(rows))
        return pa.array(column, data_type).take(key_rows)

    tombstone = is_null[rows]
    value_fields = layout.columns(rows, tombstone)
    return OffsetCommits(
        rows=rows,
        record_type=key_field(0, pa.string()),
        value_version=pa.array(layout.version[rows].astype(np.int32), mask=tombstone),
        is_tombstone=pa.array(tombstone),
        group_id=key_field(1, pa.string()),
        offset_commit=pa.StructArray.from_arrays(
            [key_field(2, pa.string()), key_field(3, pa.int32()), *value_fields], fields=list(OFFSET_COMMIT_TYPE)
        ),
    )


@lru_cache(maxsize=KEY_CACHE_SIZE)
def commit_key(key: bytes) -> tuple[str, str, str, int] | None:
    """(record type, group, topic, partition) of an offset commit's key; None for any other key."""
    try:
        record_type, fields = decode_key(key)
    except DecodeError:
        return None
    if record_type not in ("offset_commit", "legacy_offset_commit"):
        return None
    return record_type, fields["group_id"], fields["topic"], fields["partition"]


@dataclass(frozen=True)
class Layout:
    """What stands in each value, one entry per row; `version` is ABSENT where no layout fits, and so is
    `topic_id_start` where there is no topic id.
    """

    data: NDArray[np.uint8]
    version: Integers
    offset: Integers
    leader_epoch: Integers
    metadata_start: Integers
    metadata_bytes: Integers
    commit_timestamp_ms: Integers
    expire_timestamp_ms: Integers
    topic_id_start: Integers

    def columns(self, rows: Integers, tombstone: Flags) -> list[pa.Array]:
        """The value fields of some rows in the order of OFFSET_COMMIT_TYPE, null in a tombstone."""
        return [
            pa.array(self.offset[rows], mask=tombstone),
            pa.array(self.leader_epoch[rows].astype(np.int32), mask=tombstone),
            self._metadata(rows, tombstone),
            pa.array(self.commit_timestamp_ms[rows], mask=tombstone),
            pa.array(self.expire_timestamp_ms[rows], mask=tombstone),
            self._topic_id(rows),
        ]

    def _metadata(self, rows: Integers, tombstone: Flags) -> pa.Array:
        length = np.where(tombstone, 0, self.metadata_bytes[rows])
        text = self.data[spread(self.metadata_start[rows], length)]
        ends = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
        validity = pa.py_buffer(np.packbits(~tombstone, bitorder="little"))
        return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(text), validity)

    def _topic_id(self, rows: Integers) -> pa.Array:
        start = self.topic_id_start[rows]
        is_absent = start == ABSENT
        if is_absent.all():
            return pa.nulls(len(rows), pa.string())
        raw = self.data[np.where(is_absent, 0, start)[:, None] + np.arange(TOPIC_ID_BYTES)]
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(TOPIC_ID_BYTES), len(rows), [None, pa.py_buffer(raw)])
        encoded = fixed.dictionary_encode()
        names = pa.array([read_uuid(value, 0)[0] for value in encoded.dictionary.to_pylist()], pa.string())
        return names.take(pa.array(encoded.indices.to_numpy(), mask=is_absent))


class BigEndian:
    """Big-endian numbers at any byte of a buffer, many at once."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        self._views = {size: self._view(size) for size in (2, 4, 8)}

    def _view(self, size: int) -> NDArray[Any]:
        """One number for each byte at which one can start: the steps are single bytes, so the numbers overlap."""
        count = max(len(self.data) - size + 1, 0)
        view: NDArray[Any] = np.ndarray((count,), f">i{size}", self.data.data if count else b"", strides=(1,))
        return view

    def read(self, size: int, at: Integers) -> Integers:
        numbers: Integers = self._views[size][at].astype(np.int64)
        return numbers


def read_layout(values: pa.BinaryArray, is_null: Flags) -> Layout:
    """Look at every value; those that are null or have none of the layouts get version ABSENT."""
    count = len(values)
    _, bounds_buffer, data_buffer = values.buffers()
    bounds = np.frombuffer(bounds_buffer, np.int32, count + 1, values.offset * 4).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    numbers = BigEndian(data)
    start, length = bounds[:-1], np.diff(bounds)
    candidates = np.flatnonzero(~is_null & (length >= FIXED_BYTES.min()))
    candidate_version = numbers.read(2, start[candidates])
    columns: dict[str, Integers] = {
        name: np.full(count, ABSENT, np.int64) for name in Layout.__dataclass_fields__ if name != "data"
    }
    for version in VERSIONS:
        rows = candidates[candidate_version == version]
        if len(rows):
            read_version(version, rows, start, length, numbers, columns)
    return Layout(data=data, **columns)


def read_version(
    version: int, rows: Integers, start: Integers, length: Integers, numbers: BigEndian, columns: dict[str, Integers]
) -> None:
    """Fill in the rows of one version that fit its layout to the byte."""
    data = numbers.data
    rows = rows[length[rows] >= FIXED_BYTES[version]]
    at = start[rows]
    metadata_length_at = at + (14 if version >= FIRST_VERSION_WITH_LEADER_EPOCH else 10)
    if version == FLEXIBLE_VERSION:
        metadata_bytes = data[metadata_length_at].astype(np.int64) - 1
        metadata_at = metadata_length_at + 1
    else:
        metadata_bytes = numbers.read(2, metadata_length_at)
        metadata_at = metadata_length_at + 2
    extra = length[rows] - FIXED_BYTES[version] - metadata_bytes
    fits = (metadata_bytes >= 0) & (metadata_bytes <= METADATA_BYTES_MAX) & (extra == 0)
    if version == FLEXIBLE_VERSION:
        fits = has_layout_4(fits, extra, at + length[rows], metadata_bytes, data)
    fits[fits] = is_ascii(data, metadata_at[fits], metadata_bytes[fits])
    rows, at, metadata_at, metadata_bytes = rows[fits], at[fits], metadata_at[fits], metadata_bytes[fits]
    after = metadata_at + metadata_bytes
    columns["version"][rows] = version
    columns["offset"][rows] = numbers.read(8, at + 2)
    columns["metadata_start"][rows] = metadata_at
    columns["metadata_bytes"][rows] = metadata_bytes
    columns["commit_timestamp_ms"][rows] = numbers.read(8, after)
    if version >= FIRST_VERSION_WITH_LEADER_EPOCH:
        columns["leader_epoch"][rows] = numbers.read(4, at + 10)
    if version == VERSION_WITH_EXPIRY:
        columns["expire_timestamp_ms"][rows] = numbers.read(8, after + 8)
    if version == FLEXIBLE_VERSION:
        has_topic_id = extra[fits] > 0
        columns["topic_id_start"][rows[has_topic_id]] = after[has_topic_id] + 8 + len(TOPIC_ID_TAG)


def has_layout_4(
    has_no_tags: Flags, extra: Integers, end: Integers, metadata_bytes: Integers, data: NDArray[np.uint8]
) -> Flags:
    """Which v4 values have no tag, or the topic id alone; a topic id of zeroes is left to the general codec."""
    fits = np.zeros(len(extra), np.bool_)
    fits[has_no_tags] = data[end[has_no_tags] - 1] == 0
    tagged = np.flatnonzero(
        (extra == TOPIC_ID_BYTES + len(TOPIC_ID_TAG) - 1)
        & (metadata_bytes >= 0)
        & (metadata_bytes <= METADATA_BYTES_MAX)
    )
    if len(tagged):
        tag_at = end[tagged] - TOPIC_ID_BYTES - len(TOPIC_ID_TAG)
        is_tag = (data[tag_at[:, None] + np.arange(len(TOPIC_ID_TAG))] == TOPIC_ID_TAG).all(axis=1)
        topic_id = data[end[tagged][:, None] - TOPIC_ID_BYTES + np.arange(TOPIC_ID_BYTES)]
        fits[tagged] = is_tag & topic_id.any(axis=1)
    return fits


def is_ascii(data: NDArray[np.uint8], start: Integers, length: Integers) -> Flags:
    """Whether each stretch of bytes is ASCII, and so valid UTF-8 without a look at its grammar."""
    result = np.ones(len(start), np.bool_)
    high = np.flatnonzero(data[spread(start, length)] > ASCII_MAX)
    result[np.searchsorted(np.cumsum(length), high, side="right")] = False
    return result


def spread(start: Integers, length: Integers) -> Integers:
    """The places of all bytes of all stretches, one after the other."""
    if not length.any():
        return np.zeros(0, np.int64)
    ends = np.cumsum(length)
    places: Integers = np.arange(ends[-1]) + np.repeat(start - (ends - length), length)
    return places

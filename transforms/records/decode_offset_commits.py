"""Decodes offset commits a batch at a time. This is the fast path for nearly all records of the topic.

Distinct keys are decoded once per batch by the codec and spread over the rows by Arrow's dictionary. All fields of a
value except one string lie at fixed places (`offset_commit_layouts`), so NumPy reads them for all rows of a version at
once. A row is taken only if every byte of it is accounted for; whatever does not fit to the byte (metadata that is long
or not ASCII, other tags, any damage) is left to the general codec, which alone decides what is an error. The test of
this file compares the results of both.

Version and length must both be looked at: a v4 value with empty metadata is as long as a v3 value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from groupledger.schemas.arrow import arrow_type
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.primitives import read_uuid
from groupledger.schemas.codec.records import decode_key
from groupledger.schemas.tables.coordinator_records import OFFSET_COMMIT
from groupledger.schemas.wire.offset_commit import OFFSET_COMMIT as WIRE_FORMAT
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES
from groupledger.transforms.records.offset_commit_layouts import (
    INTEGER_BYTES,
    LAYOUTS,
    METADATA,
    TOPIC_ID,
    TOPIC_ID_BYTES,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from groupledger.transforms.records.offset_commit_layouts import Layout

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

# Up to here a compact string's length is one byte of varint, and the others fit as well.
METADATA_BYTES_MAX = 126
ASCII_MAX = 0x7F
# Distinct (group, topic, partition) kept between the batches of one task.
KEY_CACHE_SIZE = 200_000
ABSENT = -1
# How wide the bounds of values are, which Spark's `arrow.useLargeVarTypes` decides.
BOUNDS = {pa.binary(): np.int32, pa.large_binary(): np.int64}

OFFSET_COMMIT_TYPE = arrow_type(OFFSET_COMMIT)
# The default of a field in values whose version lacks it, or whose tags do not have it.
DEFAULTS = {field.column: field.default_value() for field in WIRE_FORMAT.value.fields}
INTEGER_COLUMNS = [field.column for field in WIRE_FORMAT.value.fields if field.type in INTEGER_BYTES]


@dataclass(frozen=True, kw_only=True)
class OffsetCommits:
    """The decoded columns of the rows that the fast path has decoded; `rows` are their indexes in the batch,
    ascending."""

    rows: Integers
    record_type: pa.Array
    value_version: pa.Array
    is_tombstone: pa.Array
    group_id: pa.Array
    offset_commit: pa.Array


def decode_offset_commits(keys: pa.BinaryArray, values: pa.BinaryArray) -> OffsetCommits:
    """Returns the decoded rows of a batch: every offset commit of a known layout, and every tombstone of an offset."""
    encoded = keys.dictionary_encode()
    distinct = [commit_key(key) for key in encoded.dictionary.to_pylist()]
    # A null key is one more code, after the last.
    codes = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
    is_commit = np.array([key is not None for key in distinct] + [False])
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    found = read_values(values, is_null)
    rows = np.flatnonzero(is_commit[codes] & (is_null | (found.version != ABSENT)))
    fields = [key or ("", "", "", 0) for key in distinct]
    key_rows = pa.array(codes[rows])

    def key_field(index: int, data_type: pa.DataType) -> pa.Array:
        column = [key[index] for key in fields]
        if len(set(column)) == 1:  # the record type, nearly always
            return pa.repeat(pa.scalar(column[0], data_type), len(rows))
        return pa.array(column, data_type).take(key_rows)

    tombstone = is_null[rows]
    columns = {"topic": key_field(2, pa.string()), "partition": key_field(3, pa.int32())}
    columns |= {name: found.column(name, rows, tombstone) for name in DEFAULTS}
    return OffsetCommits(
        rows=rows,
        record_type=key_field(0, pa.string()),
        value_version=pa.array(found.version[rows].astype(np.int32), mask=tombstone),
        is_tombstone=pa.array(tombstone),
        group_id=key_field(1, pa.string()),
        offset_commit=pa.StructArray.from_arrays(
            [columns[field.name] for field in OFFSET_COMMIT_TYPE], fields=list(OFFSET_COMMIT_TYPE)
        ),
    )


@lru_cache(maxsize=KEY_CACHE_SIZE)
def commit_key(key: bytes) -> tuple[str, str, str, int] | None:
    """Returns (record type, group, topic, partition) of an offset commit's key, and None for any other key."""
    try:
        record_type, fields = decode_key(key)
    except DecodeError:
        return None
    if record_type not in OFFSET_COMMIT_TYPES:
        return None
    return record_type, fields["group_id"], fields["topic"], fields["partition"]


@dataclass(frozen=True, kw_only=True)
class Values:
    """The fields of each value of a batch, one entry per row.

    `version` is ABSENT if no layout fits, and `topic_id_start` is ABSENT if there is no topic id. `integers` has the
    integer fields by column; a field that the version lacks has its default.
    """

    data: NDArray[np.uint8]
    version: Integers
    metadata_start: Integers
    metadata_bytes: Integers
    topic_id_start: Integers
    integers: dict[str, Integers]

    def column(self, name: str, rows: Integers, tombstone: Flags) -> pa.Array:
        """Returns a field of the value for some rows, null in a tombstone."""
        if name in self.integers:
            integer_type = OFFSET_COMMIT_TYPE.field(name).type.to_pandas_dtype()
            return pa.array(self.integers[name][rows].astype(integer_type, copy=False), mask=tombstone)
        if name == METADATA:
            return self._metadata(rows, tombstone)
        if name == TOPIC_ID:
            return self._topic_id(rows)
        # No version that has this field has a layout.
        null_or_default = pa.array([None, DEFAULTS[name]], OFFSET_COMMIT_TYPE.field(name).type)
        return null_or_default.take(pa.array((~tombstone).astype(np.int32)))

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
        raw = sliding_window_view(self.data, TOPIC_ID_BYTES)[np.where(is_absent, 0, start)]
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(TOPIC_ID_BYTES), len(rows), [None, pa.py_buffer(raw)])
        encoded = fixed.dictionary_encode()
        names = pa.array([read_uuid(value, 0)[0] for value in encoded.dictionary.to_pylist()], pa.string())
        return names.take(pa.array(encoded.indices.to_numpy(), mask=is_absent))


class BigEndian:
    """Reads big-endian numbers at any byte of a buffer, many at once."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        self._views = {size: self._view(size) for size in (2, 4, 8)}

    def _view(self, size: int) -> NDArray[Any]:
        """Returns a number for each byte at which one can start: a step is one byte, so the numbers overlap."""
        count = max(len(self.data) - size + 1, 0)
        view: NDArray[Any] = np.ndarray((count,), f">i{size}", self.data.data if count else b"", strides=(1,))
        return view

    def read(self, size: int, at: Integers) -> Integers:
        numbers: Integers = self._views[size][at].astype(np.int64)
        return numbers


def read_values(values: pa.BinaryArray, is_null: Flags) -> Values:
    """Returns the fields of every value. Values that are null or have no layout get the version ABSENT. Raises
    TypeError if Arrow's type of the values is not one that can be read here."""
    if values.type not in BOUNDS:
        raise TypeError(
            f"Arrow gave the values as {values.type}, which the decoder can't read: remove the settings"
            " spark.sql.execution.arrow.* that are not groupledger's."
        )
    count = len(values)
    _, bounds_buffer, data_buffer = values.buffers()
    width = np.dtype(BOUNDS[values.type])
    bounds = np.frombuffer(bounds_buffer, width, count + 1, values.offset * width.itemsize).astype(np.int64, copy=False)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    numbers = BigEndian(data)
    start, length = bounds[:-1], np.diff(bounds)
    found = Values(
        data=data,
        version=np.full(count, ABSENT),
        metadata_start=np.full(count, ABSENT),
        metadata_bytes=np.full(count, ABSENT),
        topic_id_start=np.full(count, ABSENT),
        integers={name: np.full(count, DEFAULTS[name]) for name in INTEGER_COLUMNS},
    )
    candidates = np.flatnonzero(~is_null & (length >= min(layout.fixed_bytes for layout in LAYOUTS)))
    candidate_version = numbers.read(2, start[candidates])
    for layout in LAYOUTS:
        rows = candidates[candidate_version == layout.version]
        rows = rows[length[rows] >= layout.fixed_bytes]
        if len(rows):
            read_version(layout, rows, start[rows], length[rows], numbers, found)
    return found


def read_version(
    layout: Layout, rows: Integers, at: Integers, length: Integers, numbers: BigEndian, values: Values
) -> None:
    """Fills in the fields of those rows of one version that fit its layout to the byte. `at` and `length` are where
    their values begin, and how long they are."""
    data = numbers.data
    length_at = at + layout.length_offset
    if layout.is_flexible:
        metadata_bytes = data[length_at].astype(np.int64) - 1
        metadata_at = length_at + 1
    else:
        metadata_bytes = numbers.read(2, length_at)
        metadata_at = length_at + 2
    extra = length - layout.fixed_bytes - metadata_bytes
    fits = (metadata_bytes >= 0) & (metadata_bytes <= METADATA_BYTES_MAX)
    if layout.is_flexible:
        fits[fits] = has_known_tags(layout, extra[fits], (at + length)[fits], data)
    else:
        fits &= extra == 0
    fits[fits] = is_ascii(data, metadata_at[fits], metadata_bytes[fits])
    rows, at, metadata_at, metadata_bytes = rows[fits], at[fits], metadata_at[fits], metadata_bytes[fits]
    after = metadata_at + metadata_bytes
    values.version[rows] = layout.version
    values.metadata_start[rows] = metadata_at
    values.metadata_bytes[rows] = metadata_bytes
    for start, places in ((at, layout.before), (after, layout.after)):
        for place in places:
            values.integers[place.column][rows] = numbers.read(place.size, start + place.offset)
    has_topic_id = extra[fits] > 0
    if has_topic_id.any():
        values.topic_id_start[rows[has_topic_id]] = (at + length[fits])[has_topic_id] - TOPIC_ID_BYTES


def has_known_tags(layout: Layout, extra: Integers, end: Integers, data: NDArray[np.uint8]) -> Flags:
    """Returns which values have no tag, or the topic id as their only tag. A topic id of zeroes is left to the general
    codec.

    `extra` are the bytes of a value that its layout does not account for, and `end` is the index after its last byte.
    """
    fits: Flags = extra == 0
    fits[fits] = data[end[fits] - 1] == 0
    tag = np.frombuffer(layout.topic_id_tag, np.uint8)
    tagged = np.flatnonzero(extra == len(tag) - 1 + TOPIC_ID_BYTES) if len(tag) else ()
    if len(tagged):
        section_bytes = len(tag) + TOPIC_ID_BYTES
        sections = sliding_window_view(data, section_bytes)[end[tagged] - section_bytes]
        fits[tagged] = (sections[:, : len(tag)] == tag).all(axis=1) & sections[:, len(tag) :].any(axis=1)
    return fits


def is_ascii(data: NDArray[np.uint8], start: Integers, length: Integers) -> Flags:
    """Returns whether each stretch of bytes is ASCII. Such bytes are also valid UTF-8, so nothing else has to be
    checked."""
    result = np.ones(len(start), np.bool_)
    high = np.flatnonzero(data[spread(start, length)] > ASCII_MAX)
    result[np.searchsorted(np.cumsum(length), high, side="right")] = False
    return result


def spread(start: Integers, length: Integers) -> Integers:
    """Returns the indexes of the bytes of all stretches, one after the other. Each stretch begins at `start` and has
    `length` bytes."""
    if not length.any():
        return np.zeros(0, np.int64)
    ends = np.cumsum(length)
    places: Integers = np.arange(ends[-1]) + np.repeat(start - (ends - length), length)
    return places

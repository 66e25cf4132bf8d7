"""Computes where the fields of an offset commit's value lie, for each version of `schemas.wire.offset_commit`.

In every version that Kafka has written so far, all fields are integers but for one string, the commit metadata, and one
tagged UUID, the topic id. So an integer lies at a fixed place after the start of the value or after the end of the
metadata. The layouts, each after an int16 with the version:

    v0, v2  offset:8  length:2 metadata  commit_timestamp:8
    v1      offset:8  length:2 metadata  commit_timestamp:8  expire_timestamp:8
    v3      offset:8  leader_epoch:4  length:2 metadata  commit_timestamp:8
    v4      offset:8  leader_epoch:4  length+1:1 metadata  commit_timestamp:8  tags:1, or tags:1 tag:1 size:1
    topic_id:16

A version of another shape has no layout here, and the general codec reads its values.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupledger.schemas.wire.model import Field, Primitive, WireType
from groupledger.schemas.wire.offset_commit import OFFSET_COMMIT

METADATA = "metadata"
TOPIC_ID = "topic_id"
VERSION_BYTES = 2
TOPIC_ID_BYTES = 16
INTEGER_BYTES: dict[WireType, int] = {Primitive.INT16: 2, Primitive.INT32: 4, Primitive.INT64: 8}


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """An integer of `size` bytes, `offset` bytes after the start of the value or the end of the metadata."""

    column: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of one version.

    `before` are the integers before the metadata, and `after` those after it. The length of the metadata is at
    `length_offset`. `fixed_bytes` is the size of a value without metadata and without tags. `topic_id_tag` are the
    first bytes of a section of tags that has only the topic id: the count of tags, the tag, and its size. It is empty
    if the version has no topic id.
    """

    version: int
    is_flexible: bool
    before: tuple[FieldPlace, ...]
    after: tuple[FieldPlace, ...]
    length_offset: int
    fixed_bytes: int
    topic_id_tag: bytes


def layout_of(version: int) -> Layout | None:
    """Returns the layout of a version; None if its fields do not have the shape that the head of this module
    describes."""
    carried = [field for field in OFFSET_COMMIT.value.fields if version in field.versions]
    plain = [field for field in carried if field.tag is None]
    strings = [index for index, field in enumerate(plain) if field.type not in INTEGER_BYTES]
    if [(plain[index].column, plain[index].type) for index in strings] != [(METADATA, Primitive.STRING)]:
        return None
    before, length_offset = places(plain[: strings[0]], VERSION_BYTES)
    after, after_bytes = places(plain[strings[0] + 1 :], 0)
    is_flexible = OFFSET_COMMIT.value.is_flexible(version)
    tags = [field.tag for field in carried if field.column == TOPIC_ID and field.tag is not None]
    return Layout(
        version=version,
        is_flexible=is_flexible,
        before=before,
        after=after,
        length_offset=length_offset,
        # A compact length is one byte, and so is the count of tags.
        fixed_bytes=length_offset + 2 + after_bytes,
        topic_id_tag=bytes([1, tags[0], TOPIC_ID_BYTES]) if is_flexible and tags else b"",
    )


def places(fields: list[Field], start: int) -> tuple[tuple[FieldPlace, ...], int]:
    """Returns the places of integers that lie one after the other, and the offset after the last."""
    found = []
    for field in fields:
        size = INTEGER_BYTES[field.type]
        found.append(FieldPlace(field.column, start, size))
        start += size
    return tuple(found), start


LAYOUTS = [layout for version in range(OFFSET_COMMIT.value.latest_version + 1) if (layout := layout_of(version))]
"""The versions that are read by their layout."""

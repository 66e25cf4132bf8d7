"""Turns a codec `Record` into the fields of a `coordinator_records` row, and back.

The fields of a row are those of the key, without the group, and those of the value. JSON has no bytes, so they are
base64 in `record_json`, which is also how Spark reads a BINARY from JSON.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS
from groupledger.schemas.codec.records import Record
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.wire.model import Array, Primitive, Struct
from groupledger.schemas.wire.record_types import OFFSET_COMMIT_TYPES, RECORD_TYPE_BY_NAME
from groupledger.transforms.records.member_details import member_details

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.schemas.wire.model import Field, WireType


def record_fields(record: Record) -> dict[str, Any]:
    """Returns the fields of a record as a row stores them: its key without the group, and its value."""
    key = {name: value for name, value in record.key.items() if name != "group_id"}
    value = record.value or {}
    if record.record_type == "group_metadata" and record.value is not None:
        members = [
            member | member_details(member, value["protocol_type"], value["protocol"]) for member in value["members"]
        ]
        value = value | {"members": members}
    if record.record_type in OFFSET_COMMIT_TYPES and value.get("topic_id") == ZERO_UUID:
        value = value | {"topic_id": None}
    return key | value


def record_json(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, default=base64_text)


def base64_text(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is not a wire type")
    return base64.b64encode(value).decode("ascii")


def record_of_row(row: Mapping[str, Any]) -> Record:
    """Returns the record of a decoded row, which is a dict of the columns of `coordinator_records`."""
    kind = RECORD_TYPE_BY_NAME[row["record_type"]]
    fields = dict(row["offset_commit"]) if row["record_json"] is None else json.loads(row["record_json"])
    fields["group_id"] = row["group_id"]
    key = {field.column: fields[field.column] for field in kind.key}
    value = None if row["is_tombstone"] else wire_values(kind.value.fields, fields)
    return Record(row["record_type"], key, row["value_version"], value)


def wire_values(fields: tuple[Field, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns only the fields of the wire format, with bytes as bytes, and the tagged fields that the format does not
    know.

    A field that the row lacks gets its default: an older release that did not know the field has written the row.
    """
    known = {field.column: wire_value(field.type, values.get(field.column)) for field in fields}
    for field in fields:
        if known[field.column] is None and (field.column not in values or field.nullable is None):
            known[field.column] = field.default_value()
    unknown = values.get(UNKNOWN_TAGGED_FIELDS)
    if unknown is None:
        return known
    return known | {UNKNOWN_TAGGED_FIELDS: [(tag, base64.b64decode(data)) for tag, data in unknown]}


def wire_value(wire_type: WireType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, Struct):
        return wire_values(wire_type.fields, value)
    if isinstance(wire_type, Array):
        return [wire_value(wire_type.element, item) for item in value]
    # Bytes are base64 in JSON, and bytes in a column of a struct.
    return base64.b64decode(value) if wire_type is Primitive.BYTES and isinstance(value, str) else value

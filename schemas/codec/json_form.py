"""Shows a record in the JSON form that `DumpLogSegments --offsets-decoder` of Kafka 4.2 to 4.4 prints.

The tool prints a key as {"type", "data"} and a payload as {"version", "data"}; here they are under "key" and "value",
with null for the payload `<DELETE>` of a tombstone. Its oddities, copied:

- `type` and `version` are strings, although Kafka's console formatters print numbers;
- bytes are base64 and UUIDs 22 characters of URL-safe base64; a field that the version lacks is left
  out, and so is a tagged field that equals its default (no tagged field has the default null, so null
  is printed); unknown tagged fields are not shown at all;
- a member's `subscription` and `assignment` are decoded in place in every group of protocol type
  `consumer`, Streams among them; in all others, and where they can't be decoded, they are base64;
- in a decoded subscription or assignment, null `userData` is null and empty is "", bytes after the last
  field are ignored, and a negative version is read as 0. A version above 3 is read as 3 only if it names
  no partitions: the tool has no form for topic partitions of later versions, and prints base64.

Not copied, because the record or the member's bytes count as broken here: the tool turns malformed
UTF-8 into U+FFFD, takes any negative length, and any compact one of 2^31 and more, as null or as
nothing, ignores bytes after a record's last field, and checks neither the order nor the sizes of tags.
It refuses values above version 0 of type 0, which are printed here as those of type 1.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

from groupledger.schemas.codec.consumer_protocol import decode_assignment, decode_subscription
from groupledger.schemas.codec.errors import DecodeError
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.codec.records import Record
from groupledger.schemas.wire.consumer_protocol import ASSIGNMENT, SUBSCRIPTION
from groupledger.schemas.wire.model import Array, Field, Message, Struct, WireType
from groupledger.schemas.wire.record_types import RECORD_TYPE_BY_NAME
from groupledger.schemas.wire.share_state import SHARE_STATE_TYPES

KINDS = RECORD_TYPE_BY_NAME | {kind.record_type: kind for kind in SHARE_STATE_TYPES}


def to_json_form(record: Record) -> dict[str, Any]:
    """Returns {"key": .., "value": .. or None}, which `json.dumps` prints as the tool does.

    A record of `__share_group_state` has the form of `DumpLogSegments --share-group-state-decoder`."""
    kind = KINDS[record.record_type]
    key = {"type": str(kind.id), "data": fields_to_json_form(kind.key, record.key, 0)}
    if record.value is None or record.value_version is None:
        return {"key": key, "value": None}
    data = fields_to_json_form(kind.value.fields, record.value, record.value_version)
    if record.value.get("protocol_type") == "consumer":
        for member, shown in zip(record.value["members"], data["members"], strict=True):
            shown["subscription"] = _decoded(SUBSCRIPTION, decode_subscription, member["subscription"])
            shown["assignment"] = _decoded(ASSIGNMENT, decode_assignment, member["assignment"])
    return {"key": key, "value": {"version": str(record.value_version), "data": data}}


def fields_to_json_form(fields: tuple[Field, ...], value: dict[str, Any], version: int) -> dict[str, Any]:
    """Returns a decoded struct of any format, as Kafka's generated JSON converters show that version."""
    return {
        field.name: _any(field.type, value[field.column], version)
        for field in fields
        if version in field.versions and (field.tag is None or value[field.column] != field.default_value())
    }


def _any(wire_type: WireType, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(wire_type, Struct):
        return fields_to_json_form(wire_type.fields, value, version)
    if isinstance(wire_type, Array):
        return [_any(wire_type.element, item, version) for item in value]
    return _base64(value) if isinstance(value, bytes) else value


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _decoded(message: Message, decode: Callable[[bytes], ProtocolMessage], data: bytes) -> Any:
    """Returns a member's bytes as the tool shows them: decoded, or base64."""
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        fields = decode(bytes(2) + data[2:] if version < 0 else data).fields
    except DecodeError:
        return _base64(data)
    if version > message.latest_version and _has_structs(message, fields):
        return _base64(data)
    return fields_to_json_form(message.fields, fields, max(0, min(version, message.latest_version)))


def _has_structs(message: Message, fields: dict[str, Any]) -> bool:
    return any(
        isinstance(field.type, Array) and isinstance(field.type.element, Struct) and fields[field.column]
        for field in message.fields
    )

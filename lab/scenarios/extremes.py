"""Makes records with one number or time that no healthy client writes: every numeric field, with every extreme value.

    record_cases()             a case for each record type, value version, numeric field and value that its type holds
    timestamp_cases()          a case for each time that a capture may give a record itself
    poisoned(case, topic)      the records of the case's group: healthy ones, the one with the value, and the same
                               record without it again, so that every difference is taken in both directions

The fields come from `schemas.wire`, so that a new format or field is tried without a change here. Each case has a group
of its own, and one pass takes hundreds of cases.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.codec.records import Record
from groupledger.schemas.instants import INT64_MAX, INT64_MIN
from groupledger.schemas.wire.model import Array, Primitive, Struct
from groupledger.schemas.wire.record_types import RECORD_TYPES
from groupledger.schemas.wire.share_state import SHARE_STATE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from groupledger.schemas.wire.model import Field, RecordType, WireType

YEAR_1_MS = -62_135_596_800_000
YEAR_9999_MS = 253_402_300_799_999
EXTREMES = {
    "0": 0,
    "minus-1": -1,
    "minus-2": -2,
    **{f"{sign}2-31{off}": n for sign, off, n in (("", "", 2**31), ("", "-1", 2**31 - 1), ("minus-", "", -(2**31)))},
    "minus-2-31-1": -(2**31) - 1,
    "2-53-1": 2**53 - 1,
    "2-53+1": 2**53 + 1,
    "minus-2-63": INT64_MIN,
    "2-63-1": INT64_MAX,
    "minus-2-62": -(2**62),
    "year-1": YEAR_1_MS,
    "before-year-1": YEAR_1_MS - 1,
    "year-9999": YEAR_9999_MS,
    "year-10000": YEAR_9999_MS + 1,
    "last-us": INT64_MAX // 1_000,
    "behind-last-us": INT64_MAX // 1_000 + 1,
    "2-15-1": 2**15 - 1,
    "minus-2-15": -(2**15),
    "127": 127,
    "minus-128": -128,
}
"""Values by a name that may stand in the name of a group; 292278994, Java's last year, ends at 2^63-1 ms."""
BITS = {Primitive.INT8: 8, Primitive.INT16: 16, Primitive.INT32: 32, Primitive.INT64: 64}
SMALL = {"127", "minus-128", "2-15-1", "minus-2-15"}  # extremes of small types, ordinary numbers for the large
GROUP_TYPES = ("consumer_group_", "share_group_", "streams_group_")
TOPIC_ID = "4L6g3nShT-eMCtK--X86sw"
Path = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A numeric field in a version of a record type, and the extreme value that it gets. The field lies at `path` in
    the record's key or value. If the value is the timestamp of the record itself, `path` is ("timestamp",)."""

    record_type: str
    version: int
    is_key: bool
    path: Path
    name: str
    value: int

    @property
    def field(self) -> str:
        return ".".join(self.path)

    @property
    def group_id(self) -> str:
        return f"poison-{self.record_type}-v{self.version}-{self.field}-{self.name}"


def values_of(primitive: Primitive) -> dict[str, int]:
    """Returns the extreme values, by name, that a numeric type can hold."""
    half = 2 ** (BITS[primitive] - 1)
    is_large = BITS[primitive] > 16
    return {
        name: value for name, value in EXTREMES.items() if -half <= value < half and not (is_large and name in SMALL)
    }


def record_cases(kinds: Iterable[RecordType] = RECORD_TYPES) -> Iterator[Case]:
    for kind in kinds:
        for version in range(kind.value.latest_version + 1):
            # Keys have one version, and need to be tried once.
            keys = ((True, *each) for each in _numbers(kind.key, 0) if version == kind.value.latest_version)
            values = ((False, *each) for each in _numbers(kind.value.fields, version))
            for is_key, path, primitive in (*keys, *values):
                for name, value in values_of(primitive).items():
                    yield Case(kind.record_type, version, is_key, path, name, value)


def share_state_cases() -> Iterator[Case]:
    return record_cases(SHARE_STATE_TYPES)


def timestamp_cases() -> Iterator[Case]:
    for record_type in ("offset_commit", "group_metadata", "consumer_group_metadata"):
        for name, value in values_of(Primitive.INT64).items():
            yield Case(record_type, 0, is_key=False, path=("timestamp",), name=name, value=value)


def _numbers(fields: Iterable[Field], version: int) -> Iterator[tuple[Path, Primitive]]:
    for field in fields:
        if version in field.versions:
            for path, primitive in _numbers_of(field.type, version):
                yield (field.column, *path), primitive


def _numbers_of(wire_type: WireType, version: int) -> Iterator[tuple[Path, Primitive]]:
    if isinstance(wire_type, Struct):
        yield from _numbers(wire_type.fields, version)
    elif isinstance(wire_type, Array):
        yield from _numbers_of(wire_type.element, version)
    elif wire_type in BITS:
        yield (), wire_type


def poisoned(case: Case, topic: str) -> list[Record]:
    """Returns the records of the case's group. The last but one has the extreme value. If the value is a timestamp, the
    record timestamps stay as they are here, and the caller has to set them."""
    known = {kind.record_type: kind for kind in (*RECORD_TYPES, *SHARE_STATE_TYPES)}
    kind = known[case.record_type]
    family = next((start for start in GROUP_TYPES if case.record_type.startswith(start)), None)
    before = [each for name, each in known.items() if family and name.startswith(family) and each.value.fields]
    records = [_healthy(each, each.value.latest_version, case.group_id, topic) for each in before]
    healthy = _healthy(kind, case.version, case.group_id, topic)
    if case.path == ("timestamp",):
        return [*records, *(_moved(healthy, step) for step in range(3))]
    strange = deepcopy(healthy)
    target = strange.key if case.is_key else strange.value
    assert target is not None
    _put(target, case.path, case.value)
    return [*records, healthy, strange, healthy]


def _moved(record: Record, step: int) -> Record:
    """Returns the record with another generation, epoch or, going back, offset at each step, so that something has
    happened at its time."""
    moved = deepcopy(record)
    assert moved.value is not None
    for column, value in (("generation", step + 1), ("epoch", step + 1), ("offset", 9 - 3 * step)):
        if column in moved.value:
            moved.value[column] = value
    return moved


def _put(fields: Any, path: Path, value: int) -> None:
    """Puts the value at a path; into the first element of an array on the way."""
    *way, last = path
    for name in way:
        fields = fields[name]
        fields = fields[0] if isinstance(fields, list) else fields
    if isinstance(fields[last], list):
        fields[last] = [value]
    else:
        fields[last] = value


def _healthy(kind: RecordType, version: int, group_id: str, topic: str) -> Record:
    words = {
        "group_id": group_id, "topic": topic, "topic_name": topic, "topic_id": TOPIC_ID, "protocol_type": "consumer",
        "protocol": "range", "leader": "m-1", "member_id": "m-1", "client_host": "/10.0.0.1", "client_id": "client",
        "topics": topic, "subscribed_topic_names": topic, "regular_expression": ".*", "server_assignor": "uniform",
        "subscription": _subscription(topic), "assignment": _assignment(topic), "state": 0,
        "current_state_timestamp_ms": 1_767_571_200_000, "commit_timestamp_ms": 1_767_571_200_000,
        "expire_timestamp_ms": -1, "subtopology_id": "0", "subscribed_topic_regex": "",
    }  # fmt: skip
    key = {field.column: _natural(field, 0, words) for field in kind.key}
    value = {field.column: _natural(field, version, words) for field in kind.value.fields}
    return Record(kind.record_type, key, version, value)


def _natural(field: Field, version: int, words: dict[str, Any]) -> Any:
    if version not in field.versions:
        return field.default_value()
    return _of_type(field.type, field.column, version, words)


def _of_type(wire_type: WireType, column: str, version: int, words: dict[str, Any]) -> Any:
    if isinstance(wire_type, Struct):
        return {field.column: _natural(field, version, words) for field in wire_type.fields}
    if isinstance(wire_type, Array):
        return [_of_type(wire_type.element, column, version, words)]
    if wire_type in BITS or wire_type is Primitive.UINT16:
        known = words.get(column)
        return known if isinstance(known, int) else 1
    known = words.get(column)
    if wire_type is Primitive.BYTES:
        return known if isinstance(known, bytes) else b""
    if wire_type is Primitive.UUID:
        return TOPIC_ID
    return known if isinstance(known, str) else "text"


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _subscription(topic: str) -> bytes:
    return b"\0\0" + (1).to_bytes(4, "big") + _text(topic) + b"\xff\xff\xff\xff"


def _assignment(topic: str, partitions: tuple[int, ...] = (0,)) -> bytes:
    numbers = b"".join(each.to_bytes(4, "big", signed=True) for each in partitions)
    listed = len(partitions).to_bytes(4, "big") + numbers
    return b"\0\0" + (1).to_bytes(4, "big") + _text(topic) + listed + b"\xff\xff\xff\xff"

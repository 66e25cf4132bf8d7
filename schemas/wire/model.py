"""The vocabulary in which the wire formats are written down.

A format is a `Message`: rows of `Field` in wire order, each with the versions that carry it. The
formats say what Kafka's JSON message definitions say, and nothing about how
bytes are read; `schemas.codec.engine` turns them into readers and writers, and other modules walk
`Message.fields` to make table types. A field has two names: `name` is Kafka's own, for the JSON form of
its tools; `column` is ours, in snake case with the unit last.

Flexible versions (KIP-482) use compact lengths and end every struct with a section of tagged fields.
"""

import re
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any

from groupledger.schemas.kafka.names import ZERO_UUID


class Primitive(Enum):
    """The scalar wire types. A UUID is shown as Kafka shows it: 22 characters of URL-safe base64."""

    INT8 = "int8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    UUID = "uuid"
    STRING = "string"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions from `first` to `last`, both included; it has no upper end if `last` is None."""

    first: int
    last: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


def since(version: int) -> Versions:
    return Versions(version)


def only(version: int) -> Versions:
    return Versions(version, version)


EVERY = since(0)


@dataclass(frozen=True, slots=True)
class Struct:
    """A sequence of fields that together are the value of one field. `name` is Kafka's name of the struct."""

    name: str
    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True)
class Array:
    element: Primitive | Struct


WireType = Primitive | Array | Struct


class Natural(Enum):
    """Stands for a default that Kafka's definition leaves out: zero, empty, or a struct of such values."""

    DEFAULT = "natural"


_NATURAL_DEFAULTS: dict[Primitive, Any] = {
    Primitive.STRING: "",
    Primitive.BYTES: b"",
    Primitive.UUID: ZERO_UUID,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a format.

    `versions` are the versions that carry the field, and `nullable` those in which it may be null; None means
    never. A field with a `tag` is in the tagged section of its flexible versions, and only if its value differs from
    the default. `may_be_missing` are the versions in which readers take the default if the bytes end before
    the field. `column` is given only if it is not `name` in snake case.
    """

    name: str
    type: WireType
    versions: Versions = EVERY
    _: KW_ONLY
    nullable: Versions | None = None
    tag: int | None = None
    default: int | Natural | None = Natural.DEFAULT
    may_be_missing: Versions | None = None
    column: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.column or snake_case(self.name))

    def is_nullable(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable

    def default_value(self) -> Any:
        """Returns the value of a field that is not on the wire: a new one at every call, as it may be a list."""
        if not isinstance(self.default, Natural):
            return self.default
        if isinstance(self.type, Primitive):
            return _NATURAL_DEFAULTS.get(self.type, 0)
        if isinstance(self.type, Array):
            return []
        return {field.column: field.default_value() for field in self.type.fields}


@dataclass(frozen=True, slots=True)
class Message:
    """A format in the versions from 0 to `latest_version`. Versions from `flexible_since` on are flexible; None means
    that no version is."""

    name: str
    fields: tuple[Field, ...]
    latest_version: int = 0
    flexible_since: int | None = None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


@dataclass(frozen=True, slots=True)
class RecordType:
    """One kind of record: `id` leads the key, `name` is Kafka's. Keys have version 0 only."""

    id: int
    name: str
    key: tuple[Field, ...]
    value: Message

    @property
    def record_type(self) -> str:
        """Returns the name in the ledger's tables: Kafka's, in snake case."""
        return snake_case(self.name)


def snake_case(name: str) -> str:
    """Returns the column for a name such as `clientId` or `leader-url`, as Kafka's two schema languages write them."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()

"""The engine keeps the rules at the head of `engine.py`, shown on small formats of our own."""

from typing import Any

import pytest

from groupledger.schemas.codec.engine import UNKNOWN_TAGGED_FIELDS, message_codec
from groupledger.schemas.codec.errors import (
    DecodeError,
    EncodeError,
    InvalidTagError,
    LengthPastEndError,
    NullNotAllowedError,
    TruncatedError,
)
from groupledger.schemas.wire.model import (
    EVERY,
    Array,
    Field,
    Message,
    Primitive,
    RecordType,
    Struct,
    only,
    since,
)
from groupledger.schemas.wire.record_types import RECORD_TYPES

POINT = Struct("Point", (Field("x", Primitive.INT8), Field("y", Primitive.INT8)))
VERSIONED = Message(
    "Versioned",
    (
        Field("always", Primitive.INT8),
        Field("onlyOne", Primitive.INT8, only(1), default=-1),
        Field("sinceTwo", Array(POINT), since(2), nullable=since(3)),
        Field("missing", Primitive.INT8, since(2), default=7, may_be_missing=since(3)),
    ),
    latest_version=3,
)
TAGGED = Message(
    "Tagged",
    (
        Field("plain", Primitive.INT8),
        Field("number", Primitive.INT16, tag=1, default=5),
        Field("point", POINT, nullable=EVERY, tag=3),
        Field("struct", POINT, nullable=EVERY, default=None),
    ),
    flexible_since=0,
)
DEFAULT_POINT = {"x": 0, "y": 0}


def decoded(message: Message, version: int, data: str) -> tuple[dict[str, Any], int]:
    value, end = message_codec(message, version).read(bytes.fromhex(data), 0)
    return value, end


def encoded(message: Message, version: int, value: dict[str, Any]) -> str:
    out = bytearray()
    message_codec(message, version).write(out, value)
    return out.hex(" ")


def test_columns_are_kafkas_names_in_snake_case() -> None:
    """The dict has every column of the format, in its order, whatever the version carries."""
    for version, data in ((0, "01"), (1, "01 02"), (2, "01 00000000 03")):
        value, _ = decoded(VERSIONED, version, data)
        assert list(value) == ["always", "only_one", "since_two", "missing"]


@pytest.mark.parametrize(
    ("version", "data", "expected"),
    [
        (0, "01", {"always": 1, "only_one": -1, "since_two": [], "missing": 7}),
        (1, "01 02", {"always": 1, "only_one": 2, "since_two": [], "missing": 7}),
        (
            2,
            "01 00000002 0102 0304 09",
            {
                "always": 1,
                "only_one": -1,
                "since_two": [{"x": 1, "y": 2}, {"x": 3, "y": 4}],
                "missing": 9,
            },
        ),
        (3, "01 ffffffff 09", {"always": 1, "only_one": -1, "since_two": None, "missing": 9}),
    ],
)
def test_a_version_carries_its_fields_and_defaults_the_others(
    version: int, data: str, expected: dict[str, Any]
) -> None:
    """Each version reads its own fields, gives defaults for the rest, and writes the same bytes."""
    raw = bytes.fromhex(data)
    assert decoded(VERSIONED, version, data) == (expected, len(raw))
    assert bytes.fromhex(encoded(VERSIONED, version, expected)) == raw


def test_a_field_may_be_missing_only_at_the_end_and_only_in_its_versions() -> None:
    """Version 3 takes the default where the bytes end; version 2, and a cut field, are truncated."""
    assert decoded(VERSIONED, 3, "01 00000000")[0]["missing"] == 7
    with pytest.raises(TruncatedError):
        decoded(VERSIONED, 2, "01 00000000")


def test_null_is_refused_in_the_versions_that_lack_it() -> None:
    """The array is nullable since version 3 only."""
    with pytest.raises(NullNotAllowedError):
        decoded(VERSIONED, 2, "01 ffffffff 09")
    with pytest.raises(EncodeError):
        encoded(VERSIONED, 2, {"always": 1, "since_two": None, "missing": 9})


def test_defaults_are_not_shared_between_values() -> None:
    """Changing a default list or struct of one value leaves the next one untouched."""
    first, _ = decoded(VERSIONED, 0, "01")
    first["since_two"].append("mine")
    assert decoded(VERSIONED, 0, "01")[0]["since_two"] == []
    tagged, _ = decoded(TAGGED, 0, "01 ff 00")
    tagged["point"]["x"] = 9
    assert decoded(TAGGED, 0, "01 ff 00")[0]["point"] == DEFAULT_POINT


@pytest.mark.parametrize(
    ("data", "number", "point", "struct"),
    [
        pytest.param("01 ff 00", 5, DEFAULT_POINT, None, id="no tags"),
        pytest.param("01 ff 01 01 02 0100", 256, DEFAULT_POINT, None, id="one tag"),
        pytest.param("01 ff 01 03 01 00", 5, None, None, id="tagged null"),
        pytest.param(
            "01 01 0708 00 02 01 02 0006 03 04 01 0102 00",
            6,
            {"x": 1, "y": 2},
            {"x": 7, "y": 8},
            id="all",
        ),
    ],
)
def test_tagged_fields_and_nullable_structs(
    data: str, number: int, point: dict[str, int] | None, struct: dict[str, int] | None
) -> None:
    """Tagged fields default when absent; a null struct is marked by -1, and by 0 in a tag."""
    expected = {"plain": 1, "number": number, "point": point, "struct": struct}
    assert decoded(TAGGED, 0, data) == (expected, len(bytes.fromhex(data)))
    assert bytes.fromhex(encoded(TAGGED, 0, expected)) == bytes.fromhex(data)


def test_unknown_tags_are_kept_and_written_again() -> None:
    """Tags between, before and after the known ones come back in order; their absence leaves no key."""
    data = "01 ff 04 00 00 01 02 0006 02 01 aa ac02 02 bbcc"
    value, _ = decoded(TAGGED, 0, data)
    assert value[UNKNOWN_TAGGED_FIELDS] == [(0, b""), (2, b"\xaa"), (300, b"\xbb\xcc")]
    assert bytes.fromhex(encoded(TAGGED, 0, value)) == bytes.fromhex(data)
    assert UNKNOWN_TAGGED_FIELDS not in decoded(TAGGED, 0, "01 ff 00")[0]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param("01 ff 02 02 00 01 02 0006", InvalidTagError, id="descending"),
        pytest.param("01 ff 02 02 00 02 00", InvalidTagError, id="twice"),
        pytest.param("01 ff 01 01 03 000600", InvalidTagError, id="field shorter than its tag"),
        pytest.param("01 ff 01 01 01 0006", InvalidTagError, id="field longer than its tag"),
        pytest.param("01 ff 01 01 03 0006", InvalidTagError, id="tag past the end"),
        pytest.param("01 ff 01 09 ffffffff07", LengthPastEndError, id="unknown tag past the end"),
        pytest.param("01 ff ffffffff0f", LengthPastEndError, id="more tags than bytes"),
        pytest.param("01 ff 01 01 80", TruncatedError, id="a tag without its size"),
    ],
)
def test_a_tagged_section_that_kafka_would_not_write_is_refused(data: str, error: type[DecodeError]) -> None:
    """KIP-482: tags ascend strictly, sizes are true, counts and sizes fit."""
    with pytest.raises(error):
        decoded(TAGGED, 0, data)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"always": 1, "only_one": 2}, id="the version lacks the field"),
        pytest.param({}, id="a field is missing"),
        pytest.param({"always": None}, id="null"),
        pytest.param({"always": 1, "alwyas": 1}, id="an unknown column"),
        pytest.param([1], id="no dict"),
        pytest.param({"always": 1, UNKNOWN_TAGGED_FIELDS: []}, id="tags in a plain version"),
    ],
)
def test_what_a_version_cannot_carry_is_refused(value: Any) -> None:
    """Nothing is dropped or guessed on writing; each misfit is an EncodeError."""
    with pytest.raises(EncodeError):
        encoded(VERSIONED, 0, value)


@pytest.mark.parametrize("tags", [[(1, b"")], [(9, b""), (9, b"")], [(-1, b"")], [(2**32, b"")]])
def test_unknown_tags_that_are_known_or_repeated_are_refused(tags: list[tuple[int, bytes]]) -> None:
    """A kept tag may not hide a known field, stand twice, or be no unsigned 32-bit number."""
    with pytest.raises(EncodeError):
        encoded(TAGGED, 0, {"plain": 1, "struct": None, UNKNOWN_TAGGED_FIELDS: tags})


def test_arrays_of_integers_hold_integers() -> None:
    """The path for runs of integers refuses other values as the path for items does."""
    message = Message("Run", (Field("run", Array(Primitive.INT16)),))
    assert encoded(message, 0, {"run": [1, -1]}) == "00 00 00 02 00 01 ff ff"
    for run in ([1.5], [0x8000], ["1"], [None], (1,)):
        with pytest.raises(EncodeError):
            encoded(message, 0, {"run": run})


@pytest.mark.parametrize("kind", RECORD_TYPES, ids=[kind.name for kind in RECORD_TYPES])
def test_the_shortest_encoding_has_the_length_that_arrays_count_on(kind: RecordType) -> None:
    """A struct of defaults is as long as its codec says, so no true array is refused by its count."""
    for version in range(kind.value.latest_version + 1):
        codec = message_codec(kind.value, version)
        out = bytearray()
        codec.write(out, {field.column: field.default_value() for field in kind.value.fields})
        assert len(out) == codec.bytes_min

"""Our formats beside Kafka's own definitions, for each release that is supported.

`tests/data/kafka_formats` has the definitions of each release as one line a field (`tools/kafka_formats.py`). Ours are
written in the same lines. Of an older release a tagged field may be missing, since only a later one has added it; all
else is equal. So the first JARs of a new Kafka fail here, and its file says what it has changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from groupledger.jobs.process.jars import BROKERS, CONF, jar_folder
from groupledger.schemas.kafka import request_fields
from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.wire import consumer_protocol
from groupledger.schemas.wire.model import Array, Field, Message, Natural, Primitive, Struct, Versions
from groupledger.schemas.wire.record_types import RECORD_TYPES, RETIRED_RECORD_TYPES
from groupledger.schemas.wire.share_state import SHARE_STATE_TYPES
from tools import kafka_formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.schemas.wire.model import WireType

RELEASES = [kafka_formats.minor(release) for release in kafka_formats.RELEASES]
NEWEST = RELEASES[-1]

# Formats that 4.0 alone had. Its share groups were for trial only: a cluster with them can't be upgraded.
OF_4_0_ONLY = {
    "ShareGroupPartitionMetadataKey": "type 9 is retired",
    "ShareGroupPartitionMetadataValue": "type 9 is retired",
    "ShareGroupMetadataValue": "there was no hash of the topics",
    "ShareGroupStatePartitionMetadataValue": "no topic was being initialized",
    "ShareSnapshotValue": "the epoch had 16 bits, and there were no times",
    "ShareUpdateValue": "the epoch had 16 bits",
}


@dataclass(frozen=True, slots=True)
class Definition:
    number: int | None
    versions: range
    flexible_since: int | None
    fields: tuple[str, ...]


@cache
def definitions(release: str) -> dict[str, Definition]:
    """Returns what a release's file says, by the message's name."""
    text = (kafka_formats.FOLDER / f"{release}.txt").read_text()
    head = re.compile(r"^(\w+) (-|\d+) versions (\S+) flexible (\S+)\n((?:  .*\n)*)", re.MULTILINE)
    found = {}
    for name, number, versions, flexible, fields in head.findall(text):
        found[name] = Definition(
            None if number == "-" else int(number),
            kafka_formats.versions(versions),
            None if flexible == "none" else int(flexible.rstrip("+")),
            tuple(fields.splitlines()),
        )
    return found


def our_fields(fields: tuple[Field, ...], valid: range, tagged: set[str], depth: int = 1) -> Iterator[str]:
    """Yields our fields as lines; of the tagged ones only those with these names."""
    for field in fields:
        carried = _within(field.versions, valid)
        if not carried or (field.tag is not None and field.name not in tagged):
            continue
        words = [f"{'  ' * depth}{field.name} {_type(field.type)}"]
        words += kafka_formats.range_words("versions", carried, valid)
        if field.nullable is not None:
            words += kafka_formats.range_words("nullable", _within(field.nullable, valid), carried) or ["nullable"]
        if field.tag is not None:
            words.append(f"tag {field.tag}")
        if not isinstance(field.default, Natural):
            words.append(f"default {'null' if field.default is None else field.default}")
        yield " ".join(words)
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from our_fields(inner.fields, carried, tagged, depth + 1)


def _within(versions: Versions, valid: range) -> range:
    last = valid.stop - 1 if versions.last is None else min(versions.last, valid.stop - 1)
    return range(max(versions.first, valid.start), last + 1)


def _type(wire_type: WireType) -> str:
    if isinstance(wire_type, Array):
        return f"[]{_type(wire_type.element)}"
    return wire_type.value if isinstance(wire_type, Primitive) else wire_type.name


def tagged_in(definition: Definition) -> set[str]:
    return {line.split()[0] for line in definition.fields if " tag " in line}


def our_messages() -> dict[str, tuple[int | None, Message]]:
    """Returns our records and consumers' formats by Kafka's name, with the record type."""
    found: dict[str, tuple[int | None, Message]] = {}
    for kind in (*RECORD_TYPES, *SHARE_STATE_TYPES):
        found[f"{kind.name}Key"] = (kind.id, Message(f"{kind.name}Key", kind.key))
        found[f"{kind.name}Value"] = (kind.id, kind.value)
    return found | {each.name: (None, each) for each in (consumer_protocol.SUBSCRIPTION, consumer_protocol.ASSIGNMENT)}


OURS = our_messages()


@pytest.mark.parametrize("release", RELEASES)
def test_every_record_of_a_release_is_ours(release: str) -> None:
    """Goal: no release has a record type or a version that we can't read, and each has its number."""
    of_records = {
        name: each
        for name, each in definitions(release).items()
        if name.endswith(("Key", "Value")) and (release != "4.0" or name not in OF_4_0_ONLY)
    }
    assert of_records.keys() <= OURS.keys()
    if release == NEWEST:
        assert of_records.keys() == {name for name, (number, _) in OURS.items() if number is not None}
    for name, each in of_records.items():
        number, message = OURS[name]
        if name.endswith("Value"):
            assert each.versions.stop - 1 <= message.latest_version
        # Until 4.0 the definitions had no numbers; a key's version was its type.
        if each.number is not None or name.endswith("Key"):
            assert number == (each.versions.stop - 1 if each.number is None else each.number)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", OURS)
def test_fields_are_those_of_the_release(release: str, name: str) -> None:
    """Goal: names, order, types, versions, tags, nulls and defaults are Kafka's."""
    definition = definitions(release).get(name)
    if definition is None or (release == "4.0" and name in OF_4_0_ONLY):
        assert release != NEWEST
        return
    message = OURS[name][1]
    # A key of 4.0 has its type for a version.
    valid = range(1) if name.endswith("Key") else definition.versions
    assert definition.flexible_since == (message.flexible_since if message.is_flexible(valid[-1]) else None)
    tagged = {field.name for field in _all_fields(message.fields)} if release == NEWEST else tagged_in(definition)
    assert tuple(our_fields(message.fields, valid, tagged)) == definition.fields


def _all_fields(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields:
        yield field
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(inner, Struct):
            yield from _all_fields(inner.fields)


def test_what_only_4_0_had_is_retired() -> None:
    """Goal: the exceptions of 4.0 are still needed, and their texts are true."""
    first, second = definitions("4.0"), definitions("4.1")
    assert all(first[name] != second.get(name) for name in OF_4_0_ONLY)
    assert RETIRED_RECORD_TYPES[9] == "share_group_partition_metadata"


def test_api_keys_are_those_of_the_newest_release() -> None:
    """Goal: every API that a request log can name has its number."""
    requests = {
        each.number: re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request")).upper()
        for name, each in definitions(NEWEST).items()
        if name.endswith("Request")
    }
    assert {ApiKey(number).name for number in requests if number is not None} == set(requests.values())
    assert max(ApiKey) == max(number for number in requests if number is not None)


@pytest.mark.parametrize("api", request_fields.BODIES, ids=lambda api: api.name)
def test_bodies_are_those_of_4_2(api: ApiKey) -> None:
    """Goal: the simulator's request log has the fields of a 4.2 broker's, in their order."""
    bodies = request_fields.BODIES[api]
    by_number = {(each.number, name.endswith("Request")): each for name, each in definitions("4.2").items()}
    for is_request, ours in ((True, bodies.request), (False, bodies.response)):
        carried = _fields_at(by_number[api.value, is_request].fields, bodies.version)
        # What the simulator writes without a look into it has no fields here.
        looked_into = {"", *(name for name, is_list in _named(ours) if is_list)}
        assert [name for name, _ in _named(ours)] == [name for name, within in carried if within in looked_into]


def _fields_at(lines: tuple[str, ...], version: int) -> list[tuple[str, str]]:
    """Returns the path of each field that a version carries, and that of the field in which it lies."""
    found = []
    path: list[tuple[str, bool]] = []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        name, *words = line.split()
        path = path[: depth - 1]
        carried = words[words.index("versions") + 1] if "versions" in words else "0+"
        path.append((name, version in kafka_formats.versions(carried)))
        if all(is_carried for _, is_carried in path):
            names = [each for each, _ in path]
            found.append((".".join(names), ".".join(names[:-1])))
    return found


def _named(fields: request_fields.Fields, within: str = "") -> Iterator[tuple[str, bool]]:
    """Yields the path of each field, and whether it is a list."""
    for field in fields:
        name = field if isinstance(field, str) else field.name
        yield within + name, not isinstance(field, str)
        if not isinstance(field, str):
            yield from _named(field.fields, f"{within}{name}.")


@pytest.mark.java
@pytest.mark.parametrize("part", BROKERS)
def test_the_files_say_what_the_jars_hold(part: str) -> None:
    """Goal: each broker that the tests start has its file, and the file agrees with the formats in its JARs."""
    tree = ET.parse(CONF / "ivy" / f"{part}.xml")  # noqa: S314 - our own file
    (release,) = {item.attrib["rev"] for item in tree.iter("dependency")}
    written = (kafka_formats.FOLDER / f"{kafka_formats.minor(release)}.txt").read_text()
    assert kafka_formats.formats(Path(jar_folder()) / part, release) == written

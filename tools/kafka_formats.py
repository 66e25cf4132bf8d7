"""Writes the message formats of Kafka's releases into files, so that tests compare ours with Kafka's own definitions.

    python -m tools.kafka_formats            every release below, into tests/data/kafka_formats
    python -m tools.kafka_formats 4.5.0      a new release: add it to RELEASES, then compare its file with the last one

Kafka's JARs hold the definitions from which Kafka's own classes are generated (`common/message/*.json`). Of each,
names, types, versions, tags and defaults are kept, one field a line, so that the difference of two files shows the
changes of a release. A range of versions is left out where it is that of the whole message; structs stand where they
are used. Records are kept whole; of the clients' messages those about groups, and of all others number, name and
versions.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.jars import fetch_module, java_path, shipped_ivy
from groupledger.schemas.kafka.api_keys import GROUP_APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "kafka_formats"
RELEASES = ("4.0.2", "4.1.2", "4.2.0", "4.3.1", "4.4.0")
"""The last release of each supported minor version, but of 4.2 the one that the tests start."""
RECORD_JARS = ("kafka-group-coordinator", "kafka-share-coordinator")
MESSAGE_JAR = "kafka-clients"
WHOLE_APIS = GROUP_APIS | {ApiKey.API_VERSIONS}
WHOLE_DATA = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
DEFINITIONS = re.compile(r"common/message/\w+\.json")
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)

Definition = dict[str, Any]


def main(releases: Iterable[str]) -> int:
    for release in releases:
        with tempfile.TemporaryDirectory() as folder:
            jars = Path(folder) / "jars"
            fetch_module(java_path(), shipped_ivy(), Path(folder) / "cache", module_of(release, Path(folder)), jars)
            text = formats(jars, release)
        file = FOLDER / f"{minor(release)}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        print(f"{file.name}: {text.count(chr(10)):,} lines, Kafka {release}")
    return 0


def minor(release: str) -> str:
    return release.rpartition(".")[0]


def module_of(release: str, folder: Path) -> Path:
    """Writes an Ivy file for the JARs that hold definitions, without their dependencies."""
    jars = "".join(
        f'<dependency org="org.apache.kafka" name="{name}" rev="{release}" transitive="false" conf="default->master"/>'
        for name in (*RECORD_JARS, MESSAGE_JAR)
    )
    file = folder / "formats.xml"
    file.write_text(
        '<ivy-module version="2.0"><info organisation="groupledger" module="formats"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{jars}</dependencies></ivy-module>'
    )
    return file


def formats(jars: Path, release: str) -> str:
    """Returns the formats of a release from a folder with its JARs."""
    records = [each for name in RECORD_JARS for each in definitions(jars / f"{name}-{release}.jar")]
    messages = list(definitions(jars / f"{MESSAGE_JAR}-{release}.jar"))
    lines = [f"# Kafka {release}, written by tools/kafka_formats.py"]
    for each in (*records, *messages):
        is_whole = each in records or each.get("apiKey") in WHOLE_APIS or each["name"] in WHOLE_DATA
        if is_whole or "apiKey" in each:
            lines += ["", head(each)] if is_whole else [head(each)]
        if is_whole:
            structs = {struct["name"]: struct["fields"] for struct in each.get("commonStructs", ())}
            lines += fields(each["fields"], versions(each["validVersions"]), structs)
    return "".join(f"{line}\n" for line in lines)


def definitions(jar: Path) -> Iterator[Definition]:
    """Yields the definitions in a JAR by name, without those that have no valid version."""
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(filter(DEFINITIONS.fullmatch, archive.namelist())):
            each: Definition = json.loads(COMMENT.sub("", archive.read(name).decode()))
            if each["validVersions"] != "none":
                yield each


def head(definition: Definition) -> str:
    number = definition.get("apiKey", "-")
    flexible = definition.get("flexibleVersions", "none")
    return f"{definition['name']} {number} versions {definition['validVersions']} flexible {flexible}"


def fields(listed: list[Definition], valid: range, structs: dict[str, Any], depth: int = 1) -> Iterator[str]:
    for field in listed:
        carried = versions(field.get("versions") or field["taggedVersions"], valid)
        name = field["name"][0].lower() + field["name"][1:]
        words = [f"{'  ' * depth}{name} {field['type']}", *range_words("versions", carried, valid)]
        if "nullableVersions" in field:
            words += range_words("nullable", versions(field["nullableVersions"], valid), carried) or ["nullable"]
        if "tag" in field:
            words.append(f"tag {field['tag']}")
        default = str(field.get("default"))
        # Kafka's generator takes null without quotation marks for no default at all.
        if field.get("default") is not None and default not in ("", "0", "false", "False"):
            words.append(f"default {default}")
        if carried:
            yield " ".join(words)
            inner = field.get("fields") or structs.get(field["type"].removeprefix("[]"), ())
            yield from fields(inner, carried, structs, depth + 1)


def versions(text: str, valid: range = range(1000)) -> range:
    """Returns the versions of a range as Kafka writes it: `3`, `0-4`, `2+`."""
    first, _, last = text.rstrip("+").partition("-")
    end = valid.stop if text.endswith("+") else int(last or first) + 1
    return range(max(int(first), valid.start), min(end, valid.stop))


def range_words(name: str, found: range, of: range) -> list[str]:
    if found == of:
        return []
    if found.stop == of.stop:
        return [f"{name} {found.start}+"]
    return [f"{name} {found.start}" + (f"-{found.stop - 1}" if len(found) > 1 else "")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or RELEASES))

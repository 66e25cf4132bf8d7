"""Makes a fictitious later release of groupledger, whose codec knows formats that this release quarantines.

The later release is a copy of the package with changed wire formats. Spark's Python workers, or another Python process,
import it if their search path has it before the package of this release.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import groupledger

PACKAGE = Path(groupledger.__file__).parent
# Id of a record type that Kafka 4.2 does not have.
NEW_TYPE_ID = 99

LATEST = ("latest_version=4", "latest_version=5")
NEW_VERSIONS = {"offset_commit.py": LATEST, "group_metadata.py": LATEST}
NEW_TYPE = (
    "RECORD_TYPES: tuple[RecordType, ...] = (",
    f"""from dataclasses import replace
_NEW_TYPE = replace(consumer_group.CONSUMER_GROUP_METADATA, id={NEW_TYPE_ID}, name="ConsumerGroupNovelty")
RECORD_TYPES: tuple[RecordType, ...] = (
    _NEW_TYPE,""",
)


def make_release(directory: Path, changes: dict[str, tuple[str, str]]) -> None:
    """Copies the package to `directory`, and changes files of `schemas/wire`: `changes` has, by file name, the text to
    replace and its replacement."""
    for folder in ("schemas", "transforms"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE / folder, directory / "groupledger" / folder, ignore=ignored)
    shutil.copy(PACKAGE / "__init__.py", directory / "groupledger")
    # Imported before anything else, so that the working directory, which Python puts first, comes too late.
    (directory / "sitecustomize.py").write_text("import groupledger\n")
    for name, (old, new) in changes.items():
        path = directory / "groupledger" / "schemas" / "wire" / name
        text = path.read_text()
        assert old in text, name
        path.write_text(text.replace(old, new))

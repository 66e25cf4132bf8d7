"""Knows which JARs were tested, by their hashes, and tells whether those of a folder are these.

`conf/ivy/<part>.sha256` lists every JAR of a part in the form of `sha256sum`, those that others need included. Ivy
compares a file only with what the same repository says of it; these lists come with the code. `make lock` makes them
again (`tools/lock_jars.py`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger import conf

if TYPE_CHECKING:
    from collections.abc import Iterable

IVY = Path(conf.__file__).resolve().parent / "ivy"
BLOCK_BYTES = 1 << 20


def listed(part: str) -> dict[str, str]:
    """Returns the SHA-256 of each JAR of a part, by its file name."""
    lines = (line.split() for line in list_of(part).read_text().splitlines())
    return {name: digest for digest, name in lines}


def list_of(part: str) -> Path:
    return IVY / f"{part}.sha256"


def differences(folder: Path, part: str) -> list[str]:
    """Returns what is wrong with the JARs of a part in a folder, a few words each. Files that are not listed are not
    looked at: whose they are is for the caller to judge."""
    found = []
    for name, digest in listed(part).items():
        if not (folder / name).is_file():
            found.append(f"{name} is missing")
        elif digest_of(folder / name) != digest:
            found.append(f"{name} is not the one that was tested")
    return found


def written(jars: Iterable[Path]) -> str:
    """Returns the list of JARs in the form of `sha256sum`, by name."""
    return "".join(f"{digest_of(jar)}  {jar.name}\n" for jar in sorted(jars, key=lambda jar: jar.name))


def digest_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()

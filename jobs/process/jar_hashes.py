"""Lists the tested JARs with their hashes, and checks whether the JARs in a folder are the same.

A part is a set of JARs that are used together, such as `spark`, `s3` or `kafka`. `conf/ivy/<part>.sha256` lists every
JAR of a part in the form of `sha256sum`, including transitive dependencies. Ivy compares a file only with the checksum
in the repository that serves the file; these lists come with the code. `make lock` makes them again
(`tools/lock_jars.py`).

The JARs go with the pyspark that is installed: `spark.xml` and `spark.sha256` with the newest that is supported, and
`spark-4.0.xml` and `spark-4.0.sha256` with 4.0.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from groupledger import conf

if TYPE_CHECKING:
    from collections.abc import Iterable

IVY = Path(conf.__file__).resolve().parent / "ivy"
BLOCK_BYTES = 1 << 20
OLDER = "4.0"  # the release of pyspark before the newest that is supported


def listed(part: str) -> dict[str, str]:
    """Returns the SHA-256 of each JAR of a part, by its file name."""
    lines = (line.split() for line in list_of(part).read_text().splitlines())
    return {name: digest for digest, name in lines}


def list_of(part: str) -> Path:
    return IVY / f"{name_of(part)}.sha256"


def ivy_of(part: str) -> Path:
    """Returns the file that names the JARs of a part."""
    return IVY / f"{name_of(part)}.xml"


def name_of(part: str) -> str:
    """Returns the name that the Ivy file and the list of a part have, without suffix. It is that of the part, or
    `<part>-4.0` if pyspark 4.0 is installed and the part has files for it."""
    older = f"{part}-{OLDER}"
    return older if spark_release() == OLDER and (IVY / f"{older}.xml").is_file() else part


def spark_release() -> str | None:
    """Returns the first two numbers of the pyspark that pip has installed, such as 4.2."""
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return None


def differences(folder: Path, part: str) -> list[str]:
    """Returns the differences between the JARs in a folder and the list of a part, a few words each. Unlisted files are
    ignored: the caller decides about them."""
    found = []
    for name, digest in listed(part).items():
        if not (folder / name).is_file():
            found.append(f"{name} is missing")
        elif digest_of(folder / name) != digest:
            found.append(f"{name} is not the one that was tested")
    return found


def written(jars: Iterable[Path]) -> str:
    """Returns the list of JARs in the form of `sha256sum`, sorted by name."""
    return "".join(f"{digest_of(jar)}  {jar.name}\n" for jar in sorted(jars, key=lambda jar: jar.name))


def digest_of(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()

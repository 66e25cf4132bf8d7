"""Keeps the tables of this release for the tests of later ones: `tests/data/warehouses/VERSION.tar.gz`.

They are made of what the first release was fed with, in the same way. Run it once, on the commit that is released.
"""

from __future__ import annotations

import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from groupledger.jobs.process.session import SHORT_LIVED, spark_session
from lab.warehouses.feeding import fed_as_then
from lab.warehouses.releases import unpacked
from tools.setup import ROOT

ARCHIVES = ROOT / "tests/data/warehouses"
FIRST = "0.1.0"
CLUSTERS = ("east", "west")


def main() -> None:
    release = version("groupledger")
    spark = spark_session("groupledger release tables", java_options=SHORT_LIVED)
    with tempfile.TemporaryDirectory() as scratch:
        inputs = unpacked(ARCHIVES / f"{FIRST}.tar.gz", Path(scratch))
        made = Path(scratch) / release
        made.mkdir()
        for cluster in CLUSTERS:
            (inputs / cluster).rename(made / cluster)
            fed_as_then(spark, made / "warehouse", made / cluster, cluster)
        with tarfile.open(ARCHIVES / f"{release}.tar.gz", "w:gz") as packed:
            packed.add(made, release, filter=anonymous)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leaves out Hadoop's checksums, and whose the files are and of when."""
    member.mode = 0o755 if member.isdir() else 0o644
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith(".crc") else member


if __name__ == "__main__":
    main()

"""Unpacks the archives in `tests/data/warehouses`. Each archive has a warehouse of an earlier release and its inputs.
It needs no Spark, as questions don't either."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Python 3.11 before 3.11.4, which Debian 12 has, knows no filters; the archives are our own.
CHECKED = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpacks an archive into `folder`, and returns the folder of the release there."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **CHECKED)  # type: ignore[arg-type]  # noqa: S202
    return folder / archive.name.removesuffix(".tar.gz")

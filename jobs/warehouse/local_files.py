"""Opens the files of a table for pyarrow, and refuses paths that are not regular files."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.places import local_path
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


def local_files(uri: str) -> SubTreeFileSystem | None:
    """Returns the file system of a table on a local disk; None if the table is elsewhere.

    For a local disk pyarrow itself reads and writes, not delta-rs. Threads of pyarrow must not call into Python while
    the process ends. And delta-rs would first write under a name with a `#`, which no VACUUM removes if the process is
    killed.
    """
    path = local_path(uri)
    return None if path is None else SubTreeFileSystem(str(Path(path).resolve()), LocalFileSystem())


def refuse_pipes(uri: str, paths: Iterable[str]) -> None:
    """Raises OutsideError if a file of a table on a local disk is a pipe, or the like: reading it could wait for ever.
    `paths` are within the table's folder."""
    folder = local_path(uri)
    if folder is None:
        return
    for file in (Path(folder) / path for path in paths):
        with suppress(OSError):  # the reader reports what is wrong
            if not stat.S_ISREG(file.stat().st_mode):
                raise OutsideError(
                    f"{printable(str(file))} is no regular file, and is not read: put the table's own file in its"
                    " place, or ask who changed it."
                )

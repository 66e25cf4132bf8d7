"""Tells how pyarrow reaches the files of a table."""

from __future__ import annotations

from pathlib import Path

from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from groupledger.jobs.process.places import local_path


def local_files(uri: str) -> SubTreeFileSystem | None:
    """Returns the files of a table on a local disk, None for a table elsewhere.

    There pyarrow reads and writes by itself: its threads must not call into Python while the process ends, and delta-rs
    writes a file under a name with a `#` first, which no VACUUM removes if the process is killed.
    """
    path = local_path(uri)
    return None if path is None else SubTreeFileSystem(str(Path(path).resolve()), LocalFileSystem())

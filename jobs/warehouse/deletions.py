"""Decides which files of a table may be deleted, and deletes them.

A deletion is no commit, so no token guards it: whoever decided to delete may sleep until its lease is another's, wake,
and go on. So nothing is ever deleted that a later version could name, whenever the deletion happens:

1. The folder is listed for files that no version names and that are older than a bound.
2. A fence is committed: from then on the table refuses every earlier writer, and a later one writes its files only
   after a fence of its own (`Ledger.create`), so under names that are not in the list.
3. The table is opened as it is after the fence. What it names is taken off the list, and what was removed up to then
   is added to it. Names of files are never used again.

Each step may be followed by a sleep of any length. What sleeps before the fence finds the token of a later writer, and
stops. What sleeps after it has a list in which no file of a later writer can be. Only writers without a token (another
engine, or a cluster that was made meanwhile) could still commit a file that the list has, and the bound is for those:
it is longer than any writer takes from a file to its commit. The lease is checked between pieces all the same, so that
a process that lost it stops soon.

A link that leads out of the table's folder is not followed: what it leads to is not the ledger's.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from groupledger.jobs.warehouse.delta_log import files_of
from groupledger.jobs.warehouse.local_files import local_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

UNNAMED_HOURS_MIN = 1
"""No writer takes as long from a file to its commit."""
PIECE = 500


def unnamed_files(before: DeltaTable, hours: int | None) -> list[str]:
    """Returns the files in a table's folder that the opened version does not name and that are older than some hours;
    with None, than the table's own retention. Step 1."""
    return before.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)


def deletable_files(listed: Iterable[str], fenced: DeltaTable, *, and_removed: bool) -> list[str]:
    """Returns the listed files without those that the table names after the fence, and with those that it has
    removed, if these are to go, too. Step 3."""
    named = {unquote(path) for path in pa.table(fenced.get_add_actions(flatten=True))["path"].to_pylist()}
    removed = fenced.vacuum(0, dry_run=True, enforce_retention_duration=False) if and_removed else []
    return sorted({*map(unquote, listed), *map(unquote, removed)} - named)


def delete_files(table_uri: str, paths: Iterable[str], check: Callable[[], None]) -> None:
    """Deletes files of a table, in pieces; `check` raises if the process has to stop. A file that is gone is no
    error."""
    files, root = files_of(table_uri), _root(table_uri)
    left = iter(paths)
    while piece := list(islice(left, PIECE)):
        check()
        for path in piece:
            if root is None or _is_inside(root, path):
                _delete(files, path)


def _delete(files: FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        files.delete_file(path)


def _root(table_uri: str) -> Path | None:
    local = local_files(table_uri)
    return None if local is None else Path(local.base_path).resolve()


def _is_inside(root: Path, path: str) -> bool:
    return (root / path).parent.resolve().is_relative_to(root)

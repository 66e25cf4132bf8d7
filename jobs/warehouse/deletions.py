"""Decides which files of a table may be deleted, and deletes them.

A deletion is not a commit, so no token guards it: a process that decided to delete may sleep until another one has its
lease, wake, and delete then. So no file is ever deleted that a later version could name, whenever the deletion happens:

1. A version is opened. Candidates are the files that it has removed, and the files in the folder that it does not
   name and that are older than a bound.
2. A fence is committed. From then on the table refuses every earlier writer. A later writer writes its files only after
   a fence of its own (`Ledger.create`), so under names that are not among the candidates.
3. The table is opened as it is after the fence. The files that it names are removed from the candidates. Names of files
   are never used again, so the candidates left are never named again.

There are two kinds of candidate. A file that a version has removed is never named again: deleting it needs no other
cluster's lease, and it is kept for readers of older versions as long as the settings say. A file that no version has
named may be about to be committed by a writer: if the deleter does not have that writer's lease, the file is deleted
only after `UNNAMED_HOURS_OF_OTHERS`.

The process may sleep for any time after each step. If it sleeps before the fence, it finds the token of a later writer,
and stops. If it sleeps after the fence, its list can't contain a file of a later writer: neither one that it has
committed or will commit, nor one that it has removed, which its readers may need for a while. Only writers whose lease
the deleter does not have could still commit a file of the list: another engine, and a cluster that has come since the
deleter took the leases. The bound protects those files: it is longer than any writer takes from a file to its commit. A
deleter with a short bound also asks, before each piece, whether a cluster has come (`newcomers`). The leases are
checked between pieces, too, so that a process that lost one stops soon.

No later version needs the files of a log before a checkpoint. Their names are used again only if the table is removed
and created again. So the leases are checked before each of these files is deleted. The same holds for a checkpoint that
has a later one. An old version is then read from the checkpoint before it, and from more commits.

delta-rs writes a file on a local disk first under a name that ends in `#` and a number, and its VACUUM does not see
such a name. A file of such a name that is a day old was left by a writer that was killed. If instead its writer slept
for a day, then the writer's next call fails; nothing has named the file.

No link is followed. A link leads to files that are not the ledger's, or to files in the table's folder under another
name, which the table may still use. If the path of a log has a link, the log is not even written to, since delta-rs
cleans up a log by itself.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.delta_log import files_of
from groupledger.jobs.warehouse.lease import all_held, has_been_held
from groupledger.jobs.warehouse.local_files import local_files
from groupledger.jobs.warehouse.storage import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

    from groupledger.jobs.warehouse.storage import Storage

UNNAMED_HOURS_MIN = 1
"""No writer takes so long from writing a file to committing it."""
UNNAMED_HOURS_OF_OTHERS = 7 * 24
"""Even a writer whose lease the deleter does not have, and that may sleep, commits no file after so long: its own lease
has long run out."""
HALF_WRITTEN_S_MAX = 86_400
HALF_WRITTEN = "*#[0-9]*"
PIECE = 500
LOG = "_delta_log"
LOG_FILE = re.compile(r"\.?([0-9]{20})\.")
COMMIT_FILE, CHECKPOINT_FILE = re.compile(r"([0-9]{20})\.json"), re.compile(r"([0-9]{20})\.checkpoint\.parquet")
NEWEST_CHECKPOINTS = 5
"""So many of the newest checkpoints are kept: a reader may be about to read one."""
COMMITS_PER_OLD_CHECKPOINT = 1_000
"""An old version of a table is read from a checkpoint and at most about so many commits."""


def unnamed_files(before: DeltaTable, hours: int | None) -> list[str]:
    """Returns the files in a table's folder that the opened version does not name and that are older than `hours`; if
    `hours` is None, older than the table's own retention. This is part of step 1 of the module's list."""
    return before.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)


def removed_files(table_uri: str, before: DeltaTable, until_ms: int | None = None) -> list[str]:
    """Returns the files that were removed up to the opened version, or up to the instant `until_ms`. It makes a
    checkpoint and reads them from it. This is part of step 1 of the module's list.

    delta-rs itself lists only files that were removed before now, by this machine's clock, and the clock of the process
    that removed them may have been ahead.
    """
    before.create_checkpoint()
    files, start = files_of(table_uri), f"{before.version():020}.checkpoint."
    found: list[str] = []
    for info in files.get_file_info(FileSelector(LOG)):
        if info.base_name.startswith(start):
            with files.open_input_file(info.path) as file:
                removed = pq.ParquetFile(file).read(["remove.path", "remove.deletionTimestamp"])["remove"]
            found += [
                each["path"]
                for each in removed.to_pylist()
                if each is not None and (until_ms is None or (each["deletionTimestamp"] or 0) <= until_ms)
            ]
    return found


def deletable_files(candidates: Iterable[str], fenced: DeltaTable) -> list[str]:
    """Returns the files that may be deleted: the candidates without those that the table names after the fence (step 3
    of the module's list)."""
    named = {unquote(path) for path in pa.table(fenced.get_add_actions(flatten=True))["path"].to_pylist()}
    return sorted({*map(unquote, candidates)} - named)


def delete_files(table_uri: str, paths: Iterable[str], check: Callable[[], None]) -> list[str]:
    """Deletes files of a table in pieces; before each piece it calls `check`, which raises if the process has to stop.
    A file that is gone already is not an error. Returns the files that it did not delete, because their path has a link
    or leads out of the folder."""
    files, root = files_of(table_uri), _root(table_uri)
    left, outside = iter(paths), []
    while piece := list(islice(left, PIECE)):
        check()
        for path in piece:
            if root is None or _is_inside(root, path):
                _delete(files, path)
            else:
                outside.append(path)
    return outside


def delete_log_before(table_uri: str, version: int, check: Callable[[], None]) -> list[str]:
    """Deletes the files of a table's log before `version`, which has a checkpoint. Returns the files that it did not
    delete, because their path has a link."""
    outside = []
    for info in files_of(table_uri).get_file_info(FileSelector(LOG)):
        numbered = LOG_FILE.match(info.base_name)
        if info.is_file and numbered is not None and int(numbered[1]) < version:
            outside += delete_files(table_uri, [info.path], check)
    return outside


def delete_old_checkpoints(table_uri: str, check: Callable[[], None]) -> None:
    """Deletes the checkpoints of a table that `superfluous_checkpoints` returns."""
    files = files_of(table_uri)
    names = [info.base_name for info in files.get_file_info(FileSelector(LOG)) if info.is_file]
    delete_files(table_uri, [f"{LOG}/{name}" for name in superfluous_checkpoints(names)], check)


def superfluous_checkpoints(names: Iterable[str]) -> list[str]:
    """Returns the checkpoints of a log that may go, oldest first, where `names` are all its files. Kept are
    the newest, the first of each 1,000 versions, and the first one from which the commits that are left can go on."""
    found = sorted(names)
    checkpoints = [int(match[1]) for match in map(CHECKPOINT_FILE.fullmatch, found) if match is not None]
    first_commit = next((int(match[1]) for match in map(COMMIT_FILE.fullmatch, found) if match is not None), 0)
    first_of_each = {version // COMMITS_PER_OLD_CHECKPOINT: version for version in reversed(checkpoints)}
    first_readable = [version for version in checkpoints if version >= first_commit - 1][:1]
    kept = {*checkpoints[:1], *first_readable, *first_of_each.values(), *checkpoints[-NEWEST_CHECKPOINTS:]}
    return [f"{version:020}.checkpoint.parquet" for version in checkpoints if version not in kept]


def delete_half_written(table_uri: str, check: Callable[[], None]) -> None:
    """Deletes half-written files of killed writers in a table's folder on a local disk."""
    root = _root(table_uri)
    for path in [] if root is None else sorted(root.rglob(HALF_WRITTEN)):
        check()
        with suppress(FileNotFoundError):  # another has deleted it
            if time.time() - path.lstat().st_mtime > HALF_WRITTEN_S_MAX and not path.is_dir():
                path.unlink()


def newcomers(storage: Storage, held: Iterable[str]) -> list[str]:
    """Returns the names of the leases in the warehouse that were ever taken and are not among `held`."""
    every = {each for cluster in storage.names(STATE_FOLDER) for each in all_held(cluster)}
    return sorted(each for each in every - {*held} if has_been_held(storage, each))


def refuse_linked_log(table_uri: str) -> None:
    """Raises InputError if the log's folder of a table on a local disk is a symbolic link."""
    root = _root(table_uri)
    if root is not None and (root / LOG).is_symlink():
        raise InputError(
            f"The folder {root}/{LOG} is a link, and the ledger does not change the folder that it leads to: put the"
            " folder itself in the place of the link, and run the command again."
        )


def _delete(files: FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        files.delete_file(path)


def _root(table_uri: str) -> Path | None:
    local = local_files(table_uri)
    return None if local is None else Path(local.base_path).resolve()


def _is_inside(root: Path, path: str) -> bool:
    folder = (root / path).parent
    return folder.is_relative_to(root) and folder.resolve() == folder

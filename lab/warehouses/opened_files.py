"""Counts the data files of a warehouse that a piece of work opens, whether Spark's tasks, pyarrow or delta-rs open
them.

Linux reports each opening of a file in a watched folder (inotify), whichever process opens it. So one method counts for
all engines, and no engine is asked what it believes to have read. Files that are created during the work do not count,
because they do not belong to the past. Files of the Delta log are left out, too, because checkpoints bound what they
cost.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IN_OPEN, IN_Q_OVERFLOW = 0x20, 0x4000
EVENT = struct.Struct("iIII")
BYTES_AT_ONCE = 1 << 20


class Opened(NamedTuple):
    """How many data files of a table were opened, and how many rows are in them."""

    files: int
    rows: int


@contextmanager
def opened_files(warehouse: Path) -> Iterator[dict[str, Opened]]:
    """Yields a dictionary that has, after the end of the `with` block, what the block opened, by table. Raises OSError
    if the system can't watch the folders."""
    files = {path for path in warehouse.rglob("*.parquet") if "_delta_log" not in path.parts}
    found: dict[str, Opened] = {}
    library = ctypes.CDLL(None, use_errno=True)
    watch = _checked(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        folders = {
            _checked(library.inotify_add_watch(watch, os.fsencode(folder), IN_OPEN)): folder
            for folder in {path.parent for path in files}
        }
        yield found
        opened = {folders[number] / name for number, name in _events(watch)} & files
    finally:
        os.close(watch)
    by_table: dict[str, list[Path]] = {}
    for path in opened:
        by_table.setdefault(path.relative_to(warehouse).parts[0], []).append(path)
    for name, paths in by_table.items():
        found[name] = Opened(len(paths), sum(pq.read_metadata(path).num_rows for path in paths))


def _checked(number: int) -> int:
    if number < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return number


def _events(watch: int) -> Iterator[tuple[int, str]]:
    """Yields the number of the folder and the name of each file that was opened."""
    while True:
        try:
            events = os.read(watch, BYTES_AT_ONCE)
        except BlockingIOError:
            return
        place = 0
        while place < len(events):
            number, kind, _, length = EVENT.unpack_from(events, place)
            place += EVENT.size + length
            if kind & IN_Q_OVERFLOW:
                raise OSError("more files were opened than the system counts")
            name = events[place - length : place].rstrip(b"\0")
            if name:
                yield number, os.fsdecode(name)

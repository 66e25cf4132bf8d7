"""Keeps Delta tables open for later questions, as long as nobody has written to them. Opening a table costs more than
most of what questions do with it.

A table in a folder is unchanged if the log file of the opened version is still the same file, and the next version has
no log file. A clean-up of the log removes the oldest files first, so it can't remove the next version's file and leave
this one. Tables in object stores are opened each time.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from groupledger.jobs.process.arrow_values import table_from
from groupledger.jobs.process.places import local_path
from groupledger.jobs.warehouse.readable import refuse_unreadable

if TYPE_CHECKING:
    from os import stat_result

KEPT_MAX = 256


@dataclass
class OpenedTable:
    """Holds a version of a table, and what its log says of its schema and files. `entry` identifies the log file of
    that version as it was when the table was opened; None if that file can't be seen, as in an object store."""

    delta: DeltaTable
    entry: tuple[int, ...] | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema(self.delta.schema().to_arrow())

    @cached_property
    def files(self) -> pa.Table:
        """A row for each data file, with `partition.COLUMN`, and with `min.COLUMN` and `max.COLUMN` of the columns for
        which the log has them."""
        return table_from(self.delta.get_add_actions(flatten=True))


_opened: OrderedDict[str, OpenedTable] = OrderedDict()


def open_table(place: str) -> OpenedTable:
    """Returns the newest version of the table at a place (a directory or a URI). Raises what delta-rs raises, and
    OutsideError for a table whose rows its data files alone do not give."""
    folder = local_path(place)
    log = None if folder is None else Path(folder) / "_delta_log"
    opened = _opened.get(place)
    if opened is not None and log is not None and _is_newest(opened, log):
        return opened
    delta = DeltaTable(place)
    refuse_unreadable(delta, place)
    found = OpenedTable(delta, None if log is None else _entry(log, delta.version()))
    if found.entry is not None:
        _opened[place] = found
        while len(_opened) > KEPT_MAX:
            _opened.popitem(last=False)
    return found


def _is_newest(opened: OpenedTable, log: Path) -> bool:
    version = opened.delta.version()
    return opened.entry == _entry(log, version) and _entry(log, version + 1) is None


def _entry(log: Path, version: int) -> tuple[int, ...] | None:
    """Returns what distinguishes the log file of a version from another of that name; None if it is not there."""
    try:
        found: stat_result = (log / f"{version:020}.json").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

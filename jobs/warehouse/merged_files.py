"""Merges the small files of a cluster that no longer change, so that readers of many dates open few files.

A file is merged with files of the same partition. If rows have a time, it is merged only with files of the same day: so
old rows stay separate from rows that a later pass may match. Only files with rows of this one cluster are touched. In a
table that is not partitioned by cluster, the bounds of the column `cluster` show which files these are. They do not
show it for a name of more than `PREFIX_CHARACTERS`, whose files are left as they are. The commits have no new data, and
streaming readers skip them.

Files with rows that a pass may still change are left as they are: those of today's date, of rows that are open or have
just ended, and of the windows of statistics of today and yesterday. The rows of a sampling round never change, so those
of today are merged, too: a day of them in small files would take seven times the room.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.dataset import FileSystemDataset

from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.task_files import write_batches_here
from groupledger.schemas.tables.all_tables import date_column
from groupledger.schemas.tables.table import IS_OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from groupledger.jobs.warehouse.commits import Commits
    from groupledger.schemas.tables.table import Table

    File = dict[str, Any]

SAMPLE_DATE = "sample_date"
JUST_ENDED = timedelta(hours=2)
"""A late pass may still match rows that ended so long ago. If it matches an older row, it only costs more."""


@dataclass(frozen=True)
class Settled:
    """A predicate of files: it holds if a file of `table` has rows of `cluster` alone, and none of them changes any
    more at the instant `now`."""

    table: Table
    cluster: str
    now: datetime

    def __call__(self, file: File) -> bool:
        if not is_of_cluster(file, self.cluster) or file.get(f"partition.{IS_OPEN.name}") == 1:
            return False
        name, table = date_column(self.table), self.table
        if name is not None:
            found = file[f"partition.{name}"]
            return found is not None and (found < self.now.date() or name == SAMPLE_DATE)
        if table.end_column is not None:
            return self._is_before(file, self.now - JUST_ENDED)
        if table.fixed_time_column is not None:
            yesterday = self.now.date() - timedelta(days=1)
            return self._is_before(file, datetime.combine(yesterday, time.min, timezone.utc))
        return True

    def _is_before(self, file: File, instant: datetime) -> bool:
        last = _last(file, self.table)
        return last is not None and last < instant

    @property
    def words(self) -> str:
        """Returns a description of the rows that no longer change, for a message."""
        name = date_column(self.table)
        if name is not None:
            return "all rounds" if name == SAMPLE_DATE else f"dates before {self.now.date()}"
        if self.table.end_column is not None:
            return "rows that have ended"
        return "the whole table" if self.table.fixed_time_column is None else "rows from before yesterday"


def is_of_cluster(file: File, cluster: str) -> bool:
    """Returns whether a file has rows of the cluster alone, as far as Delta's log shows."""
    if "partition.cluster" in file:
        return bool(file["partition.cluster"] == cluster)
    return bool(file.get("min.cluster") == cluster == file.get("max.cluster"))


def may_be_of_cluster(file: File, cluster: str) -> bool:
    """Returns whether a file may have a row of the cluster, as far as Delta's log shows."""
    if "partition.cluster" in file:
        return is_of_cluster(file, cluster)
    least, greatest = file.get("min.cluster"), file.get("max.cluster")
    return (least is None or least <= cluster) and (greatest is None or greatest >= cluster)


def files_to_merge(commits: Commits, is_settled: Settled, file_bytes_max: int) -> list[list[str]]:
    """Returns lists of paths. The files of each list are to be merged into one file of at most `file_bytes_max`."""
    groups: defaultdict[tuple[Any, ...], list[File]] = defaultdict(list)
    files = pa.table(commits.open(is_settled.table).get_add_actions(flatten=True)).to_pylist()
    for file in filter(is_settled, files):
        last = _last(file, is_settled.table)
        values = (value for name, value in file.items() if name.startswith("partition."))
        key = (*values, None if last is None else last.date())
        groups[key].append(file)
    return [paths for of_group in groups.values() for paths in _parts(of_group, file_bytes_max)]


def merge_files(commits: Commits, table: Table, paths: Sequence[str]) -> int:
    """Merges the files at `paths` in one commit; returns the number of new files."""
    every = dataset(commits.warehouse, table, commits.open(table))
    places = {path: number for number, path in enumerate(paths)}
    fragments = sorted(
        (each for each in every.get_fragments() if each.path in places), key=lambda each: places[each.path]
    )
    files = FileSystemDataset(fragments, every.schema, every.format, every.filesystem)
    new = write_batches_here(files.to_batches(batch_readahead=1, fragment_readahead=1), table, commits.warehouse)
    commits.replace_files(table, paths, new, is_new_data=False)
    return len(new)


def _parts(files: list[File], file_bytes_max: int) -> Iterator[list[str]]:
    """Yields files that fit into one together, if there are several of them."""
    waiting: list[File] = []
    for file in [*sorted(files, key=lambda each: each["modification_time"]), None]:
        size = sum(each["size_bytes"] for each in waiting)
        if file is None or size + file["size_bytes"] > file_bytes_max:
            if len(waiting) > 1:
                yield [each["path"] for each in waiting]
            waiting = []
        if file is not None:
            waiting.append(file)


def _last(file: File, table: Table) -> datetime | None:
    """Returns the latest time of a file's rows, as far as the log says."""
    name = table.end_column or table.fixed_time_column
    found: datetime | date | None = file.get(f"max.{name}") if name is not None else None
    return found if isinstance(found, datetime) else None

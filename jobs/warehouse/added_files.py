"""Finds the files that versions of a table added, and reads their rows, so that the cost of a read depends on new rows
only.

The table's own log shows which files a version added (`delta_log.added_by`). A reader that stores the next version to
read opens those files and no others, however long the table is. Sometimes log or files no longer show what was added,
because they were cleaned up or because a version wrote rows again. Then the reader scans the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow.fs
from pyspark.sql import functions as F

from groupledger.jobs.warehouse.delta_log import added_by, files_of, table_uri
from groupledger.jobs.warehouse.tables import not_a_pattern

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

# To open this many commits of the log takes less than a second.
VERSIONS_LOOKED_AT_MAX = 2_000


@dataclass(frozen=True, slots=True)
class AddedFiles:
    """The files that some versions of a table added, with rows of any cluster. `version` is the last of these versions,
    `paths` are relative to the table, and `row_count` is that of all files."""

    version: int
    paths: tuple[str, ...] = ()
    row_count: int = 0


def added_since(ledger: Ledger, table: Table, version: int) -> AddedFiles:
    """Returns the files that were added to a table after `version`, up to its newest version."""
    files: dict[str, int] = {}
    while (added := added_by(ledger.storage, table, version + 1)) is not None:
        version += 1
        files |= added.files
    return AddedFiles(version, tuple(files), sum(files.values()))


def added_between(ledger: Ledger, table: Table, first: int, last: int) -> AddedFiles | None:
    """Returns the files that the versions from `first` to `last` added to a table. Returns None if the log no longer
    has one of the versions, if one of them replaced files, or if a file is gone."""
    files: dict[str, int] = {}
    for version in range(first, last + 1):
        added = added_by(ledger.storage, table, version)
        if added is None or (added.files and added.has_replaced):
            return None
        files |= added.files
    found = files_of(table_uri(ledger.warehouse, table)).get_file_info(list(files))
    if any(each.type != pyarrow.fs.FileType.File for each in found):
        return None
    return AddedFiles(last, tuple(files), sum(files.values()))


def added_to_stream(ledger: Ledger, table: Table, first: int, last: int) -> AddedFiles | None:
    """Returns the files that a stream reads of the versions from `first` to `last`: as `added_between`, but without
    those of versions that replaced files (`skipChangeCommits`). Returns None if the log no longer has one of the
    versions."""
    files: dict[str, int] = {}
    for version in range(first, last + 1):
        added = added_by(ledger.storage, table, version)
        if added is None:
            return None
        if not added.has_replaced:
            files |= added.files
    return AddedFiles(last, tuple(files), sum(files.values()))


def first_version_of(ledger: Ledger, table: Table, paths: Collection[str], last: int) -> int | None:
    """Returns the earliest of the versions, up to `last`, that added the files in `paths`; the version after `last` if
    `paths` is empty. Returns None if the log does not show it, or if it is not among the newest VERSIONS_LOOKED_AT_MAX
    versions. The end of each path is the file's name."""
    missing = {_name(unquote(path)) for path in paths}
    version = last + 1
    while missing:
        version -= 1
        added = added_by(ledger.storage, table, version) if last - version < VERSIONS_LOOKED_AT_MAX else None
        if added is None:
            return None
        missing -= {_name(path) for path in added.files}
    return version


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def rows_in(ledger: Ledger, table: Table, files: AddedFiles) -> DataFrame:
    """Returns the cluster's rows in some files of a table."""
    if not files.paths:
        return ledger.empty(table)
    folder = not_a_pattern(ledger.path(table))
    reader = ledger.spark.read.schema(table.schema).option("basePath", folder)
    rows = reader.parquet(*[f"{folder}/{not_a_pattern(path)}" for path in files.paths])
    return rows.where(F.col("cluster") == F.lit(ledger.cluster))

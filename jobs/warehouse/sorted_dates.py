"""Sorts the rows of a cluster's closed dates of `coordinator_records` by partition, group and offset.

A question can only skip whole files, and files that were written in the order of the log have rows of every partition
and group. So the rows of a date are divided into files with few partitions each: a question about one group then opens
one file in fifty instead of all. A date with few rows gets fewer files, down to a single one.

The name of a file shows that it is sorted. A date that got another file later, because a record was decoded again or a
name was forgotten, is sorted again. The commit has no new data, and streaming readers skip it.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import FileSystemDataset

from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.task_files import write_here
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from groupledger.jobs.warehouse.commits import Commits
    from groupledger.jobs.warehouse.merged_files import Settled

SORTED = "sorted"
ORDER = ("cluster", "kafka_partition", "group_id", "kafka_offset")
FILES_A_DATE = 50
FILE_BYTES_MIN = 4 << 20
# So many rows are in memory at once. If a part of a date has more rows, it is sorted in pieces of this size.
ROWS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Unsorted:
    """A date that is not sorted: the `paths` of its files, and roughly the number of `files` that sorting makes of
    them."""

    paths: Sequence[str]
    files: int


def unsorted_dates(commits: Commits, is_settled: Settled, file_bytes_max: int) -> list[Unsorted]:
    """Returns the dates of `coordinator_records` that are not sorted yet, with those of their files that no longer
    change (`is_settled`)."""
    by_date: defaultdict[date, list[dict[str, Any]]] = defaultdict(list)
    files = pa.table(commits.open(COORDINATOR_RECORDS).get_add_actions(flatten=True)).to_pylist()
    for file in filter(is_settled, files):
        by_date[file["partition.ingest_date"]].append(file)
    return [
        Unsorted(
            [file["path"] for file in files], _files_for(sum(file["size_bytes"] for file in files), file_bytes_max)
        )
        for _, files in sorted(by_date.items())
        if not all(f"/{SORTED}-" in file["path"] for file in files)
    ]


def _files_for(size_bytes: int, file_bytes_max: int) -> int:
    return max(min(size_bytes // FILE_BYTES_MIN, FILES_A_DATE), size_bytes // file_bytes_max, 1)


def sort_date(commits: Commits, unsorted: Unsorted) -> int:
    """Sorts the rows of a date into new files, in one commit; returns the number of new files."""
    every = dataset(commits.warehouse, COORDINATOR_RECORDS, commits.open(COORDINATOR_RECORDS))
    fragments = [each for each in every.get_fragments() if each.path in set(unsorted.paths)]
    files = FileSystemDataset(fragments, every.schema, every.format, every.filesystem)
    rows_a_file = sum(each.count_rows() for each in fragments) / unsorted.files
    with TemporaryDirectory(prefix="groupledger-sort-") as folder:
        new = [
            file
            for place in _divided(files, list(_parts(files, rows_a_file)), Path(folder))
            for rows in _pieces(place)
            for file in write_here(
                rows.sort_by([(name, "ascending") for name in ORDER]), COORDINATOR_RECORDS, commits.warehouse, SORTED
            )
        ]
    commits.replace_files(COORDINATOR_RECORDS, unsorted.paths, new, is_new_data=False)
    return len(new)


def _divided(files: FileSystemDataset, parts: Sequence[pc.Expression], folder: Path) -> list[Path]:
    """Writes the rows of each part into a file of its own on the local disk, so that they are read once and never all
    in memory."""
    places = [folder / f"{number}.arrow" for number in range(len(parts))]
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_file(str(place), files.schema)) for place in places]
        for batch in files.to_batches(batch_readahead=1, fragment_readahead=1):
            rows = pa.Table.from_batches([batch])
            for part, writer in zip(parts, writers, strict=True):
                writer.write_table(rows.filter(part))
    return places


def _pieces(place: Path) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    with pa.ipc.open_file(str(place)) as file:
        for number in range(file.num_record_batches):
            waiting.append(file.get_batch(number))
            if sum(each.num_rows for each in waiting) >= ROWS_AT_ONCE:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _parts(files: FileSystemDataset, rows: float) -> Iterator[pc.Expression]:
    """Yields conditions that part the rows by cluster and partition, each for at least so many of them."""
    counts = files.to_table(columns=["cluster", "kafka_partition"]).group_by(["cluster", "kafka_partition"])
    names = ("cluster", "kafka_partition", "count_all")
    lines = sorted(map(itemgetter(*names), counts.aggregate([([], "count_all")]).to_pylist()))
    for cluster, of_cluster in groupby(lines, key=itemgetter(0)):
        partitions: list[int] = []
        waiting = 0
        for _, partition, count in of_cluster:
            partitions.append(partition)
            waiting += count
            if waiting >= rows:
                yield _is_of(cluster, partitions)
                partitions, waiting = [], 0
        if partitions:
            yield _is_of(cluster, partitions)


def _is_of(cluster: str, partitions: Sequence[int]) -> pc.Expression:
    return (pc.field("cluster") == cluster) & pc.field("kafka_partition").isin(pa.array(partitions, pa.int32()))

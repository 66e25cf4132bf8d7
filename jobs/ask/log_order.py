"""Puts rows of `coordinator_records` into the order of the log, however many there are.

Files hold rows of many partitions, so all files are read once and sorted, instead of once for each partition. Rows that
do not fit into memory are written, by partition of the log, to files in the temporary folder; then one partition after
the other is read back and sorted.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PARTITION, OFFSET = "kafka_partition", "kafka_offset"
ORDER = [(PARTITION, "ascending"), (OFFSET, "ascending")]
BYTES_IN_MEMORY = 256 * 2**20


def in_log_order(batches: Iterable[pa.RecordBatch], bytes_max: int = BYTES_IN_MEMORY) -> Iterator[pa.Table]:
    """Yields the rows in order, as tables: one table if they fit into memory, else one for each partition of the
    log."""
    kept: list[pa.RecordBatch] = []
    size, read = 0, iter(batches)
    for batch in read:
        kept.append(batch)
        size += batch.nbytes
        if size > bytes_max:
            break
    else:
        if kept:
            yield pa.Table.from_batches(kept).sort_by(ORDER)
        return
    with tempfile.TemporaryDirectory(prefix="groupledger-records-") as folder:
        partitions = _by_partition(chain(kept, read), Path(folder))
        del kept
        for number in sorted(partitions):
            with pa.OSFile(str(partitions[number])) as file, pa.ipc.open_stream(file) as stream:
                yield stream.read_all().sort_by(ORDER)


def _by_partition(batches: Iterable[pa.RecordBatch], folder: Path) -> dict[int, Path]:
    """Writes the rows of each partition of the log to a file of its own."""
    writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
    with ExitStack() as stack:
        for batch in batches:
            for number in pc.unique(batch[PARTITION]).to_pylist():
                if number not in writers:
                    file = stack.enter_context(pa.OSFile(str(folder / str(number)), "wb"))
                    writers[number] = stack.enter_context(pa.ipc.new_stream(file, batch.schema))
                writers[number].write(batch.filter(pc.equal(batch[PARTITION], number)))
    return {number: folder / str(number) for number in writers}


def last_of_the_log(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.Table]:
    """Yields one table with the last `count` rows in the order of the log, or nothing if there are no rows."""
    last: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        last = (rows if last is None else pa.concat_tables([last, rows])).sort_by(ORDER)[-count:].combine_chunks()
    if last is not None:
        yield last

"""Finds where an ingest continues, and checks that its checkpoint belongs to its tables.

Delta's streaming sink is exactly once only while checkpoint and table belong together: without the checkpoint it writes
every row again, and with an older one it silently drops new rows. So checkpoint and table are compared before a query
starts, and a mismatch is an error; `--recover` starts a new checkpoint after the last row of the table.

If the table itself was deleted, or restored from an older copy, the readings and `coverage` are cut back to its last
row, too. So later records are read again, as far as the topic or the capture still has them, and missing ones show as a
hole. The history is rebuilt; where records are gone, it knows less than before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.checkpoint import set_checkpoint_aside, source_offset, whole_checkpoint
from groupledger.jobs.warehouse.delta_log import last_transaction
from groupledger.jobs.warehouse.ledger import known_positions, row_positions
from groupledger.jobs.warehouse.rebuilds import request_rebuild
from groupledger.jobs.warehouse.source import write_source
from groupledger.jobs.warehouse.upsert import replace_cluster_arrow
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from groupledger.jobs.warehouse.checkpoint import Checkpoint
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.source import LedgerSource

OLDER = "is older than its checkpoint: it was deleted, replaced or restored"
EMPTY = "has no rows, and `coverage` says that some were read: it was deleted with its checkpoint"


@dataclass(frozen=True)
class Resume:
    """The place where a query continues. The table has all records up to the source offset `settled_offset`;
    `planned_offset` is the end of the planned batch that will be run again. Both are None if a new checkpoint begins.
    `source` is None if nothing was read yet, or if its file was lost."""

    source: LedgerSource | None
    settled_offset: str | None = None
    planned_offset: str | None = None


def resume_point(ledger: Ledger, source: LedgerSource | None, *, recover: bool) -> Resume:
    """Returns where the query continues. Raises InputError if the checkpoint, the table and the source file do not
    belong together; with `recover` such a checkpoint is set aside instead."""
    checkpoint = whole_checkpoint(ledger.storage, ledger.checkpoint_folder)
    table_batch = None if checkpoint is None else last_table_batch(ledger, checkpoint.query_id)
    is_unplanned = checkpoint is None or checkpoint.planned_batch is None
    has_rows = is_unplanned and ledger.has_rows(COORDINATOR_RECORDS)
    had_rows = has_rows or (is_unplanned and known_positions(ledger) != row_positions(ledger))
    problem = mismatch(checkpoint, table_batch, has_rows=has_rows, had_rows=had_rows, has_source=source is not None)
    if problem is not None:
        if not recover:
            raise InputError(
                f"The table {COORDINATOR_RECORDS.name} {problem}. To continue would repeat or lose rows: restore both"
                " from one copy, or run `groupledger ingest --recover` to continue after the last row of"
                " the table."
            )
        if problem in (OLDER, EMPTY):
            source = go_back(ledger, source)
        set_checkpoint_aside(ledger.storage, ledger.lease, ledger.checkpoint_folder)
        return Resume(source)
    if checkpoint is None:
        return Resume(source)
    settled = max((batch for batch in (checkpoint.committed_batch, table_batch) if batch is not None), default=None)
    return Resume(
        source,
        source_offset(ledger.storage, ledger.checkpoint_folder, settled),
        source_offset(ledger.storage, ledger.checkpoint_folder, checkpoint.planned_batch),
    )


def mismatch(
    checkpoint: Checkpoint | None, table_batch: int | None, *, has_rows: bool, had_rows: bool, has_source: bool
) -> str | None:
    """Returns why checkpoint and table do not belong together, as the end of a sentence about the table; None if they
    do.

    `table_batch` is the last batch of the checkpoint's query that the table has. `has_rows` and `had_rows` matter only
    while the checkpoint has no planned batch.
    """
    planned = None if checkpoint is None else checkpoint.planned_batch
    committed = None if checkpoint is None else checkpoint.committed_batch
    if planned is None and has_rows:
        return "has rows, but the checkpoint that goes with them is gone"
    if planned is None:
        return EMPTY if had_rows else None
    if committed is not None and (table_batch is None or table_batch < committed):
        return OLDER
    if table_batch is not None and table_batch > planned:
        return "is newer than its checkpoint, which was restored"
    if not has_source:
        return "has rows, but the file that says which topic they came from is gone"
    return None


def go_back(ledger: Ledger, source: LedgerSource | None) -> LedgerSource | None:
    """Moves the ledger back to the last row of each partition, after rows of `coordinator_records` were lost. It
    requests a rebuild of the history, cuts the readings of the source and the rows of `coverage`, and returns the
    source. The caller sets the checkpoint aside last, so that an interrupted call is repeated."""
    ends = row_positions(ledger)
    version = ledger.version(COORDINATOR_RECORDS)
    request_rebuild(ledger.storage, ledger.lease, "rows of coordinator_records were lost", version)
    if source is not None:
        source = source.back_to(ends)
        write_source(ledger.storage, ledger.cluster, source)
    rows = _cut(ledger.arrow(COVERAGE).to_pylist(), ends)
    replace_cluster_arrow(ledger, COVERAGE, pa.Table.from_pylist([*rows], arrow_schema(COVERAGE.schema)))
    return source


def _cut(stretches: Iterable[dict[str, Any]], ends: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Yields the parts of `coverage` rows that lie before the ends of their partitions."""
    for row in stretches:
        end = ends.get(row["kafka_partition"], 0)
        if row["to_offset"] <= end:
            yield row
        elif row["from_offset"] < end:
            yield row | {"to_offset": end, "to_time": None}


def last_table_batch(ledger: Ledger, query_id: str) -> int | None:
    """Returns the number of the last batch of a streaming query that `coordinator_records` has; None if it has none."""
    return last_transaction(ledger.warehouse, COORDINATOR_RECORDS, query_id)

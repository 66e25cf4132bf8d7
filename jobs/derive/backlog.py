"""Folds a backlog in units, as a first fold is (`jobs.derive.first_fold`): a micro-batch of the history that has more
records than a unit, after a standstill or a long ingest.

The units are cut out of the files that the versions of the batch have added to `coordinator_records`, and are folded
within the batch, into the tables that everybody reads. Each leaves them as a micro-batch would. The stream itself does
not know of them: after a kill it plans the same batch again, and the note (`jobs.warehouse.backlog`) says which units
are done.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from groupledger.jobs.derive import first_fold
from groupledger.jobs.derive.first_fold import FoldInUnits, fold_in_units
from groupledger.jobs.ingest.patience import BatchGivenUpError
from groupledger.jobs.warehouse.added_files import added_to_stream, rows_in
from groupledger.jobs.warehouse.backlog import Backlog, end_backlog, note_backlog, unfinished_backlog
from groupledger.jobs.warehouse.checkpoint import last_batch
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.first_fold import FirstFold
from groupledger.jobs.warehouse.readers import HISTORY, folder_of, reader_after
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from groupledger.jobs.derive.first_fold import Part
    from groupledger.jobs.warehouse.added_files import AddedFiles
    from groupledger.jobs.warehouse.ledger import Ledger


def begin_backlog(ledger: Ledger, unread_count: int, first_version: int | None = None) -> Backlog | None:
    """Returns the backlog that goes on in this pass. If there is none, notes that one begins with the next batch that
    is planned, if more records are unread than a unit may have; otherwise returns None. `first_version` must be given
    if that is the stream's very first batch."""
    backlog = unfinished_backlog(ledger.storage, ledger.cluster)
    if backlog is None and unread_count > first_fold.RECORDS_PER_UNIT:
        planned = last_batch(ledger.storage, f"{folder_of(ledger.cluster, HISTORY)}/offsets")
        table_id = str(open_table(ledger.warehouse, COORDINATOR_RECORDS).metadata().id)
        backlog = Backlog(0 if planned is None else planned + 1, FirstFold(table_id), first_version)
        note_backlog(ledger.storage, ledger.lease, backlog)
    return backlog


def fold_backlog(ledger: Ledger, batch: int, fold: Callable[[DataFrame, Part], None], stop: threading.Event) -> bool:
    """Folds a planned batch of the stream, by a call of `fold` for each unit. Returns False, and folds nothing, if it
    has to be folded at once: it is small, or may have been begun at once. Raises BatchGivenUpError if it was stopped
    before the end."""
    backlog = unfinished_backlog(ledger.storage, ledger.cluster)
    if backlog is None or batch < backlog.batch:
        return False
    if batch > backlog.batch:
        backlog = Backlog(batch, FirstFold(backlog.fold.table_id))
    files = _files_of(ledger, backlog)
    if files is None or not (backlog.fold.is_in_units or files.row_count > first_fold.RECORDS_PER_UNIT):
        end_backlog(ledger.storage, ledger.lease)
        return False
    begun = FoldInUnits(
        progress=backlog.fold,
        note=lambda progress: note_backlog(ledger.storage, ledger.lease, replace(backlog, fold=progress)),
        into=ledger,
        is_counted=True,
    )
    if not fold_in_units(ledger, rows_in(ledger, COORDINATOR_RECORDS, files), files, begun, fold, stop):
        raise BatchGivenUpError("The command was stopped between two units of a backlog: run it again.")
    return True


def _files_of(ledger: Ledger, backlog: Backlog) -> AddedFiles | None:
    """Returns the files whose rows the batch has; None if the log does not say which they are."""
    before, after = (
        reader_after(ledger.storage, ledger.cluster, HISTORY, number) for number in (backlog.batch - 1, backlog.batch)
    )
    first = backlog.first_version if before is None else before.next_version
    if first is None or after is None:
        return None
    return added_to_stream(ledger, COORDINATOR_RECORDS, first, after.next_version - 1)

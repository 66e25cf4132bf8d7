"""Spreads the rows of a warehouse's tables over several files, as they lie after months.

The tables of a test are small, and a merge writes a small table as one file. In a large table a question or a batch
opens some files without a row that it needs: names and times of all files overlap, so that their bounds leave out no
file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.warehouse.task_files import write_here

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger

FILES = 3


def scatter(ledger: Ledger) -> None:
    """Writes each table as so many files for each of its partitions, which is no new data for its readers. All rows are
    of the ledger's cluster."""
    for table in ledger.existing():
        ledger.create(table)
        rows = ledger.arrow(table).sort_by([(name, "ascending") for name in table.key])
        parts = (pa.array(range(first, rows.num_rows, FILES), pa.int64()) for first in range(FILES))
        new = [file for part in parts if len(part) for file in write_here(rows.take(part), table, ledger.warehouse)]
        ledger.commits.replace_files(table, ledger.commits.paths(table, {}), new, is_new_data=False)

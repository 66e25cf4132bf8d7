"""Spreads the rows of a warehouse's tables over several files, as in a table that has been written for months.

The tables of a test are small, and a merge writes a small table as one file. In a large table a question or a batch
also opens files that have no row that it needs: the names and times in the files overlap, so that the statistics of a
file exclude none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from groupledger.jobs.warehouse.task_files import write_here

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger

FILES = 3


def scatter(ledger: Ledger) -> None:
    """Writes each table as `FILES` files for each of its partitions. Readers of the Delta log see that as no new data.
    All rows must be of the ledger's cluster."""
    for table in ledger.existing():
        ledger.create(table)
        rows = ledger.arrow(table).sort_by([(name, "ascending") for name in table.key])
        parts = (pa.array(range(first, rows.num_rows, FILES), pa.int64()) for first in range(FILES))
        new = [file for part in parts if len(part) for file in write_here(rows.take(part), table, ledger.warehouse)]
        ledger.commits.replace_files(table, ledger.commits.paths(table, {}), new, is_new_data=False)

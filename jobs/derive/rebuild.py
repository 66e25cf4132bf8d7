"""Remembers which tables a rebuild of the history began with, so that a killed rebuild can be repeated.

A rebuild replaces one table after the other. Before the first it notes the versions of the tables
(`jobs.warehouse.rebuilds`); after the last it removes the note. While the note exists, some tables are old and some
new: the next pass over the history makes the rebuild again, or goes on with one in units (`rebuild_in_units`), and
takes the rows to carry over from the noted versions. Delta keeps the files of a version for
`delta.deletedFileRetentionDuration` (`schemas.tables.table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.rebuilds import note_versions, versions_before
from groupledger.jobs.warehouse.tables import every_row, frame_of
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.transforms.history.carried_over import carried_over, horizons, open_states, taken_over
from groupledger.transforms.history.group_history import DERIVED_TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.history.group_history import Marks


def begin(ledger: Ledger) -> None:
    """Notes the present versions of the history's tables. A version that an unfinished rebuild has noted is not
    replaced."""
    noted = versions_before(ledger.storage, ledger.cluster)
    versions = {table.name: ledger.version(table) for table in (*DERIVED_TABLES, OPEN_GROUPS)}
    # A table that was deleted and created again does not have the noted version.
    kept = {name: version for name, version in noted.items() if version <= versions[name]}
    note_versions(ledger.storage, ledger.lease, versions | kept)


class HistoryBefore:
    """The history before a rebuild, and the groups that have lost records to retention. If a killed rebuild is
    repeated, both are the same."""

    def __init__(self, ledger: Ledger, retained_from: Mapping[int, int]) -> None:
        """`retained_from` has, by partition of the log, the offset of the oldest record that is left."""
        self._ledger = ledger
        self._versions = versions_before(ledger.storage, ledger.cluster)
        lost = horizons(self._rows(GROUPS), self._rows(GENERATIONS), retained_from).toArrow()
        self.has_lost = lost.num_rows > 0
        # Every table is joined with them: in memory they add nothing to its plan.
        self._horizons = frame_of(ledger.spark, lost)
        self._open_groups: DataFrame | None = None

    def _rows(self, table: Table) -> DataFrame:
        return self._ledger.rows_within(table, every_row, self._versions[table.name])

    def open_groups(self, marks: Marks) -> DataFrame:
        """Returns the states from which the fold of groups that have lost records continues."""
        self._open_groups = open_states(self._rows, self._horizons, marks)
        return self._open_groups

    def with_carried_over(self, table: Table, rows: DataFrame) -> DataFrame:
        """Returns the new rows of a table together with the old rows that can't be computed again."""
        if not self.has_lost:
            return rows
        before = self._open_groups if table is OPEN_GROUPS and self._open_groups is not None else self._rows(table)
        return taken_over(table, rows, carried_over(table, before, self._horizons))

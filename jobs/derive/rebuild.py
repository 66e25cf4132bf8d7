"""Remembers which tables a rebuild of the history began with, so that a killed rebuild can be repeated.

A rebuild replaces one table after the other. Before the first it writes `_groupledger/<cluster>/rebuild.json`, with the
versions of the tables by name; after the last it removes the file. While the file exists, the tables are partly old and
partly new: the next pass over the history makes the rebuild again, and takes the rows to carry over from the tables in
these versions. Delta keeps the files of a version for `delta.deletedFileRetentionDuration` (`schemas.tables.table`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from groupledger.jobs.warehouse.storage import STATE_FOLDER
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


def is_unfinished(ledger: Ledger) -> bool:
    """Returns whether a rebuild was begun and not finished."""
    return ledger.storage.read(_name(ledger)) is not None


def begin(ledger: Ledger) -> None:
    """Notes the versions that the tables have now; those that an unfinished rebuild has noted stay."""
    noted = json.loads(ledger.storage.read(_name(ledger)) or "{}")
    versions = {table.name: ledger.version(table) for table in (*DERIVED_TABLES, OPEN_GROUPS)}
    # A table that was deleted and created anew does not have the noted version.
    kept = {name: version for name, version in noted.items() if version <= versions[name]}
    ledger.storage.write(_name(ledger), json.dumps(versions | kept))


def end(ledger: Ledger) -> None:
    """Removes the note: the tables are those of one history again."""
    ledger.storage.delete(_name(ledger))


def _name(ledger: Ledger) -> str:
    return f"{STATE_FOLDER}/{ledger.cluster}/rebuild.json"


class HistoryBefore:
    """The history as it was when a rebuild began, and the groups that have lost records. A rebuild that repeats a
    killed one finds the same."""

    def __init__(self, ledger: Ledger, retained_from: Mapping[int, int]) -> None:
        self._ledger = ledger
        self._versions = json.loads(ledger.storage.read(_name(ledger)) or "{}")
        self._horizons = horizons(self._rows(GROUPS), self._rows(GENERATIONS), retained_from).persist()
        self._has_lost = not self._horizons.isEmpty()
        self._open_groups: DataFrame | None = None

    def _rows(self, table: Table) -> DataFrame:
        return self._ledger.rows(table, self._versions[table.name])

    def open_groups(self, marks: Marks) -> DataFrame:
        """Returns the states that the groups which have lost records go on from."""
        self._open_groups = open_states(self._rows, self._horizons, marks)
        return self._open_groups

    def with_carried_over(self, table: Table, rows: DataFrame) -> DataFrame:
        """Returns the new rows of a table, and the old rows that can't be made again."""
        if not self._has_lost:
            return rows
        before = self._open_groups if table is OPEN_GROUPS and self._open_groups is not None else self._rows(table)
        return taken_over(table, rows, carried_over(table, before, self._horizons))

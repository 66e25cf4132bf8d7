"""Finds sampling rounds in the tables that have a row for each round: `lag`, `watermarks`, `group_states`.

A monitor adds a round every few seconds, so that a day of them is a long table. Delta's log has the first and the last
round of each file. If a file has rows of this cluster only, these two give a lower bound of the newest round, and only
files that reach the bound are read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.arrow_values import scalar_of, value_of, values_of

if TYPE_CHECKING:
    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter

# Delta's log has times in whole milliseconds, and may round them.
SAMPLED_AT = "sampled_at"
ROUNDING = timedelta(milliseconds=1)


def last_round(tables: ClusterRows, table: str, at: datetime | None = None) -> datetime | None:
    """Returns the instant of the newest round, or of the last one at or before an instant; None if there is none.
    Raises InputError if the table is not there."""
    if at is not None:
        return newest(tables, table, SAMPLED_AT, at)
    # An answer, and the check of what is known for it, both ask for this, and read one version of the table.
    if table not in tables.last_rounds:
        tables.last_rounds[table] = newest(tables, table, SAMPLED_AT)
    return tables.last_rounds[table]


def newest(tables: ClusterRows, table: str, column: str, at: datetime | None = None) -> datetime | None:
    """Returns the newest instant in a column of a table, or the last one at or before `at`; None if there is none."""
    by_then: list[Filter] = [] if at is None else [(column, "<=", at)]
    earliest = _round_at_or_after(tables, table, column, at)
    if earliest is not None:
        found = _newest(tables, table, column, [*by_then, (column, ">=", earliest - ROUNDING)])
        if found is not None:
            return found
    return _newest(tables, table, column, by_then)


def of_round(sampled_at: datetime) -> list[Filter]:
    """Returns filters for the rows of one round."""
    return [("sample_date", "=", sampled_at.date()), ("sampled_at", "=", sampled_at)]


def _newest(tables: ClusterRows, table: str, column: str, filters: list[Filter]) -> datetime | None:
    instants = (value_of(pc.max(batch[column])) for batch in tables.scan(table, *filters, columns=(column,)))
    return max((at for at in instants if at is not None), default=None)


def _round_at_or_after(tables: ClusterRows, table: str, column: str, at: datetime | None) -> datetime | None:
    """Returns an instant at or after which there is a round of the cluster by then; None if the log has none."""
    files = tables.files(table)
    names = ("min.cluster", "max.cluster", f"min.{column}", f"max.{column}")
    if not {*names} <= {*files.column_names}:
        return None
    cluster = scalar_of(tables.cluster, pa.string())
    of_cluster = pc.and_(pc.equal(files["min.cluster"], cluster), pc.equal(files["max.cluster"], cluster))
    instants = [
        last if at is None or last <= at else first
        for first, last in zip(*(values_of(files.filter(of_cluster)[name]) for name in names[2:]), strict=True)
        if first is not None and last is not None and (at is None or first <= at)
    ]
    return max(instants, default=None)

"""Reads the rows that incidents are computed from: of all groups, or of some by their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.warehouse.tables import NAMED_MAX, every_row, of_spark
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.incidents.incidents import Asked, History, IncidentTables
from groupledger.transforms.incidents.log_facts import wanted_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.derive.commit_steps import CommitSteps
    from groupledger.jobs.derive.reach import Reach
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import Condition
    from groupledger.schemas.tables.table import Table

OF_GROUPS = (GENERATIONS, REBALANCES, MEMBERS)
ENDS = {"lag_stretches": "until_ms", "rebalance_stretches": "last_ms"}
OF_GROUPS_IF_ANY = (REQUESTS, COORDINATOR_EVENTS, MEMBER_EPOCHS, OFFSET_EVENTS, COMMITTED_OFFSETS, GROUPS)


def incident_tables(
    ledger: Ledger,
    steps: CommitSteps,
    known: Mapping[str, DataFrame],
    keep: Callable[[DataFrame], DataFrame],
    names: Sequence[str] | None,
    reach: Reach,
) -> IncidentTables:
    """Returns the rows of the groups with some names, or of all groups, as far back as `reach` says. `known` are
    further rows of all groups, by their names in `IncidentTables`."""

    def read(table: Table) -> DataFrame:
        if names is None:
            return ledger.rows_within(table, reach.within(table))
        return ledger.rows_named(table, "group_id", names, reach.within(table))

    tables = (*OF_GROUPS, *(table for table in OF_GROUPS_IF_ANY if ledger.exists(table)))
    rows = {table.name: read(table) for table in tables}
    rows[COVERAGE.name] = ledger.rows_within(COVERAGE, every_row)
    if REQUESTS.name in rows:
        rows[REQUESTS.name] = keep(wanted_requests(rows[REQUESTS.name]))

    def is_named(column: Callable[[str], Any]) -> Any:
        return True if names is None else column("group_id").isin([*names])

    rows |= {name: each.where(of_spark(is_named)).where(_is_read(name, reach)) for name, each in known.items()}
    suspects = steps.of(lambda column: (column("is_suspect") == 1) & is_named(column), reach.within(COMMIT_STEPS))
    return IncidentTables(suspects=suspects, **rows)


def _is_read(name: str, reach: Reach) -> Column:
    """Returns the condition for stretches of samples that a pass reads; for all rows of what has no past."""
    end = ENDS.get(name)
    return F.lit(True) if end is None or reach.since_ms is None else F.col(end) >= reach.since_ms


@dataclass(frozen=True)
class Named:
    """Selects the rows whose `column` has one of the names in the frame `names`. If the names are few, `few` has them,
    and they become part of the filter, so that most rows of other groups are never read. If there is no name, no row is
    read."""

    column: str
    names: DataFrame
    few: Sequence[str] | None

    def condition(self, column: Callable[[str], Any]) -> Any:
        if self.few is None:
            return True
        return column(self.column).isin(self.few) if self.few else False

    def among(self, rows: DataFrame) -> DataFrame:
        if self.few is None:
            return rows.join(self.names.select(self.column), self.column, "left_semi")
        return rows.where(of_spark(self.condition))

    def read(self, ledger: Ledger, table: Table, condition: Condition = every_row) -> DataFrame:
        if self.few is not None:
            return ledger.rows_named(table, self.column, self.few, condition)
        return self.among(ledger.rows_within(table, condition))


@dataclass(frozen=True)
class AskedTables:
    """Reads the rows of each table that `facts_of` asks for."""

    ledger: Ledger
    tables: IncidentTables
    steps: CommitSteps
    keep: Callable[[DataFrame], DataFrame]
    reach: Reach
    groups: set[str] = field(default_factory=set)  # whose records were asked for

    def asked(self, names: DataFrame) -> Asked:
        groups, past_of, topics = self._named(names)
        for each in (groups, past_of):
            self.groups.update(each.few if each.few is not None else _collected(each.names, "group_id"))
        records, watermarks = (self.reach.within(table) for table in (COORDINATOR_RECORDS, WATERMARKS))
        return Asked(
            coordinator_records=groups.read(self.ledger, COORDINATOR_RECORDS, records),
            past_records=past_of.read(self.ledger, COORDINATOR_RECORDS),
            watermarks=topics.read(self.ledger, WATERMARKS, watermarks) if self.ledger.exists(WATERMARKS) else None,
        )

    def history(self, groups: DataFrame) -> History:
        (theirs,) = self._named(groups)
        return History(
            commit_steps=theirs.among(self.steps.of(theirs.condition, self.reach.within(COMMIT_STEPS))),
            generations=theirs.among(self.tables.generations),
            rebalances=theirs.among(self.tables.rebalances),
            members=theirs.among(self.tables.members),
            assignments=theirs.read(self.ledger, ASSIGNMENTS, self.reach.within(ASSIGNMENTS)),
            groups=None if self.tables.groups is None else theirs.among(self.tables.groups),
        )

    def _named(self, names: DataFrame) -> list[Named]:
        """Returns a `Named` for each column of `names`."""
        kept = self.keep(names)
        rows = kept.limit(NAMED_MAX + 1).collect()
        is_few = len(rows) <= NAMED_MAX
        found = []
        for name in names.columns:
            column = "group_id" if name == "past_of" else name
            few = [row[name] for row in rows if row[name] is not None] if is_few else None
            found.append(Named(column, kept.select(F.col(name).alias(column)), few))
        return found


def _collected(names: DataFrame, column: str) -> list[str]:
    return [row[column] for row in names.where(F.col(column).isNotNull()).select(column).distinct().collect()]

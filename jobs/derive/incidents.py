"""Computes `incidents` from the history and the logs, and writes those that differ in one Delta commit.

An incident's row depends on everything that the ledger knows about its group: a log that is imported later replaces a
guess by an observation. So every run computes all rows from the other tables; if these have no new rows, it changes
nothing. What is found among commits and samples, which are most of all rows, is stored from run to run
(`jobs.derive.commit_steps`, `jobs.derive.lag_stretches`, `jobs.derive.open_transactions`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.derive.commit_steps import commit_steps_until
from groupledger.jobs.derive.coordinator_faults import coordinator_faults
from groupledger.jobs.derive.lag_rounds import rounds_before_retention
from groupledger.jobs.derive.lag_stretches import stretches_of_lag
from groupledger.jobs.derive.open_transactions import sampled_transactions
from groupledger.jobs.derive.troubles import gathering, look_for_anybody, note_troubles
from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.conform import conform
from groupledger.jobs.warehouse.judged_logs import note_judged
from groupledger.jobs.warehouse.known_until import note_until, noted_until
from groupledger.jobs.warehouse.tables import NAMED_MAX, every_row, frame_of, of_spark
from groupledger.jobs.warehouse.topic_until import topic_until_ms
from groupledger.jobs.warehouse.upsert import replace_changed
from groupledger.schemas.instants import ms_if_known
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import Source, TroubledStep
from groupledger.transforms.incidents.incidents import (
    Asked,
    History,
    IncidentTables,
    OfCluster,
    facts_of,
    groups_of,
    incidents,
    incidents_of_cluster,
    wanted_requests,
)
from groupledger.transforms.incidents.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from groupledger.jobs.derive.commit_steps import CommitSteps
    from groupledger.jobs.derive.coordinator_faults import FaultsFound
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

READ = (COVERAGE, GENERATIONS, REBALANCES, MEMBERS)
NEEDED = (*READ, COORDINATOR_RECORDS, ASSIGNMENTS)
OF_OFFSETS = (OFFSET_EVENTS, COMMITTED_OFFSETS, GROUPS)
READ_IF_ANY = (REQUESTS, COORDINATOR_EVENTS, GROUP_STATES, MEMBER_EPOCHS, *OF_OFFSETS)


def update_incidents(ledger: Ledger) -> int:
    """Computes the incidents, writes those that differ, and returns the number of all. Raises InputError if the ledger
    has no history yet."""
    settings = ledger.settings
    rules = rules_from(Rules, settings.incidents, settings.history, settings.offsets)
    for table in NEEDED:
        ledger.require(table)
    log_rows = _imported_log_rows(ledger)  # before they are read: more may be imported meanwhile
    topic_ms = topic_until_ms(ledger)
    as_of_ms = _known_until_ms(ledger, topic_ms)
    history_ms = _history_ms(ledger, topic_ms)
    # Who has no later record was silent until the topic was last read, however long samples and logs have gone on.
    silent_ms = as_of_ms if history_ms is None else min(as_of_ms, history_ms)
    ledger.create(INCIDENTS)
    with _keeping() as keep:
        steps = commit_steps_until(ledger, silent_ms, rules, keep)
        disturbances = coordinator_faults(ledger)
        tables = _tables(ledger, steps, rules, keep, disturbances)
        facts = facts_of(tables, rules, silent_ms, AskedTables(ledger, tables, steps, keep))
        report = gathering(ledger)
        shared = OfCluster(topic_until_ms=history_ms)
        if disturbances is not None:
            shared = replace(shared, faults=disturbances.faults, coordinators=disturbances.coordinators)
        found = incidents(facts, rules, as_of_ms, report, shared)
        of_cluster = incidents_of_cluster(shared, rules, as_of_ms)
        if of_cluster.num_rows:
            found = found.unionByName(frame_of(ledger.spark, of_cluster))
        ledger.give_way()
        rows = conform(found.withColumn("cluster", F.lit(ledger.cluster)), INCIDENTS).toArrow()
        replace_changed(ledger, INCIDENTS, rows)
        note_troubles(ledger, TroubledStep.INCIDENTS, report.taken())
        look_for_anybody(ledger, TroubledStep.INCIDENTS, lambda: (row[0] for row in groups_of(facts).collect()))
    note_judged(ledger.storage, ledger.cluster, log_rows)
    note_until(ledger.storage, ledger.cluster, Source.INCIDENTS, history_ms)
    ledger.say(f"incidents: {rows.num_rows:,}")
    return int(rows.num_rows)


@contextmanager
def _keeping() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yields a function that persists rows which are read several times, until the end of the block."""
    kept: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        kept.append(rows.persist())
        return kept[-1]

    try:
        yield keep
    finally:
        for each in kept:
            each.unpersist()


def _tables(
    ledger: Ledger,
    steps: CommitSteps,
    rules: Rules,
    keep: Callable[[DataFrame], DataFrame],
    disturbances: FaultsFound | None,
) -> IncidentTables:
    tables = (*READ, *(table for table in READ_IF_ANY if ledger.exists(table)))
    rows = {table.name: ledger.rows_within(table, every_row) for table in tables}
    if ledger.exists(WATERMARKS):
        rows["open_transactions"] = sampled_transactions(ledger, rules.stalled_transaction_ms)
    if ledger.exists(LAG):
        rows["lag_stretches"] = keep(stretches_of_lag(ledger, rules.commit_gap_ms))
        rows["lag_rounds"] = keep(rounds_before_retention(ledger, keep))
    if REQUESTS.name in rows:
        rows[REQUESTS.name] = keep(wanted_requests(rows[REQUESTS.name]))
    if disturbances is not None and disturbances.hit.num_rows:
        rows["disturbed"] = frame_of(ledger.spark, disturbances.hit)
    return IncidentTables(suspects=steps.of(lambda column: column("is_suspect") == 1), **rows)


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

    def read(self, ledger: Ledger, table: Table) -> DataFrame:
        if self.few is not None:
            return ledger.rows_named(table, self.column, self.few)
        return self.among(ledger.rows_within(table, self.condition))


@dataclass(frozen=True)
class AskedTables:
    """Reads the rows of each table that `facts_of` asks for."""

    ledger: Ledger
    tables: IncidentTables
    steps: CommitSteps
    keep: Callable[[DataFrame], DataFrame]

    def asked(self, names: DataFrame) -> Asked:
        groups, topics = self._named(names)
        return Asked(
            coordinator_records=groups.read(self.ledger, COORDINATOR_RECORDS),
            watermarks=topics.read(self.ledger, WATERMARKS) if self.ledger.exists(WATERMARKS) else None,
        )

    def history(self, groups: DataFrame) -> History:
        (theirs,) = self._named(groups)
        return History(
            commit_steps=theirs.among(self.steps.of(theirs.condition)),
            generations=theirs.among(self.tables.generations),
            rebalances=theirs.among(self.tables.rebalances),
            members=theirs.among(self.tables.members),
            assignments=theirs.read(self.ledger, ASSIGNMENTS),
            groups=None if self.tables.groups is None else theirs.among(self.tables.groups),
        )

    def _named(self, names: DataFrame) -> list[Named]:
        """Returns a `Named` for each column of `names`."""
        kept = self.keep(names)
        rows = kept.limit(NAMED_MAX + 1).collect()
        is_few = len(rows) <= NAMED_MAX
        return [
            Named(column, kept, [row[column] for row in rows if row[column] is not None] if is_few else None)
            for column in names.columns
        ]


def _imported_log_rows(ledger: Ledger) -> int:
    if not ledger.exists(LOG_FILES):
        return 0
    return pc.sum(ledger.arrow(LOG_FILES, columns=("row_count",))["row_count"]).as_py() or 0


def _history_ms(ledger: Ledger, topic_ms: int | None) -> int | None:
    """Returns until when the history covers the topic; None if that is unknown."""
    folded_ms = ms_if_known(noted_until(ledger.storage, ledger.cluster, Source.HISTORY))
    return topic_ms if folded_ms is None or topic_ms is None else min(folded_ms, topic_ms)


def _known_until_ms(ledger: Ledger, topic_ms: int | None) -> int:
    """Returns the latest instant that the ledger knows of, which decides whether an incident is still open."""
    logged_ms = None
    if ledger.exists(LOG_FILES):  # its times leave out lines that wrong clocks dated in the future
        logged_ms = ms_if_known(pc.max(ledger.arrow(LOG_FILES, columns=("last_logged_at",))["last_logged_at"]).as_py())
    return max(last_sampled_at_ms(ledger, WATERMARKS), topic_ms or 0, logged_ms or 0)

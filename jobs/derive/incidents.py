"""Computes `incidents` from the history and the logs, and replaces the table in one Delta commit.

An incident's row depends on all that the ledger knows of its group: a log that is imported later replaces a guess by
what was seen. So every run computes all rows from the other tables, and a run without new rows there changes nothing.
What they ask of the commits and of the samples, which are most of what there is, is kept from run to run
(`jobs.derive.commit_steps`, `jobs.derive.open_transactions`).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.derive.commit_steps import commit_steps_until
from groupledger.jobs.derive.open_transactions import sampled_transactions
from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.judged_logs import note_judged
from groupledger.jobs.warehouse.tables import every_row
from groupledger.jobs.warehouse.upsert import replace_cluster
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.log_files import LOG_FILES
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.incidents.incidents import (
    IncidentTables,
    facts_of,
    incidents,
    of_groups,
    wanted_requests,
)
from groupledger.transforms.incidents.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

NEEDED = (COORDINATOR_RECORDS, COVERAGE, GENERATIONS, REBALANCES, MEMBERS, ASSIGNMENTS)
OF_OFFSETS = (OFFSET_EVENTS, COMMITTED_OFFSETS, GROUPS)
NAMED_MAX = 1_000
READ_IF_ANY = (REQUESTS, COORDINATOR_EVENTS, WATERMARKS, GROUP_STATES, MEMBER_EPOCHS, *OF_OFFSETS)


def update_incidents(ledger: Ledger) -> int:
    """Replaces the incidents and returns their number. Raises InputError if the ledger has no history yet."""
    settings = ledger.settings
    rules = rules_from(Rules, settings.incidents, settings.history, settings.offsets)
    log_rows = _imported_log_rows(ledger)  # before they are read: more may be imported meanwhile
    as_of_ms = _known_until_ms(ledger)
    ledger.create(INCIDENTS)
    with _keeping() as keep:
        tables = _tables(ledger, as_of_ms, rules, keep)
        facts = facts_of(tables, rules, as_of_ms, partial(_selected, keep))
        found = incidents(facts, rules, as_of_ms)
        ledger.give_way()
        replace_cluster(ledger, INCIDENTS, found.withColumn("cluster", F.lit(ledger.cluster)))
    note_judged(ledger.storage, ledger.cluster, log_rows)
    count: int = ledger.arrow(INCIDENTS, columns=("incident_id",)).num_rows
    ledger.say(f"incidents: {count:,}")
    return count


@contextmanager
def _keeping() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yields what keeps rows that are read several times, until the end of the block."""
    kept: list[DataFrame] = []

    def keep(rows: DataFrame) -> DataFrame:
        kept.append(rows.persist())
        return kept[-1]

    try:
        yield keep
    finally:
        for each in kept:
            each.unpersist()


def _tables(ledger: Ledger, as_of_ms: int, rules: Rules, keep: Callable[[DataFrame], DataFrame]) -> IncidentTables:
    for table in NEEDED:
        ledger.require(table)
    tables = (*NEEDED, *(table for table in READ_IF_ANY if ledger.exists(table)))
    rows = {table.name: ledger.rows_within(table, every_row) for table in tables}
    rows["commit_steps"] = commit_steps_until(ledger, as_of_ms, rules, keep)
    if WATERMARKS.name in rows:
        rows["open_transactions"] = sampled_transactions(ledger, rules.stalled_transaction_ms)
    if REQUESTS.name in rows:
        rows[REQUESTS.name] = keep(wanted_requests(rows[REQUESTS.name]))
    return IncidentTables(**rows)


def _selected(keep: Callable[[DataFrame], DataFrame], groups: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Does what `of_groups` does. The names of a few go into the condition, by which most of what others have left is
    never read; without a name nothing is."""
    groups = keep(groups)
    names = [row.group_id for row in groups.limit(NAMED_MAX + 1).collect()]
    return of_groups(groups) if len(names) > NAMED_MAX else lambda rows: rows.where(F.col("group_id").isin(names))


def _imported_log_rows(ledger: Ledger) -> int:
    if not ledger.exists(LOG_FILES):
        return 0
    return pc.sum(ledger.arrow(LOG_FILES, columns=("row_count",))["row_count"]).as_py() or 0


def _known_until_ms(ledger: Ledger) -> int:
    """Returns the latest instant that the ledger knows of, which decides whether an incident is still open."""
    ends = [ledger.rows_within(COVERAGE, every_row).select(F.col("to_time").alias("at"))]
    logs = (table for table in (REQUESTS, COORDINATOR_EVENTS) if ledger.exists(table))
    ends += [ledger.rows_within(table, every_row).select(F.col("logged_at").alias("at")) for table in logs]
    latest: list[int | None] = [end.agg(F.unix_millis(F.max("at"))).collect()[0][0] for end in ends]
    return max(last_sampled_at_ms(ledger, WATERMARKS), *(each or 0 for each in latest))

"""What went wrong, out of the history and the logs: `incidents` is computed anew, and replaced in one Delta commit.

An incident's row depends on everything that the ledger knows of its group (a log that is imported later turns a guess
into what was seen), so the rows are a function of the other tables, and a run with nothing new changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.ask.answers import collect
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.upsert import replace_cluster
from groupledger.jobs.warehouse.warehouse import create_table, read_table, table_exists
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.requests import REQUESTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import Evidence, Severity, words_of
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.incidents.incidents import IncidentTables, facts_of, incidents
from groupledger.transforms.incidents.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from pyspark.sql import DataFrame

    from groupledger.jobs.ask.answers import Answer, Warehouse
    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

EXPLANATION_WIDTH = 110


def update_incidents(ledger: Ledger) -> int:
    """How many there are now. Raises InputError if the ledger has no history yet."""
    rules = rules_of(ledger.settings)
    tables = _tables(ledger)
    as_of_ms = _known_until_ms(tables)
    create_table(ledger.spark, ledger.warehouse, INCIDENTS)
    found = incidents(facts_of(tables, rules, as_of_ms), rules, as_of_ms).withColumn("cluster", F.lit(ledger.cluster))
    replace_cluster(ledger.warehouse, INCIDENTS, ledger.cluster, found)
    count = ledger.rows(INCIDENTS).count()
    ledger.say(f"incidents: {count:,}")
    return count


def rules_of(settings: Settings) -> Rules:
    own, history = settings.incidents, settings.history
    return Rules(
        open_ms=own.open_s * 1_000,
        link_ms=own.link_s * 1_000,
        commit_gap_ms=own.commit_gap_s * 1_000,
        commit_gap_intervals=own.commit_gap_intervals,
        zombie_return_ms=own.zombie_return_s * 1_000,
        stalled_transaction_ms=own.stalled_transaction_s * 1_000,
        storm_rebalances=history.storm_rebalances,
        storm_rebalances_per_member=history.storm_rebalances_per_member,
        storm_window_ms=history.storm_window_s * 1_000,
        flapping_tenures=history.flapping_tenures,
        flapping_tenure_ms=history.flapping_tenure_s * 1_000,
    )


def _tables(ledger: Ledger) -> IncidentTables:
    def rows(table: Table) -> DataFrame:
        found = read_table(ledger.spark, ledger.warehouse, table)
        return found.where(F.col("cluster") == F.lit(ledger.cluster))

    def rows_if_any(table: Table) -> DataFrame | None:
        return rows(table) if table_exists(ledger.spark, ledger.warehouse, table) else None

    return IncidentTables(
        coordinator_records=rows(COORDINATOR_RECORDS),
        coverage=rows(COVERAGE),
        generations=rows(GENERATIONS),
        rebalances=rows(REBALANCES),
        members=rows(MEMBERS),
        assignments=rows(ASSIGNMENTS),
        requests=rows_if_any(REQUESTS),
        coordinator_events=rows_if_any(COORDINATOR_EVENTS),
        watermarks=rows_if_any(WATERMARKS),
    )


def _known_until_ms(tables: IncidentTables) -> int:
    """The latest instant that the ledger knows of: what "still open" is measured against."""
    logs = (tables.requests, tables.coordinator_events)
    ends = [tables.coverage.select(F.col("to_time").alias("at"))]
    ends += [rows.select(F.col("logged_at").alias("at")) for rows in logs if rows is not None]
    if tables.watermarks is not None:
        ends.append(tables.watermarks.select(F.col("sampled_at").alias("at")))
    latest = [end.agg(F.unix_millis(F.max("at"))).collect()[0][0] for end in ends]
    return max((each for each in latest if each is not None), default=0)


# To be read


def incidents_of(
    warehouse: Warehouse, group: str | None, since: datetime | None, kind: str | None, severity: str
) -> list[Answer]:
    """Those last seen since then, of at least that severity; those that began last come last."""
    rows = warehouse.rows(INCIDENTS)
    severities = words_of(Severity)
    rows = rows.where(F.col("severity").isin(*severities[severities.index(severity) :]))
    if group is not None:
        rows = rows.where(F.col("group_id") == F.lit(group))
    if kind is not None:
        rows = rows.where(F.col("kind") == F.lit(kind))
    if since is not None:
        rows = rows.where(F.col("last_seen_at") >= F.lit(since))
    return collect(rows.drop("cluster").orderBy("first_seen_at", "episode_id", "kind"))


def lines(incident: Answer) -> Iterator[str]:
    """An incident for a terminal; all names in it are made harmless."""
    when = iso(incident["first_seen_at"])
    if incident["last_seen_at"] != incident["first_seen_at"]:
        when += f" to {iso(incident['last_seen_at'])}"
    yield f"{when}  {incident['severity'].upper()}  {incident['kind']}{' (open)' if incident['is_open'] else ''}"
    yield f"    group {printable(incident['group_id'])}, episode {incident['episode_id'][:8]}: {_evidence(incident)}"
    yield from (f"    {line}" for line in _wrapped(incident["explanation"]))
    if incident["setting_to_change"] is not None:
        yield f"    change: {incident['setting_to_change']}"


def _evidence(incident: dict[str, Any]) -> str:
    times = f", {incident['occurrences']:,} times" if incident["occurrences"] > 1 else ""
    sure = "" if incident["evidence"] == Evidence.OBSERVED else f" (confidence {incident['confidence']:.2f})"
    doubt = ", in an order that the log does not tell" if incident["is_ambiguous"] else ""
    return f"{incident['evidence']}{sure}{times}{doubt}; probable root: {incident['probable_root']}"


def _wrapped(text: str) -> Iterator[str]:
    """Lines of whole words, each word harmless."""
    line = ""
    for word in map(printable, text.split(" ")):
        if line and len(line) + len(word) >= EXPLANATION_WIDTH:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    yield line

"""`groupledger validate` checks the ledger: it replays the log of every group through the reference coordinator.

Each run replaces `replay_findings` with the contents that no broker and no assignor of Kafka can have written. It also
folds the records again that the history has folded, and compares the result with the tables of the history and with
`open_groups`: a difference there is not a finding about Kafka but damage to the ledger, and an error by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.derive.aside import groups_aside, without
from groupledger.jobs.derive.batch_records import records_of
from groupledger.jobs.derive.history import all_events, folded_of, next_version, table_rows
from groupledger.jobs.derive.troubles import gathering, note_troubles
from groupledger.jobs.process.output import print_answers
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.warehouse.backlog import unfinished_backlog
from groupledger.jobs.warehouse.delta_log import check_commits
from groupledger.jobs.warehouse.ledger import floors_of
from groupledger.jobs.warehouse.rebuilds import is_requested, is_unfinished
from groupledger.jobs.warehouse.tables import every_row
from groupledger.jobs.warehouse.upsert import replace_cluster
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.replay_findings import REPLAY_FINDINGS
from groupledger.schemas.words import FindingSeverity, TroubledStep
from groupledger.transforms.history.differences import differences
from groupledger.transforms.history.group_history import DERIVED_TABLES
from groupledger.transforms.replay.replay_findings import replay_findings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table


def validate(ledger: Ledger) -> list[Row]:
    """Writes the findings of a replay and returns them, in log order. Raises InputError if there is nothing to replay,
    and OutsideError if records are missing because the file of their Delta commit is empty: no other table holds
    them."""
    if is_unfinished(ledger.storage, ledger.cluster):
        ledger.say("validate: a rebuild of the history was not finished: run `groupledger history` to finish it")
    stored = ledger.rows(COORDINATOR_RECORDS)
    check_commits(ledger.storage, COORDINATOR_RECORDS)
    records = records_of(ledger, stored).persist()
    ledger.create(REPLAY_FINDINGS)
    report = gathering(ledger)
    found = replay_findings(*all_events(ledger, records), report).withColumn("cluster", F.lit(ledger.cluster))
    replace_cluster(ledger, REPLAY_FINDINGS, found)
    note_troubles(ledger, TroubledStep.VALIDATE, report.taken())
    records.unpersist()
    return ledger.rows(REPLAY_FINDINGS).orderBy("kafka_partition", "kafka_offset", "finding").collect()


def damaged_groups(ledger: Ledger) -> list[Row]:
    """Returns the groups whose rows in the tables of the history differ from a fold of the records, in the form of
    `transforms.history.differences`. Groups that lost records to retention and groups that are set aside are not
    compared. Returns an empty list if the history has to be rebuilt anyway, or has not finished its first batch or a
    backlog."""
    unread = next_version(ledger)
    storage, cluster = ledger.storage, ledger.cluster
    is_underway = is_unfinished(storage, cluster) or unfinished_backlog(storage, cluster) is not None
    if unread is None or is_underway or is_requested(storage, cluster):
        return []
    floors = list(floors_of(ledger))
    records = ledger.rows(COORDINATOR_RECORDS, unread - 1).where(~F.col("kafka_partition").isin(floors))
    report = gathering(ledger)
    folded = folded_of(ledger, all_events(ledger, records_of(ledger, records)), report).persist()
    folded.count()
    aside = [*report.taken(), *groups_aside(ledger)]
    compared = records.select("group_id").distinct()

    def there(table: Table) -> DataFrame:
        ledger.require(table)
        rows = ledger.rows_within(table, every_row)
        return rows.join(compared, "group_id", "left_semi") if floors else rows

    tables = (*DERIVED_TABLES, OPEN_GROUPS)
    pairs = {
        table: (without(table_rows(folded, table, ledger.cluster), aside), without(there(table), aside))
        for table in tables
    }
    found = differences(pairs).orderBy("table_name", "group_id").collect()
    folded.unpersist()
    return found


def has_errors(findings: list[Row]) -> bool:
    """Returns whether one of the findings is an error. Warnings may have an explanation that the ledger does not
    hold."""
    return any(finding.severity == FindingSeverity.ERROR for finding in findings)


def say_damage(ledger: Ledger, damaged: list[Row]) -> None:
    for table_name in sorted({row.table_name for row in damaged}):
        rows = [row for row in damaged if row.table_name == table_name]
        ledger.say(
            f"the table {table_name} is not what its records say, for {len(rows):,} groups"
            f" ({sum(row.missing for row in rows):,} rows are missing, {sum(row.too_many for row in rows):,} too many),"
            f" such as {printable(rows[0].group_id)}: run `groupledger history --rebuild`"
        )


def print_findings(findings: list[Row], *, as_json: bool) -> None:
    columns = ("severity", "finding", "group_id", "incarnation", "generation", "kafka_offset", "explanation")
    print_answers("What can't be true", columns, [finding.asDict() for finding in findings], as_json=as_json)

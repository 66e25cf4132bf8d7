"""Reads what tells of coordinators that moved, died or stood still, for the incidents of all groups that they hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from groupledger.jobs.process.outside import of_the_table
from groupledger.jobs.warehouse.delta_log import dataset, rows_where, table_uri
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.kinds.triggers import LEFT_LINES
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.incidents.coordinator_faults import (
    GROUP_COLUMNS,
    MEMBER_COLUMNS,
    RECORD_COLUMNS,
    bursts,
    counted,
    departures,
    hit,
    seconds,
)
from groupledger.transforms.incidents.rules.coordinator_faults import (
    GIVEN_UP,
    LOADED,
    Coordinators,
    PartitionLine,
    coordinators,
    faults_of,
    moves,
    silences,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

LINE_COLUMNS = ("kind", "kafka_partition", "broker_id", "logged_at", "source_file", "line_number", "details")


@dataclass(frozen=True)
class FaultsFound:
    """`hit` has the names of the groups that were hit, in `group_id`."""

    faults: Sequence[CoordinatorFault]
    coordinators: Coordinators
    hit: pa.Table


def coordinator_faults(ledger: Ledger) -> FaultsFound | None:
    """Returns what the cluster's tables tell of its coordinators; None without a history."""
    if not ledger.exists(GROUPS) or not ledger.exists(MEMBERS):
        return None
    lines, stated = _lines(ledger), _stated(ledger)
    gone = departures(_columns(ledger, MEMBERS, MEMBER_COLUMNS), _columns(ledger, GROUPS, GROUP_COLUMNS), stated)
    records = seconds(_records(ledger, *span) for span in bursts(gone))
    faults = counted(faults_of([*moves(lines), *silences(records)]), gone)
    return FaultsFound(faults, coordinators(lines), hit(faults, gone))


def _lines(ledger: Ledger) -> list[PartitionLine]:
    if not ledger.exists(COORDINATOR_EVENTS):
        return []
    is_line = pc.field("kind").isin([LOADED, *GIVEN_UP]) & pc.field("kafka_partition").is_valid()
    return [
        PartitionLine(
            kind=row["kind"],
            kafka_partition=row["kafka_partition"],
            broker_id=row["broker_id"],
            at_ms=ms_of(row["logged_at"]),
            source_file=row["source_file"],
            line_number=row["line_number"],
            loading=dict(row["details"] or ()).get("loading"),
        )
        for row in ledger.arrow(COORDINATOR_EVENTS, is_line, LINE_COLUMNS).to_pylist()
    ]


def _stated(ledger: Ledger) -> set[str]:
    """Returns the members of which a coordinator logged that they left."""
    if not ledger.exists(COORDINATOR_EVENTS):
        return set()
    is_leave = pc.field("kind").isin(sorted(LEFT_LINES)) & pc.field("member_id").is_valid()
    return set(ledger.arrow(COORDINATOR_EVENTS, is_leave, ("member_id",))["member_id"].to_pylist())


def _records(ledger: Ledger, begin_ms: int, end_ms: int) -> pa.Table:
    at = pc.field("kafka_timestamp")
    is_then = (at >= instant_of_ms(begin_ms)) & (at < instant_of_ms(end_ms))
    return _columns(ledger, COORDINATOR_RECORDS, RECORD_COLUMNS, is_then)


def _columns(ledger: Ledger, table: Table, columns: Sequence[str], condition: Any = None) -> pa.Table:
    """Returns these columns of the cluster's rows, and reads no others: tables have many, and records long ones."""
    is_ours = pc.field("cluster") == ledger.cluster
    wanted = is_ours if condition is None else is_ours & condition
    with of_the_table(table_uri(ledger.warehouse, table)):
        return rows_where(dataset(ledger.warehouse, table), wanted, ["cluster", *columns])

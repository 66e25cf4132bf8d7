"""Finds the faults of coordinators that moved, died or stood still, for the incidents of all groups that a fault
hit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.outside import of_the_table
from groupledger.jobs.warehouse.delta_log import dataset, rows_where, table_uri
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.kinds.triggers import LEFT_LINES, REMOVED_LINES
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
    placed,
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

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault

LINE_COLUMNS = (
    *("kind", "kafka_partition", "group_id", "member_id", "broker_id"),
    *("logged_at", "source_file", "line_number", "details"),
)


@dataclass(frozen=True)
class FaultsFound:
    """The faults of coordinators. `coordinators` knows which broker loaded each partition last, and `hit` has the names
    of the groups that the faults hit, in the column `group_id`."""

    faults: Sequence[CoordinatorFault]
    coordinators: Coordinators
    hit: pa.Table


def coordinator_faults(ledger: Ledger) -> FaultsFound | None:
    """Returns the faults of coordinators that the cluster's tables show; None if there is no history yet."""
    if not ledger.exists(GROUPS) or not ledger.exists(MEMBERS):
        return None
    logged = _logged_events(ledger)
    lines = _lines(logged)
    members = _columns(ledger, MEMBERS, MEMBER_COLUMNS)
    departed = departures(members, _member_lines(logged, LEFT_LINES), _member_lines(logged, REMOVED_LINES))
    gone = placed(departed, _columns(ledger, GROUPS, GROUP_COLUMNS))
    quiet = [each for span in bursts(gone) for each in silences(seconds([_records(ledger, *span)]))]
    faults = counted(faults_of([*moves(lines), *quiet]), gone)
    return FaultsFound(faults, coordinators(lines), hit(faults, gone))


def _logged_events(ledger: Ledger) -> list[dict[str, Any]]:
    """Returns the lines about partitions of `__consumer_offsets`, and those in which members left or were removed."""
    if not ledger.exists(COORDINATOR_EVENTS):
        return []
    kind = pc.field("kind")
    is_line = kind.isin([LOADED, *GIVEN_UP]) & pc.field("kafka_partition").is_valid()
    is_leave = kind.isin(sorted(LEFT_LINES | REMOVED_LINES)) & pc.field("member_id").is_valid()
    rows: list[dict[str, Any]] = _columns(ledger, COORDINATOR_EVENTS, LINE_COLUMNS, is_line | is_leave).to_pylist()
    return rows


def _lines(logged: Sequence[dict[str, Any]]) -> list[PartitionLine]:
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
        for row in logged
        if row["kind"] in (LOADED, *GIVEN_UP)
    ]


def _member_lines(logged: Sequence[dict[str, Any]], kinds: frozenset[str]) -> pa.Table:
    """Returns the lines of some kinds, in which members left or were removed: `group_id`, `member_id` and `left_at`."""
    rows = [row for row in logged if row["kind"] in kinds]
    return pa.table(
        {
            "group_id": pa.array([row["group_id"] for row in rows], pa.string()),
            "member_id": pa.array([row["member_id"] for row in rows], pa.string()),
            "left_at": pa.array([row["logged_at"] for row in rows], pa.timestamp("us", "UTC")),
        }
    )


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

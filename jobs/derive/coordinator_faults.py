"""Finds the faults of coordinators that moved, died or stood still, for the incidents of all groups that a fault
hit. Only rows of the last hours are read; what else is needed is kept (`jobs.derive.settled_faults`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.derive.settled_faults import (
    LINE_COLUMNS,
    is_needed_line,
    note_settled,
    read_settled,
    settled_until_ms,
)
from groupledger.jobs.process.clock import HOUR_MS
from groupledger.jobs.process.outside import of_the_table
from groupledger.jobs.warehouse.delta_log import dataset, rows_where, table_uri
from groupledger.jobs.warehouse.tables import ended_since
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.kinds.triggers import LEFT_LINES, REMOVED_LINES
from groupledger.schemas.tables.coordinator_events import COORDINATOR_EVENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.table import IS_OPEN
from groupledger.transforms.incidents.coordinator_faults import (
    GROUP_COLUMNS,
    MEMBER_COLUMNS,
    RECORD_COLUMNS,
    STATED_WITHIN_MS,
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
from groupledger.transforms.incidents.settled_faults import Settled, settled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.incidents.coordinator_faults import Span
    from groupledger.transforms.incidents.rules.coordinator_faults import CoordinatorFault, Outage


@dataclass(frozen=True)
class FaultsFound:
    """The faults of coordinators. `coordinators` knows which broker loaded each partition last, and `hit` has the names
    of the groups that the faults hit, in the column `group_id`."""

    faults: Sequence[CoordinatorFault]
    coordinators: Coordinators
    hit: pa.Table


def coordinator_faults(
    ledger: Ledger, places: Mapping[str, Sequence[Any]], history_ms: int | None
) -> FaultsFound | None:
    """Returns the faults of coordinators that the cluster's tables show; None if there is no history yet. `places` are
    the versions of the tables from before they are read. The history is known until `history_ms`."""
    if not ledger.exists(GROUPS) or not ledger.exists(MEMBERS):
        return None
    before = read_settled(ledger, places)
    until_ms = before.until_ms if history_ms is None else max(settled_until_ms(history_ms), before.until_ms)
    if until_ms - before.all_until_ms >= ledger.settings.incidents.all_groups_interval_h * HOUR_MS:
        before = Settled()
    found = _searched(ledger, before)
    if not before.covers(found.faults) or not found.unplaced.isdisjoint(found.groups["group_id"].to_pylist()):
        before = Settled()
        found = _searched(ledger, before)
    if until_ms > 0:
        note_settled(ledger, replace(found.settled(until_ms), all_until_ms=before.all_until_ms or until_ms), places)
    faults = counted(found.faults, found.gone)
    return FaultsFound(faults, coordinators(found.lines), hit(faults, found.gone))


@dataclass(frozen=True)
class Searched:
    """What was found, together with what was kept. `unplaced` are the groups from before that had no row in `groups`,
    and `departed` are all departures, also those of such groups."""

    groups: pa.Table
    lines: Sequence[PartitionLine]
    departed: pa.Table
    gone: pa.Table
    silences: Mapping[Span, Sequence[Outage]]
    faults: Sequence[CoordinatorFault]
    unplaced: frozenset[str]

    def settled(self, until_ms: int) -> Settled:
        old = self.departed.filter(pc.field("left_ms") < until_ms)["group_id"]
        unplaced = self.unplaced.union(old.to_pylist()).difference(self.groups["group_id"].to_pylist())
        return settled(until_ms, self.lines, self.gone, self.silences, self.faults, unplaced)


def _searched(ledger: Ledger, before: Settled) -> Searched:
    from_ms = before.until_ms - STATED_WITHIN_MS if before.until_ms else None
    logged = _logged_events(ledger, from_ms)
    lines = [*before.lines, *(line for line in _lines(logged) if line.at_ms >= before.until_ms)]
    is_recent = None if from_ms is None else ended_since(MEMBERS, from_ms)(pc.field)
    members = _columns(ledger, MEMBERS, (*MEMBER_COLUMNS, IS_OPEN.name), is_recent)
    departed = departures(members, _member_lines(logged, LEFT_LINES), _member_lines(logged, REMOVED_LINES))
    departed = pa.concat_tables([before.departures, departed.filter(pc.field("left_ms") >= before.until_ms)])
    groups = _columns(ledger, GROUPS, GROUP_COLUMNS)
    gone = placed(departed, groups)
    quiet = {
        span: before.silences[span] if span in before.silences else [*silences(seconds(_records(ledger, *span)))]
        for span in bursts(gone)
    }
    faults = faults_of([*moves(lines), *(each for outages in quiet.values() for each in outages)])
    return Searched(groups, lines, departed, gone, quiet, faults, frozenset(before.unplaced))


def _logged_events(ledger: Ledger, from_ms: int | None) -> list[dict[str, Any]]:
    """Returns the lines about partitions of `__consumer_offsets`, and those in which members left or were removed."""
    if not ledger.exists(COORDINATOR_EVENTS):
        return []
    wanted = is_needed_line()
    if from_ms is not None:
        begin = instant_of_ms(from_ms)
        wanted &= (pc.field("logged_at") >= begin) & (pc.field("logged_date") >= begin.date())
    columns = (*LINE_COLUMNS, "logged_date")
    rows: list[dict[str, Any]] = _columns(ledger, COORDINATOR_EVENTS, columns, wanted).to_pylist()
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
        return rows_where(dataset(ledger.warehouse, table, condition=wanted), wanted, ["cluster", *columns])

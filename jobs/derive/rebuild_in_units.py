"""Makes a large rebuild of the history in units, as a first fold is made (`jobs.derive.first_fold`), into tables aside.

When all records are folded, each table is replaced in one commit by the rows of the table aside and the rows that are
carried over, `open_groups` last. Until then readers see the old tables. A killed rebuild goes on with the unit that was
broken off, or folds what has come since and replaces all tables again. It starts over if another release goes on, if a
rebuild was requested anew, since records that it has folded have changed, or if the tables that it replaces or those
aside are not the same any more.

The result is that of one fold of everything. For that, the states from which groups without their first records go on
are the first rows of `open_groups` aside. Which records are the first is noted when the rebuild begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.derive.aside import groups_aside
from groupledger.jobs.derive.batch_records import marks_of
from groupledger.jobs.derive.first_fold import FoldInUnits, is_much
from groupledger.jobs.derive.rebalance_stats import rebuild_rebalance_stats
from groupledger.jobs.derive.rebuild import HistoryBefore
from groupledger.jobs.derive.troubles import RELEASE, note_troubles, open_troubles
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.first_fold import FirstFold
from groupledger.jobs.warehouse.rebuild_units import (
    RebuildUnits,
    drop_aside,
    new_folder,
    note_units,
    unfinished_units,
)
from groupledger.jobs.warehouse.rebuilds import rebuild_request, versions_before
from groupledger.jobs.warehouse.upsert import replace_cluster
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.words import TroubledStep
from groupledger.transforms.history.group_history import DERIVED_TABLES

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.ledger import Ledger

FOLDED_TABLES = (*DERIVED_TABLES, OPEN_GROUPS)


def begin_rebuild(ledger: Ledger, version: int) -> FoldInUnits | None:
    """Returns the rebuild in units from a version of `coordinator_records`, which may go on; None if there are few
    records, and everything has to be folded at once. The versions of the old tables are noted already
    (`rebuild.begin`)."""
    delta = open_table(ledger.warehouse, COORDINATOR_RECORDS, version)
    table_id, request = str(delta.metadata().id), rebuild_request(ledger.storage, ledger.cluster)
    units = unfinished_units(ledger.storage, ledger.cluster)
    if units is None or not _may_go_on(ledger, units, table_id, request):
        if not is_much(delta):
            return None
        units = _begin(ledger, version, table_id, request)
    return _going_on(ledger, units)


def _going_on(ledger: Ledger, units: RebuildUnits) -> FoldInUnits:
    into = _aside(ledger, units)
    into.create(*FOLDED_TABLES)
    return FoldInUnits(
        progress=units.fold,
        note=lambda progress: note_units(ledger.storage, ledger.lease, replace(units, fold=progress)),
        into=into,
        finish=lambda: _replace_tables(ledger, into, HistoryBefore(ledger, units.retained_from)),
    )


def _may_go_on(ledger: Ledger, units: RebuildUnits, table_id: str, request: str | None) -> bool:
    """Returns whether what the units have folded can stay."""
    is_same = units.fold.table_id == table_id and units.release == RELEASE and request in {None, units.request}
    return is_same and units.fold.is_in_units and all(map(_aside(ledger, units).exists, FOLDED_TABLES))


def _begin(ledger: Ledger, version: int, table_id: str, request: str | None) -> RebuildUnits:
    """Notes a new rebuild, and writes the states from which groups without their first records go on."""
    offset = F.col("kafka_offset")
    records = ledger.rows(COORDINATOR_RECORDS, version).groupBy("kafka_partition").agg(F.min(offset), F.max(offset))
    extents = {partition: (first, last) for partition, first, last in records.collect()}
    units = RebuildUnits(
        fold=FirstFold(table_id),
        folder=new_folder(ledger.cluster),
        versions=versions_before(ledger.storage, ledger.cluster),
        retained_from={partition: first for partition, (first, _) in extents.items()},
        request=request,
        release=RELEASE,
    )
    note_units(ledger.storage, ledger.lease, units)
    drop_aside(ledger.storage, ledger.lease)
    into = _aside(ledger, units)
    into.create(OPEN_GROUPS)
    before = HistoryBefore(ledger, units.retained_from)
    if before.has_lost:
        marks = marks_of(ledger, {partition: last + 1 for partition, (_, last) in extents.items()})
        replace_cluster(into, OPEN_GROUPS, before.open_groups(marks))
    return units


def _aside(ledger: Ledger, units: RebuildUnits) -> Ledger:
    """Returns the ledger with the tables aside, for all that the fold writes."""
    return replace(ledger, warehouse=f"{ledger.warehouse.rstrip('/')}/{units.folder}", _fenced=set())


def _replace_tables(ledger: Ledger, into: Ledger, before: HistoryBefore) -> None:
    ledger.say("history: all records are folded, and the tables are replaced")
    for table in DERIVED_TABLES:
        ledger.give_way()
        replace_cluster(ledger, table, before.with_carried_over(table, into.rows(table)))
    ledger.give_way()
    rebuild_rebalance_stats(ledger)
    replace_cluster(ledger, OPEN_GROUPS, into.rows(OPEN_GROUPS))
    troubled = {row["group_id"] for row in open_troubles(ledger, TroubledStep.HISTORY)}
    note_troubles(ledger, TroubledStep.HISTORY, {}, troubled - {*groups_aside(into)})

"""`groupledger history` derives from `coordinator_records` who was in which group, who owned what, and every rebalance.

The first run folds all rows of the table, a large table in units (`first_fold`); later runs follow it as a stream, a
micro-batch of new rows at a time, and a large one in units, too (`backlog`). Each batch or unit writes the derived
tables first and `open_groups` last: one that was killed in between is folded again from the old state and gives the
same rows. A rebuild (`rebuild`) folds all records again, many in units (`rebuild_in_units`), and replaces each table in
one Delta commit, `open_groups` last: readers see either the old table or the new one. Rows whose records retention has
removed are carried over from the old tables (`transforms.history.carried_over`).

A run reads and writes the rows of one cluster; several clusters share the tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PythonException
from pyspark.sql import functions as F

from groupledger.jobs.derive import rebuild
from groupledger.jobs.derive.aside import Aside, taken_back, to_try_again, without, without_arrow
from groupledger.jobs.derive.backlog import begin_backlog, fold_backlog
from groupledger.jobs.derive.batch_records import beginnings_of, extents_of, marks_of, records_of
from groupledger.jobs.derive.commit_steps import drop_commit_steps
from groupledger.jobs.derive.first_fold import begin_first_fold, fold_version_in_units
from groupledger.jobs.derive.lag_seeds import drop_seeds
from groupledger.jobs.derive.rebalance_stats import (
    COUNTED,
    rebuild_rebalance_stats,
    update_rebalance_stats,
    update_stats_of_many,
)
from groupledger.jobs.derive.rebalance_stretches import drop_stretches
from groupledger.jobs.derive.rebuild_in_units import begin_rebuild
from groupledger.jobs.derive.topic_names import topic_names_of
from groupledger.jobs.derive.troubles import known_groups, look_for_anybody
from groupledger.jobs.ingest.stream import Batches, must_stop, wait
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.session import close_idle_callbacks
from groupledger.jobs.warehouse.added_files import added_since
from groupledger.jobs.warehouse.backlog import end_backlog
from groupledger.jobs.warehouse.checkpoint import set_checkpoint_aside, whole_checkpoint
from groupledger.jobs.warehouse.delta_log import check_commits, dataset
from groupledger.jobs.warehouse.first_fold import first_fold_is_done, unfinished_first_fold
from groupledger.jobs.warehouse.known_until import note_until
from groupledger.jobs.warehouse.ledger import floors_of
from groupledger.jobs.warehouse.readers import HISTORY, folder_of, reader_of
from groupledger.jobs.warehouse.rebuild_units import end_units
from groupledger.jobs.warehouse.rebuilds import (
    answer_request,
    is_requested,
    is_unfinished,
    rebuild_request,
    remove_versions,
)
from groupledger.jobs.warehouse.retention import with_beginnings
from groupledger.jobs.warehouse.tables import frame_of, is_among
from groupledger.jobs.warehouse.topic_names import known_names
from groupledger.jobs.warehouse.topic_until import topic_until_ms
from groupledger.jobs.warehouse.upsert import of_table, replace_cluster, replace_cluster_arrow, upsert, upsert_arrow
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS, SET_ASIDE_BY
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.share_assignments import SHARE_ASSIGNMENTS
from groupledger.schemas.tables.stream_tasks import STREAM_TASKS
from groupledger.schemas.tables.stream_topologies import STREAM_TOPOLOGIES
from groupledger.schemas.tables.table import GROUP_TYPE, IS_CARRIED_OVER, IS_OPEN
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from groupledger.schemas.words import Source, TroubledStep
from groupledger.transforms.history.group_history import DERIVED_TABLES, fold_groups, group_events
from groupledger.transforms.history.rules.state import UnknownStateError

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from groupledger.jobs.derive.first_fold import Part
    from groupledger.jobs.derive.rebuild import HistoryBefore
    from groupledger.jobs.warehouse.backlog import Backlog
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.history.group_history import Marks
    from groupledger.transforms.history.rules.modern_records import TopicNames
    from groupledger.transforms.troubles import Report

    Events = tuple[DataFrame, Marks, TopicNames]
    """New events of groups (`group_events`), the marks of coverage, and the names of topics."""

TABLES = (*DERIVED_TABLES, REBALANCE_STATS, OPEN_GROUPS)
# Tables that older releases did not write.
LATER_TABLES = {MEMBER_EPOCHS.name, SHARE_ASSIGNMENTS.name, STREAM_TASKS.name, STREAM_TOPOLOGIES.name}
# The most rows that the driver folds at once: its result is a fraction of 2 GiB.
RECORDS_PER_DRIVER_FOLD = 200_000
# A Delta commit must be in one batch, since its files have no order among each other: so batches have no limit, and a
# large one is cut by offsets.
FILES_PER_BATCH = 2**31 - 1


@dataclass
class HistoryTotals:
    """The number of rows written in this run, by table name."""

    rows: dict[str, int]

    def add(self, written: Mapping[str, int]) -> None:
        for name, count in written.items():
            self.rows[name] = self.rows.get(name, 0) + count


def update_history(ledger: Ledger, stop: threading.Event) -> HistoryTotals:
    """Folds the rows of `coordinator_records` that the history has not folded yet. If a rebuild was requested or is
    unfinished, or if an older release wrote the history, makes a rebuild instead.

    Raises InputError if there is nothing to read, or if a table of the history is gone, and OutsideError if the file of
    a commit that it would read is empty.
    """
    if is_unfinished(ledger.storage, ledger.cluster):
        ledger.say("history: a rebuild was begun and not finished: this pass finishes it")
        return rebuild_history(ledger, stop)
    if is_requested(ledger.storage, ledger.cluster):
        ledger.say("history: rebuilt, because records that it was built from have changed")
        return rebuild_history(ledger, stop)
    is_first = not is_followed(ledger)
    missing = [table.name for table in TABLES if not ledger.exists(table)]
    if not is_first and {*missing} <= LATER_TABLES and (missing or is_of_older_release(ledger)):
        ledger.say("history: rebuilt, because an older release wrote it, which left out types of groups")
        return rebuild_history(ledger, stop)
    first = unfinished_first_fold(ledger.storage, ledger.cluster)
    if missing and (not is_first or (first is not None and first.is_in_units)):
        raise InputError(
            f"The history has been written before, and its tables {', '.join(missing)} are gone: restore them from"
            " a backup, or run `groupledger history --rebuild`, which makes all of them of the records that are left."
        )
    version = next_version(ledger) or 0
    unread_count = check_commits(ledger.storage, COORDINATOR_RECORDS, version)
    if is_first:
        prepare_beginning(ledger)
        return fold_all(ledger, stop)
    prepare_tables(ledger)
    totals = HistoryTotals({})
    backlog = begin_backlog(ledger, unread_count)
    # In the middle of a backlog they would miss the records of the units that are done.
    groups = [] if backlog is not None and backlog.fold.is_in_units else to_try_again(ledger)
    if groups and version:
        ledger.say(f"history: {len(groups):,} groups that another release has set aside are folded again")
        records = ledger.rows(COORDINATOR_RECORDS, version - 1)
        totals.add(apply_batch(ledger, records.where(F.col("group_id").isin(*groups)), again=groups))
    if follow(ledger, totals, stop, backlog) and first is not None:
        first_fold_is_done(ledger.storage, ledger.lease)
    return totals


def rebuild_history(ledger: Ledger, stop: threading.Event) -> HistoryTotals:
    """Folds all rows of `coordinator_records` again into the same tables, or goes on with a rebuild that is not
    finished; returns the number of rows written."""
    request = rebuild_request(ledger.storage, ledger.cluster)
    check_commits(ledger.storage, COORDINATOR_RECORDS)
    prepare_beginning(ledger)
    rebuild.begin(ledger)
    drop_seeds(ledger)
    drop_commit_steps(ledger)
    drop_stretches(ledger)
    set_checkpoint_aside(ledger.storage, ledger.lease, checkpoint_folder(ledger))
    totals = fold_all(ledger, stop, is_rebuild=True)
    # A rebuild in units that was stopped goes on in the next pass.
    if is_followed(ledger) or not is_unfinished(ledger.storage, ledger.cluster):
        answer_request(ledger.storage, ledger.lease, request)
        end_units(ledger.storage, ledger.lease)
    return totals


def is_followed(ledger: Ledger) -> bool:
    """Returns whether the checkpoint says how far the history is. One without a batch does not say where its query
    would begin."""
    checkpoint = whole_checkpoint(ledger.storage, checkpoint_folder(ledger))
    return checkpoint is not None and checkpoint.planned_batch is not None


def is_of_older_release(ledger: Ledger) -> bool:
    """Returns whether the cluster's history comes from a release that knew classic groups only. The columns of
    `generations` alone don't show that, since another cluster's writer may have added newer columns."""
    if GROUP_TYPE.name not in dataset(ledger.warehouse, GENERATIONS).schema.names:
        return True
    is_old = (pc.field(IS_OPEN.name) == 1) & pc.field(GROUP_TYPE.name).is_null()
    return bool(ledger.arrow(GENERATIONS, is_old, ["group_id"]).num_rows)


def prepare_tables(ledger: Ledger) -> None:
    """Creates the tables that the history writes, and migrates older tables to this release's definition.

    Raises InputError if there is nothing to read.
    """
    ledger.rows(COORDINATOR_RECORDS)
    ledger.create(COORDINATOR_RECORDS, TOPIC_NAMES, *TABLES)


def prepare_beginning(ledger: Ledger) -> None:
    """Prepares the tables for a fold of all records. If there is no earlier history, notes the floors of
    `coordinator_records`, below which retention has already removed records.

    Raises InputError if there is nothing to read.
    """
    is_there = ledger.exists(GENERATIONS)
    prepare_tables(ledger)
    if is_there and ledger.has_rows(GROUPS):
        return
    floors = floors_of(ledger)
    if floors != beginnings_of(ledger):
        ledger.commits.set_properties(GENERATIONS, lambda before: with_beginnings(before, ledger.cluster, floors))


def next_version(ledger: Ledger) -> int | None:
    """Returns the version of `coordinator_records` that the history reads next; None before its first whole batch."""
    reader = reader_of(ledger.storage, ledger.cluster, HISTORY)
    return None if reader is None else reader.next_version


def checkpoint_folder(ledger: Ledger) -> str:
    return folder_of(ledger.cluster, HISTORY)


def fold_all(ledger: Ledger, stop: threading.Event, *, is_rebuild: bool = False) -> HistoryTotals:
    """Folds the whole table, and then follows it as a stream. A large table is folded in units, after those that are
    folded already; anything else is one batch.

    A stream's first read of a table has no order. So one version of the table is folded, and the stream begins with the
    changes of that version, so that no row is left out.
    """
    version = ledger.version(COORDINATOR_RECORDS)
    totals = HistoryTotals({})
    begun = (begin_rebuild if is_rebuild else begin_first_fold)(ledger, version)
    if begun is None:
        totals.add(apply_batch(ledger, ledger.rows(COORDINATOR_RECORDS, version), is_rebuild=is_rebuild))
    elif not fold_version_in_units(
        ledger, version, begun, lambda records, part: totals.add(apply_batch(ledger, records, part=part)), stop
    ):
        return totals
    end_backlog(ledger.storage, ledger.lease)  # of an earlier checkpoint
    unread = added_since(ledger, COORDINATOR_RECORDS, version)
    backlog = begin_backlog(ledger, unread.row_count, version + 1)
    if follow(ledger, totals, stop, backlog, from_version=version):
        first_fold_is_done(ledger.storage, ledger.lease)
    return totals


def follow(
    ledger: Ledger,
    totals: HistoryTotals,
    stop: threading.Event,
    backlog: Backlog | None,
    *,
    from_version: int | None = None,
) -> bool:
    """Folds the rows that were added to the table since the checkpoint, or since the version `from_version`, which is
    folded already; adds their number to `totals`. Batches of the `backlog` are folded in units. Returns False if it was
    stopped before the end.

    The query ends when it has read all rows, and each pass starts a new one. Delta's source refuses a table whose
    schema changes under a running query; a new query from the same checkpoint reads the commits of both schemas.
    """
    until_ms = topic_until_ms(ledger)
    stream = ledger.spark.readStream.format("delta").option("skipChangeCommits", "true")
    stream = stream.option("maxFilesPerTrigger", str(FILES_PER_BATCH))
    if from_version is not None:
        stream = stream.option("startingVersion", str(from_version))

    def fold_unit(records: DataFrame, part: Part) -> None:
        totals.add(apply_batch(ledger, records, part=part))

    def fold_batch(records: DataFrame, number: int) -> None:
        if backlog is None or not fold_backlog(ledger, number, fold_unit, stop):
            totals.add(apply_batch(ledger, records))

    batches = Batches(fold_batch)
    query = (
        stream.load(ledger.path(COORDINATOR_RECORDS))
        .writeStream.foreachBatch(batches)
        .option("checkpointLocation", f"{ledger.warehouse.rstrip('/')}/{checkpoint_folder(ledger)}")
        .trigger(availableNow=True)
        .start()
    )
    is_whole = False
    while not wait(query, batches, checkpoint_folder(ledger)):
        if must_stop(ledger, query, stop):
            break
    else:
        is_whole = batches.failure is None  # else it was stopped between two units
    if is_whole:
        note_until(ledger.storage, ledger.cluster, Source.HISTORY, until_ms)
        if backlog is not None:
            end_backlog(ledger.storage, ledger.lease)
    look_for_anybody(ledger, TroubledStep.HISTORY, lambda: known_groups(ledger))
    close_idle_callbacks(ledger.spark)
    return is_whole


def apply_batch(
    ledger: Ledger,
    records: DataFrame,
    *,
    is_rebuild: bool = False,
    again: Sequence[str] = (),
    part: Part | None = None,
) -> dict[str, int]:
    """Folds rows of `coordinator_records` and writes the result; returns the number of rows by table. `again` are
    groups that were set aside and are folded again. `part` is what a unit of a large fold has to know.

    Raises InputError if a state was written by a newer version of groupledger.
    """
    records = records_of(ledger, records).persist()
    try:
        found = extents_of(records)
        marks = marks_of(ledger, found.ends) if part is None else part.marks
        into, is_end = (ledger, False) if part is None else (part.into, part.is_end)
        names = topic_names_of(ledger, records, found.topic_ids, into)
        retained_from = {partition: first for partition, (first, _) in found.extents.items()}
        before = rebuild.HistoryBefore(ledger, retained_from) if is_rebuild else None
        is_few = found.record_count <= RECORDS_PER_DRIVER_FOLD
        if before is not None:
            open_groups = before.open_groups(marks)
        elif is_few:
            open_groups = open_groups_in_memory(into, records, found.groups, marks, is_end=is_end)
        else:
            open_groups = open_groups_of(into, records)
        if is_end and into is not ledger:
            # A group of which nothing was folded stays as it was carried over.
            open_groups = open_groups.join(into.rows(GROUPS), "group_id", "left_semi")
        if again:
            open_groups = taken_back(open_groups, again)
        aside = Aside(ledger, open_groups, None if is_rebuild else again)
        folded = folded_of(
            ledger, (group_events(records, open_groups, marks, is_end=is_end), marks, names), aside.report
        )
        write = _apply_few if is_few else _apply_many
        counts = write(into, folded, aside, before, is_counted=part is None or part.is_counted)
        if is_rebuild:
            remove_versions(ledger.storage, ledger.lease)
    except PythonException as error:
        unknown = re.search(rf"{UnknownStateError.__name__}: (.*)", str(error))
        if unknown is None:
            raise
        raise InputError(unknown[1]) from error
    finally:
        records.unpersist()
    if any(counts.values()):
        written = ", ".join(f"{counts[table.name]:,} {table.name}" for table in DERIVED_TABLES if counts[table.name])
        ledger.say(f"history: rows written: {written}")
    return counts


def _apply_few(
    ledger: Ledger, rows_folded: DataFrame, aside: Aside, before: HistoryBefore | None, *, is_counted: bool
) -> dict[str, int]:
    """Folds a batch whose result the driver can hold. It needs one Spark query; then it merges rows from memory or, in
    a rebuild, replaces the former rows."""
    folded = rows_folded.toArrow()
    rows = {table: arrow_rows(folded, table, ledger.cluster) for table in (*DERIVED_TABLES, OPEN_GROUPS)}
    if aside.settle():
        rows = {table: without_arrow(of_table, aside.groups) for table, of_table in rows.items()}
        rows[OPEN_GROUPS] = pa.concat_tables([rows[OPEN_GROUPS], aside.rows()])

    def write(table: Table) -> None:
        ledger.give_way()
        if before is None:
            upsert_arrow(ledger, table, rows[table])
        elif before.has_lost:
            # The number of rows that are carried over has no limit.
            made = frame_of(ledger.spark, rows[table])
            replace_cluster(ledger, table, before.with_carried_over(table, made))
        else:
            replace_cluster_arrow(ledger, table, rows[table])

    for table in DERIVED_TABLES:
        write(table)
    ledger.give_way()
    if before is not None:
        rebuild_rebalance_stats(ledger)
    elif is_counted:
        update_rebalance_stats(ledger, rows)
    write(OPEN_GROUPS)
    return {table.name: rows[table].num_rows for table in rows}


def _apply_many(
    ledger: Ledger, folded: DataFrame, aside: Aside, before: HistoryBefore | None, *, is_counted: bool
) -> dict[str, int]:
    """Folds a batch of any size, whose result stays with Spark's tasks."""
    folded = folded.persist()
    try:
        tables = (*DERIVED_TABLES, OPEN_GROUPS)
        counts: dict[str, int] = (
            folded.select(*[F.count(table.name).alias(table.name) for table in tables]).collect()[0].asDict()
        )
        rows = {table: table_rows(folded, table, ledger.cluster) for table in tables}
        if aside.settle():
            rows = {table: without(of_table, aside.groups) for table, of_table in rows.items()}
            rows[OPEN_GROUPS] = rows[OPEN_GROUPS].unionByName(frame_of(folded.sparkSession, aside.rows()))
            counts[OPEN_GROUPS.name] += len(aside.groups)

        def write(table: Table) -> None:
            ledger.give_way()
            if before is not None:
                replace_cluster(ledger, table, before.with_carried_over(table, rows[table]))
            elif counts[table.name]:
                upsert(ledger, table, rows[table], counts[table.name])

        for table in DERIVED_TABLES:
            write(table)
        if before is not None:
            rebuild_rebalance_stats(ledger)
        elif is_counted and any(counts[table.name] for table in COUNTED):
            update_stats_of_many(ledger, rows)
        write(OPEN_GROUPS)
    finally:
        folded.unpersist()
    return counts


def folded_of(ledger: Ledger, events: Events, report: Report) -> DataFrame:
    """Returns the rows that the fold makes of `events`, with the ledger's settings. Errors on a group go to
    `report`."""
    session_ms = ledger.settings.history.consumer_session_timeout_s * 1_000
    return fold_groups(*events, report, consumer_session_timeout_ms=session_ms)


def all_events(ledger: Ledger, records: DataFrame) -> Events:
    """Returns the events of every group from its first record on, the marks of coverage, and the names of topics."""
    marks = marks_of(ledger, extents_of(records).ends)
    none_open = records.sparkSession.createDataFrame([], OPEN_GROUPS.schema)
    return group_events(records, none_open, marks), marks, known_names(ledger)[0]


def open_groups_of(ledger: Ledger, records: DataFrame) -> DataFrame:
    """Returns the cluster's rows of `open_groups`, read in the Spark session of `records`: a micro-batch has a session
    of its own."""
    return replace(ledger, spark=records.sparkSession).rows(OPEN_GROUPS)


def open_groups_in_memory(
    ledger: Ledger, records: DataFrame, groups: set[str], marks: Marks, *, is_end: bool = False
) -> DataFrame:
    """Returns the rows of `open_groups` that a batch may need, read without Spark: those of the batch's groups, and
    those of groups that a hole in coverage may have ended, or at the end any mark is news to."""
    is_needed = is_among("group_id", groups)
    for partition, starts in marks.items():
        mark = max((mark.from_offset for mark in starts if is_end or mark.hides_ends), default=-1)
        is_needed |= (pc.field("kafka_partition") == partition) & (pc.field("coverage_offset") < mark)
    rows = ledger.arrow(OPEN_GROUPS, is_needed)
    return frame_of(records.sparkSession, of_table(rows, OPEN_GROUPS))


def arrow_rows(folded: pa.Table, table: Table, cluster: str) -> pa.Table:
    """Returns the folded rows of one table, together with the columns that the job fills, such as `cluster`."""
    structs = folded.column(table.name)
    rows = pa.Table.from_struct_array(structs.filter(pc.is_valid(structs)))
    if table.end_column is not None:
        rows = rows.append_column(IS_OPEN.name, pc.is_null(rows.column(table.end_column)).cast(pa.int32()))
    constants = {"cluster": cluster, IS_CARRIED_OVER.name: False, SET_ASIDE_BY.name: None}
    for name in constants.keys() & set(table.schema.names):
        rows = rows.append_column(name, pa.repeat(pa.scalar(constants[name]), rows.num_rows))
    return of_table(rows, table)


def table_rows(folded: DataFrame, table: Table, cluster: str) -> DataFrame:
    rows = folded.where(F.col(table.name).isNotNull()).select(f"{table.name}.*").withColumn("cluster", F.lit(cluster))
    if IS_CARRIED_OVER.name in table.schema.names:
        rows = rows.withColumn(IS_CARRIED_OVER.name, F.lit(False))
    if SET_ASIDE_BY.name in table.schema.names:
        rows = rows.withColumn(SET_ASIDE_BY.name, F.lit(None).cast("string"))
    if table.end_column is not None:
        rows = rows.withColumn(IS_OPEN.name, F.col(table.end_column).isNull().cast("int"))
    return rows

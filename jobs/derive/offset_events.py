"""Brings `offset_events` and `committed_offsets` up to the records that the history has folded.

A pass reads the records after those of the last pass, and the committed offsets of their groups. It writes the events
first, `committed_offsets` second and last a small file with its progress (`_groupledger/<cluster>/offset_events.json`),
so that a killed pass is repeated with the same result. As long as the history has read nothing new, a pass reads that
file and no records.

Losses that only samples show are found in the rows of `lag` from the rounds since the last pass.

The records of one operation are judged together (`transforms.offsets.rules.offset_event`). If a partition ends with a
removal, and the operation may not be complete, the removal waits for the next pass.

When the history was rebuilt, the events that come from records are rebuilt, too. Events from records that retention has
removed are carried over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from groupledger.jobs.derive.generations_at import generations_at
from groupledger.jobs.derive.history import RECORDS_PER_DRIVER_FOLD, checkpoint_folder
from groupledger.jobs.derive.troubles import gathering, groups_in, look_for_anybody, note_troubles
from groupledger.jobs.ingest.samples import last_sampled_at_ms
from groupledger.jobs.process.settings import rules_from
from groupledger.jobs.warehouse.added_files import added_between, rows_in
from groupledger.jobs.warehouse.checkpoint import whole_checkpoint
from groupledger.jobs.warehouse.conform import conform
from groupledger.jobs.warehouse.ledger import at_or_after, known_ends
from groupledger.jobs.warehouse.progress import note_progress, read_progress
from groupledger.jobs.warehouse.readers import HISTORY, reader_of
from groupledger.jobs.warehouse.rebuilds import is_requested, is_unfinished
from groupledger.jobs.warehouse.source import read_source
from groupledger.jobs.warehouse.tables import every_row
from groupledger.jobs.warehouse.upsert import replace_cluster, upsert, upsert_arrow
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.committed_offsets import COMMITTED_OFFSETS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.offset_events import OFFSET_EVENTS
from groupledger.schemas.tables.table import IS_CARRIED_OVER
from groupledger.schemas.words import OffsetEventEvidence, TroubledStep
from groupledger.transforms.coverage.rules.stretches import stretches
from groupledger.transforms.offsets.offset_events import (
    PLACE,
    committed_offsets,
    is_removal,
    offset_events,
    offset_log,
    steps_of,
)
from groupledger.transforms.offsets.rules.offset_event import OffsetRules
from groupledger.transforms.offsets.rules.sampled_losses import KINDS, OF_COMMIT, sampled_losses

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

TABLES = (OFFSET_EVENTS, COMMITTED_OFFSETS)
COMMIT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "leader_epoch",
    "topic_id",
    "commit_timestamp_ms",
    "expire_timestamp_ms",
)
RECORD_COLUMNS = (
    *("group_id", "kafka_partition", "kafka_offset", "kafka_timestamp", "record_type", "is_tombstone", "decode_error"),
    f"struct({', '.join(f'offset_commit.{name}' for name in COMMIT_COLUMNS)}) AS offset_commit",
)
LAG_COLUMNS = (
    *(*OF_COMMIT, "sampled_at", "committed_offset", "committed_at", "messages_lost", "raw_lag", "log_start_offset"),
    "flags",
)
COVERAGE_COLUMNS = (
    "cluster string, kafka_partition int, from_offset long, to_offset long, completeness string, is_state_lost boolean"
)


@dataclass(frozen=True)
class Progress:
    """The progress of the passes: `positions` is the next offset of each partition, `round_ms` the last sampling round.
    `history` is the id of the history's query over the records, which is new after each rebuild. `version` is the next
    version of `coordinator_records` that this query reads; None if removals wait for the next pass. `unread_version` is
    the first version of that table with rows that this pass did not use."""

    history: str | None = None
    version: int | None = None
    unread_version: int | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    round_ms: int = 0


def update_offset_events(ledger: Ledger) -> int:
    """Finds out what happened to committed offsets, from the records that the history has folded since the last pass
    and from the sampling rounds since then. Returns the number of events; 0 while the history has to be rebuilt."""
    if is_unfinished(ledger.storage, ledger.cluster) or is_requested(ledger.storage, ledger.cluster):
        return 0  # the next pass of the history writes another one
    history = whole_checkpoint(ledger.storage, checkpoint_folder(ledger))
    reader = reader_of(ledger.storage, ledger.cluster, HISTORY)
    if history is None or reader is None:
        return 0
    done = _read(ledger)
    round_ms = last_sampled_at_ms(ledger, LAG) if ledger.exists(LAG) else 0
    events = 0
    if (done.history, done.version) != (history.query_id, reader.next_version):
        ledger.create(*TABLES)
        reached, count = _events_of_records(ledger, done, history.query_id, reader.next_version)
        done = replace(reached, round_ms=done.round_ms)
        note_progress(ledger, OFFSET_EVENTS.name, done)
        events += count
    if round_ms > done.round_ms:
        ledger.create(OFFSET_EVENTS)
        events += _events_of_samples(ledger, done.round_ms, round_ms)
        note_progress(ledger, OFFSET_EVENTS.name, replace(done, round_ms=round_ms))
    if events:
        ledger.say(f"offset events: {events:,}")
    return events


# From the records


def _events_of_records(ledger: Ledger, done: Progress, history: str, next_version: int) -> tuple[Progress, int]:
    """Returns the progress, and the number of events."""
    is_rebuild = done.history != history
    positions = {} if is_rebuild else dict(done.positions)
    ends = known_ends(ledger)
    is_newest = next_version > ledger.version(COORDINATOR_RECORDS)
    unread = None if is_rebuild else done.unread_version
    records = (
        _stored(ledger, unread, next_version, is_newest=is_newest)
        .where(at_or_after(positions))
        .selectExpr(*RECORD_COLUMNS)
        .persist()
    )
    try:
        found = _reach(records, ends if is_newest else {})
        reached, is_waiting = found.positions, found.is_waiting
        count = _write(ledger, records.where(~at_or_after(reached)), found, is_rebuild=is_rebuild)
    finally:
        records.unpersist()
    return (
        Progress(
            history,
            None if is_waiting else next_version,
            unread if is_waiting else next_version,
            {**positions, **reached},
        ),
        count,
    )


def _stored(ledger: Ledger, unread_version: int | None, next_version: int, *, is_newest: bool) -> DataFrame:
    """Returns the rows of all versions before `next_version`. If the table's log still names the files that the
    versions from `unread_version` on added, returns only the rows of these files."""
    files = None
    if unread_version is not None:
        files = added_between(ledger, COORDINATOR_RECORDS, unread_version, next_version - 1)
    if files is None:
        return ledger.rows(COORDINATOR_RECORDS, None if is_newest else next_version - 1)
    return rows_in(ledger, COORDINATOR_RECORDS, files)


@dataclass(frozen=True)
class Reach:
    """The extent of the complete operations: `positions` is, by partition, the next offset after the last of them.
    `is_waiting` if a removal waits for the next pass. `record_count` and `groups` are of all records that were read."""

    positions: Mapping[int, int]
    is_waiting: bool
    record_count: int
    groups: Collection[str]

    @property
    def is_small(self) -> bool:
        return self.record_count <= RECORDS_PER_DRIVER_FOLD


def _reach(records: DataFrame, ends: Mapping[int, int]) -> Reach:
    at_ms = F.unix_millis("kafka_timestamp")
    last = F.max_by(F.struct(at_ms.alias("at_ms"), is_removal().alias("is_removal")), "kafka_offset")
    ends_of = (F.max("kafka_offset").alias("offset"), last.alias("last"), F.count(F.lit(1)).alias("records"))
    found = records.groupBy("kafka_partition").agg(*ends_of, F.collect_set("group_id").alias("groups")).collect()
    reached = {row.kafka_partition: row.offset + 1 for row in found}
    waiting = {
        row.kafka_partition: row.last.at_ms
        for row in found
        if row.last.is_removal and ends.get(row.kafka_partition, -1) < row.last.at_ms
    }
    if waiting:
        of_last = [(F.col("kafka_partition") == key) & (at_ms == last_ms) for key, last_ms in waiting.items()]
        tails = records.where(reduce(or_, of_last) & is_removal()).groupBy("kafka_partition").agg(F.min("kafka_offset"))
        reached |= dict(tails.collect())
    groups = {group for row in found for group in row.groups}
    return Reach(reached, bool(waiting), sum(row.records for row in found), groups)


def _coverage(ledger: Ledger, reached: Mapping[int, int]) -> DataFrame:
    """Returns the stretches of coverage as they were judged before the records were written."""
    source = read_source(ledger.storage, ledger.cluster)
    readings = {} if source is None else source.readings
    rows = [
        (ledger.cluster, partition, each.from_offset, each.to_offset, each.completeness, each.is_state_lost)
        for partition, position in reached.items()
        for each in stretches(readings.get(partition, []), position, None)
    ]
    return ledger.spark.createDataFrame(rows, COVERAGE_COLUMNS)


def _write(ledger: Ledger, records: DataFrame, reach: Reach, *, is_rebuild: bool) -> int:
    """Writes the events of complete operations; returns the number of events."""
    retained_from = records.groupBy("kafka_partition").agg(F.min("kafka_offset").alias("first_offset"))
    if is_rebuild:
        stood = _stood_before(ledger.rows_within(COMMITTED_OFFSETS, every_row), retained_from)
    else:
        stood = ledger.rows_named(COMMITTED_OFFSETS, "group_id", reach.groups)
    log = offset_log(records, stood).persist()
    rules = rules_from(OffsetRules, ledger.settings.offsets)
    steps = steps_of(log)
    generations = ledger.rows_within(GENERATIONS, every_row) if is_rebuild else generations_at(ledger, steps.persist())
    report = gathering(ledger)
    found = offset_events(steps, records, generations, _coverage(ledger, reach.positions), rules, report)
    constants = {"cluster": F.lit(ledger.cluster), IS_CARRIED_OVER.name: F.lit(False)}
    events = found.withColumns(constants)
    stands = committed_offsets(log).withColumn("cluster", F.lit(ledger.cluster))
    try:
        if is_rebuild:
            count = _replace(ledger, events, stands, retained_from)
            note_troubles(ledger, TroubledStep.OFFSET_EVENTS, report.taken())
        else:
            count = _upsert(ledger, OFFSET_EVENTS, events, is_small=reach.is_small)
            # A record that could not be judged is not read again before a rebuild.
            note_troubles(ledger, TroubledStep.OFFSET_EVENTS, report.taken(), judged=())
            ledger.give_way()
            _upsert(ledger, COMMITTED_OFFSETS, stands, is_small=reach.is_small)
        look_for_anybody(ledger, TroubledStep.OFFSET_EVENTS, lambda: groups_in(ledger, COMMITTED_OFFSETS))
        return count
    finally:
        steps.unpersist()
        log.unpersist()


def _upsert(ledger: Ledger, table: Table, rows: DataFrame, *, is_small: bool) -> int:
    """Writes rows, and returns their number. If `is_small`, the driver can hold them."""
    if is_small:
        found = conform(rows, table).toArrow()
        upsert_arrow(ledger, table, found)
        return len(found)
    rows = rows.persist()
    try:
        count = rows.count()
        upsert(ledger, table, rows, count)
        return count
    finally:
        rows.unpersist()


def _stood_before(stood: DataFrame, retained_from: DataFrame) -> DataFrame:
    """Returns the committed offsets as they were before the records that are left."""
    rows = stood.join(F.broadcast(retained_from), "kafka_partition")
    is_older = F.col("kafka_offset") < F.col("first_offset")
    before = {
        "kafka_offset": F.when(is_older, F.col("kafka_offset")).otherwise(F.col("commit_kafka_offset")),
        "is_removed": F.col("is_removed") & is_older,
    }
    found = rows.where(is_older | (F.col("commit_kafka_offset") < F.col("first_offset"))).withColumns(before)
    return found.drop("first_offset")


def _replace(ledger: Ledger, events: DataFrame, stands: DataFrame, retained_from: DataFrame) -> int:
    """Rewrites both tables, and returns the number of events. An event or an offset whose record is gone stays as it
    was recorded."""
    existing = ledger.rows(OFFSET_EVENTS)
    is_of_records = F.col("evidence") != OffsetEventEvidence.SAMPLES
    before = existing.where(is_of_records).join(F.broadcast(retained_from), "kafka_partition", "left")
    oldest = F.least("kafka_offset", F.coalesce("commit_kafka_offset", "kafka_offset"))
    has_lost = F.coalesce(oldest < F.col("first_offset"), F.lit(True))
    kept = before.where(has_lost).drop("first_offset").withColumn(IS_CARRIED_OVER.name, F.lit(True))
    new = events.join(kept.select(*PLACE, "kafka_offset"), [*PLACE, "kafka_offset"], "left_anti")
    replace_cluster(ledger, OFFSET_EVENTS, new.unionByName(kept).unionByName(existing.where(~is_of_records)))
    ledger.give_way()
    stood = ledger.rows(COMMITTED_OFFSETS).join(F.broadcast(retained_from), "kafka_partition", "left")
    is_gone = F.coalesce(F.col("kafka_offset") < F.col("first_offset"), F.lit(True))
    gone = stood.where(is_gone).drop("first_offset").join(stands.select(*PLACE), list(PLACE), "left_anti")
    replace_cluster(ledger, COMMITTED_OFFSETS, stands.unionByName(gone))
    return ledger.rows(OFFSET_EVENTS).count()


# From the sampling rounds


def _events_of_samples(ledger: Ledger, after_ms: int, until_ms: int) -> int:
    """Returns the number of events that are new or have changed."""
    after, until = (pa.scalar(at_ms * 1_000, pa.timestamp("us", "UTC")) for at_ms in (after_ms, until_ms))
    at = pc.field("sampled_at")
    # A row that has only this difference, and no lag, is of a topic that was created again.
    is_odd = (pc.field("messages_lost") > 0) | (pc.field("lag").is_null() & (pc.field("raw_lag") >= 0))
    lag = ledger.arrow(LAG, (at > after) & (at <= until) & is_odd, LAG_COLUMNS).to_pylist()
    if not lag:
        return 0
    groups = pa.array({row["group_id"] for row in lag}, pa.string())
    is_of_groups = pc.field("kind").isin(KINDS) & (pc.field("evidence") == OffsetEventEvidence.SAMPLES)
    is_of_groups &= pc.field("group_id").isin(groups)
    columns = [name for name in OFFSET_EVENTS.schema.names if name != "cluster"]
    found = sampled_losses(lag, ledger.arrow(OFFSET_EVENTS, is_of_groups, columns).to_pylist())
    rows = [{"cluster": ledger.cluster, **row} for row in found]
    upsert_arrow(ledger, OFFSET_EVENTS, pa.Table.from_pylist(rows, arrow_schema(OFFSET_EVENTS.schema)))
    return len(rows)


# How far it came


def _read(ledger: Ledger) -> Progress:
    """Returns the progress of the last pass. If one of the tables is gone, everything starts over."""
    if not all(ledger.exists(table) for table in TABLES):
        return Progress()
    remedy = "move it out of the warehouse: all events are then written again"
    return read_progress(ledger, OFFSET_EVENTS.name, Progress, remedy) or Progress()

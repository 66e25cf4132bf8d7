"""Folds a large table for the first time in units (`transforms.history.units`), and goes on after the last one. A large
rebuild (`jobs.derive.rebuild_in_units`) and a backlog (`jobs.derive.backlog`) do the same.

Each unit is folded from the states that the one before it has left in `open_groups`, as a micro-batch is. The note that
is written before each unit (`jobs.warehouse.first_fold`) says what is folded, and where the unit ends. After a kill the
unit is folded again up to the same offsets, and the others are cut anew out of the newest version of the table.

The result is that of one fold of everything. For that, three things are done for all records and not by unit:
- Names of topics are learned before the first unit, since a unit's records may name topics by ids that only later
  records explain.
- A unit meets the marks of coverage up to its last offset, and not those after it: a hole ends what is open, and the
  next unit may have records before that hole. After the last unit all groups meet the marks that they lack.
- `rebalance_stats` is counted once, after the last unit. Only a backlog, which touches a small part of it, counts the
  windows that each unit has changed.

A group on which the fold of a unit fails is set aside as one of a micro-batch is (`jobs.derive.aside`): the rows of
earlier units stay, as they are true, and it is the only group whose rows depend on where the log was cut.

A first look reads five columns of all records that are not folded. A unit reads only the files that have its records;
they are named, since a filter by partitions and offsets, which has an OR, would leave out none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import functions as F

from groupledger.jobs.derive.batch_records import marks_of, mentioned_topics, records_of
from groupledger.jobs.derive.rebalance_stats import rebuild_rebalance_stats
from groupledger.jobs.derive.topic_names import topic_names_of
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.added_files import AddedFiles, rows_in
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.first_fold import FirstFold, note_first_fold, unfinished_first_fold
from groupledger.jobs.warehouse.known_until import forget_until
from groupledger.jobs.warehouse.ledger import at_or_after
from groupledger.jobs.warehouse.upsert import is_empty
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.words import Source
from groupledger.transforms.history.group_history import DERIVED_TABLES
from groupledger.transforms.history.units import Piece, Unit, units_of

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.history.group_history import Marks

RECORDS_PER_UNIT = 5_000_000
# Records that overlap in several files, as in a file for many groups, are cut at multiples of this part of a unit.
PARTS_OF_A_UNIT = 8


@dataclass(frozen=True)
class Part:
    """What the fold of a unit has to know: the marks of coverage that it meets, the tables that it continues and
    writes, and whether `rebalance_stats` is counted with it. `is_end`: all groups of the partitions meet the marks,
    whether they have records in it or not."""

    marks: Marks
    into: Ledger
    is_counted: bool
    is_end: bool = False


@dataclass(frozen=True)
class FoldInUnits:
    """A fold in units: how far it is, how that is noted, the tables that it writes, what is done after the last unit,
    and whether each unit counts `rebalance_stats`."""

    progress: FirstFold
    note: Callable[[FirstFold], None]
    into: Ledger
    finish: Callable[[], None] = lambda: None
    is_counted: bool = False


@dataclass(frozen=True)
class Plan:
    """The units that are left of some files of `coordinator_records`. `ends` are the next offsets of all partitions,
    and `topic_ids` are the topics that the records name by id."""

    units: Sequence[Unit]
    ends: Mapping[int, int]
    topic_ids: set[str]


def begin_first_fold(ledger: Ledger, version: int) -> FoldInUnits | None:
    """Notes that a first fold is under way. Returns the fold in units, which goes on where it was; None if everything
    has to be folded at once: it is little, or there are rows already, of an earlier release or with a checkpoint that
    is gone.

    Raises InputError if the fold was begun with another table.
    """
    delta = open_table(ledger.warehouse, COORDINATOR_RECORDS, version)
    table_id = str(delta.metadata().id)
    before = unfinished_first_fold(ledger.storage, ledger.cluster)
    if before is not None and before.is_in_units:
        if before.table_id != table_id:
            raise InputError(
                f"The table {COORDINATOR_RECORDS.name} is another one than the history has read: it was deleted and"
                " created again. Restore the earlier one, or run `groupledger history --rebuild`."
            )
        return _first_fold(ledger, before)
    progress = FirstFold(table_id)
    note_first_fold(ledger.storage, ledger.lease, progress)
    forget_until(ledger.storage, ledger.cluster, Source.HISTORY)
    is_new = is_much(delta) and all(is_empty(ledger, table) for table in (*DERIVED_TABLES, OPEN_GROUPS))
    return _first_fold(ledger, progress) if is_new else None


def _first_fold(ledger: Ledger, progress: FirstFold) -> FoldInUnits:
    return FoldInUnits(
        progress=progress,
        note=lambda after: note_first_fold(ledger.storage, ledger.lease, after),
        into=ledger,
        finish=lambda: rebuild_rebalance_stats(ledger),
    )


def is_much(records: DeltaTable) -> bool:
    """Returns whether a version of `coordinator_records` has more records than a unit may have."""
    counts = pa.table(records.get_add_actions(flatten=True))["num_records"].to_pylist()
    return sum(RECORDS_PER_UNIT if each is None else each for each in counts) > RECORDS_PER_UNIT


def fold_version_in_units(
    ledger: Ledger, version: int, begun: FoldInUnits, fold: Callable[[DataFrame, Part], None], stop: threading.Event
) -> bool:
    """Folds what is left of a version of `coordinator_records`, as `fold_in_units` does."""
    rows = ledger.spark.read.format("delta").option("versionAsOf", version).load(ledger.path(COORDINATOR_RECORDS))
    files = AddedFiles(version, _paths(ledger, version))
    return fold_in_units(ledger, rows.where(F.col("cluster") == F.lit(ledger.cluster)), files, begun, fold, stop)


def fold_in_units(
    ledger: Ledger,
    records: DataFrame,
    files: AddedFiles,
    begun: FoldInUnits,
    fold: Callable[[DataFrame, Part], None],
    stop: threading.Event,
) -> bool:
    """Folds what is left of the cluster's `records`, which are those in `files`, by a call of `fold` for each unit, and
    finishes. Returns False if it was stopped before the end."""
    progress, into = begun.progress, begun.into
    records = records.where(at_or_after(progress.folded))
    paths = {path.rpartition("/")[2]: path for path in files.paths}
    plan = _plan(records, [*paths], progress)
    topic_names_of(ledger, records_of(ledger, records), plan.topic_ids, into)
    marks = marks_of(ledger, plan.ends)
    count = progress.record_count + sum(unit.count for unit in plan.units)
    for unit in plan.units:
        progress = replace(progress, unit=unit.ends)
        begun.note(progress)
        if stop.is_set():
            return False
        of_unit = AddedFiles(files.version, tuple(paths[name] for name in sorted(unit.files)), unit.count)
        rows = rows_in(ledger, COORDINATOR_RECORDS, of_unit)
        rows = rows.where(at_or_after(progress.folded) & ~at_or_after(unit.ends))
        fold(rows, Part(_marks_before(marks, unit.ends), into, begun.is_counted))
        folded = {**progress.folded, **unit.ends}
        progress = replace(progress, folded=folded, unit={}, record_count=progress.record_count + unit.count)
        ledger.say(f"history: {progress.record_count:,} of {count:,} records folded")
    begun.note(progress)
    if any(len(starts) > 1 for starts in marks.values()):
        fold(ledger.empty(COORDINATOR_RECORDS), Part(marks, into, begun.is_counted, is_end=True))
    begun.finish()
    return True


def _plan(records: DataFrame, names: Sequence[str], progress: FirstFold) -> Plan:
    """Returns the plan for records that are not folded. `names` are those of their files, in the order in which they
    should be read."""
    partition, offset = F.col("kafka_partition"), F.col("kafka_offset")
    found = (
        records.groupBy(
            F.col("_metadata.file_name").alias("file"),
            partition,
            (~at_or_after(progress.unit)).alias("is_in_unit"),
            F.floor(offset / F.lit(max(RECORDS_PER_UNIT // PARTS_OF_A_UNIT, 1))).alias("place"),
        )
        .agg(F.min(offset), F.max(offset), F.count(F.lit(1)), mentioned_topics())
        .drop("place")
        .toArrow()
    )
    order = {name: number for number, name in enumerate(names)}
    begun, left, topic_ids = Unit(), [], set[str]()
    for file, kafka_partition, is_in_unit, first, last, count, ids in zip(
        *(column.to_pylist() for column in found.columns), strict=True
    ):
        topic_ids.update(ids)
        if is_in_unit:
            begun.take(Unit({}, {file}, count))
        else:
            left.append(Piece(file, kafka_partition, first, last, count))
    begun.ends |= progress.unit
    left.sort(key=lambda piece: order[piece.file])
    ends = {**progress.folded, **progress.unit}
    for piece in left:
        ends[piece.partition] = max(piece.last + 1, ends.get(piece.partition, 0))
    units = units_of(left, RECORDS_PER_UNIT)
    return Plan([begun, *units] if begun.count else [*units], ends, topic_ids)


def _paths(ledger: Ledger, version: int) -> tuple[str, ...]:
    """Returns the files of `coordinator_records` in the order in which their dates, and then they, were written."""
    files = pa.table(open_table(ledger.warehouse, COORDINATOR_RECORDS, version).get_add_actions(flatten=True))
    names = ("partition.ingest_date", "modification_time", "path")
    rows = zip(*(files[name].to_pylist() for name in names), strict=True)
    found = sorted((str(date or ""), at, unquote(path)) for date, at, path in rows)
    return tuple(path for *_, path in found)


def _marks_before(marks: Marks, ends: Mapping[int, int]) -> Marks:
    return {partition: [mark for mark in marks[partition] if mark.from_offset < end] for partition, end in ends.items()}

"""`groupledger ingest --capture` reads Parquet files with the columns of Spark's Kafka source into the ledger.

Spark's file source reads all new files in one micro-batch. Rows are recognized by their offsets, not by their files: a
row below the ledger's position is left out if the table has it. If the table does not have it, that is an error, since
the ledger has taken the log around it for complete. So if the same capture is read again, or one that overlaps the
last, no row is added twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from groupledger.jobs.ingest.capture import read_manifest
from groupledger.jobs.ingest.coverage import late_partitions, regained_source, write_coverage
from groupledger.jobs.ingest.decode_again import decode_quarantined_again
from groupledger.jobs.ingest.stream import TABLES, BatchPace, Totals, run_query
from groupledger.jobs.kafka.offsets_topic import DELETE_RETENTION_MS
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.ledger import known_positions
from groupledger.jobs.warehouse.resume import resume_point
from groupledger.jobs.warehouse.source import CAPTURE, LedgerSource, check_same_source, read_source, write_source
from groupledger.jobs.warehouse.storage import open_storage
from groupledger.jobs.warehouse.tables import not_a_pattern
from groupledger.schemas.instants import WRITTEN_FROM_MS, WRITTEN_UNTIL_MS
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.words import Completeness, Proof
from groupledger.transforms.coverage.repeated_keys import first_repeated
from groupledger.transforms.coverage.rules.evidence import Read, judged
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from pyspark.sql import Column, DataFrame

    from groupledger.jobs.ingest.capture import Manifest
    from groupledger.jobs.warehouse.ledger import Ledger

# The columns of Spark's Kafka source that are read. `timestampType` is left out: it is the same for the whole topic.
CAPTURE_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
    ]
)
FILES = "*.parquet"


@dataclass(frozen=True)
class Extent:
    """The offsets [from, to) of a partition that a capture covers."""

    from_offset: int
    to_offset: int


def ingest_capture(ledger: Ledger, directory: str, stop: threading.Event, *, recover: bool) -> Totals:
    """Ingests those records of the capture in `directory` that the ledger lacks; returns the totals. With `recover` the
    capture may begin after a hole."""
    manifest = read_manifest(open_storage(ledger.spark, directory))
    source = read_source(ledger.storage, ledger.cluster)
    if source is not None:
        check_same_source(source, CAPTURE, manifest.identity if manifest else None, ledger.cluster)
    ledger.create(*TABLES)
    source = resume_point(ledger, source, recover=recover).source
    positions = known_positions(ledger)
    rows = read_capture(ledger, directory)
    check_rows(ledger, rows, positions)
    extents, known_until_ms = capture_extents(rows, manifest)
    ends = {partition: extent.to_offset for partition, extent in extents.items()}
    source = source or LedgerSource(CAPTURE, manifest.identity if manifest else None, {})
    source = regained_source(ledger, source, positions, ends, known_until_ms or 0)
    source = source.with_readings(new_readings(positions, extents, known_until_ms, manifest, recover=recover))
    if manifest is None or manifest.completeness != Completeness.COMPLETE:
        until_ms = known_until_ms or 0
        late = late_partitions(ledger, source.readings, until_ms, DELETE_RETENTION_MS)
        readings = judged_readings(source.readings, rows, positions, extents, until_ms, manifest, late)
        source = replace(source, readings=readings)
    write_source(ledger.storage, ledger.cluster, source)
    decode_quarantined_again(ledger)
    stream = ledger.spark.readStream.schema(CAPTURE_SCHEMA).parquet(files_pattern(directory))
    reached = {**positions, **{key: max(at.to_offset, positions.get(key, 0)) for key, at in extents.items()}}

    totals = Totals()

    def cover() -> None:
        if totals.is_complete:
            write_coverage(ledger, source, reached, known_until_ms)

    rows = stream.where(is_new(positions))
    run_query(ledger, rows, BatchPace({"availableNow": True}), stop, totals, cover=cover)
    return totals


def files_pattern(directory: str) -> str:
    """Returns a pattern for the Parquet files in a capture's directory. If Spark's file source were given the directory
    itself, it could not continue with another directory later."""
    return not_a_pattern(directory.rstrip("/")) + f"/{FILES}"


def read_capture(ledger: Ledger, directory: str) -> DataFrame:
    """Returns the capture's rows. Raises InputError if the directory has no Parquet files with the columns of
    CAPTURE_SCHEMA."""
    try:
        rows = ledger.spark.read.parquet(files_pattern(directory))
    except AnalysisException as error:
        raise InputError(f"{directory} holds no Parquet files: give the directory of a capture.") from error
    types = dict(rows.dtypes)
    wrong = [field.name for field in CAPTURE_SCHEMA if types.get(field.name) != field.dataType.simpleString()]
    if wrong:
        raise InputError(
            f"The files in {directory} are no capture: {', '.join(wrong)} missing or of another type. A capture has the"
            " columns of Spark's Kafka source."
        )
    return rows


def check_rows(ledger: Ledger, rows: DataFrame, positions: Mapping[int, int]) -> None:
    """Raises InputError if the capture has rows of another topic, the same offset twice, or rows below the ledger's
    position that the ledger lacks."""
    strange = rows.where(~F.col("topic").eqNullSafe(OFFSETS_TOPIC) | F.isnull("partition") | F.isnull("offset"))
    if not strange.isEmpty():
        raise InputError(f"The capture holds rows that are not from {OFFSETS_TOPIC}, or have no partition or offset.")
    new = rows.where(is_new(positions))
    twice = new.groupBy("partition", "offset").count().where("count > 1").first()
    if twice is not None:
        raise InputError(
            f"The capture holds offset {twice['offset']} of partition {twice['partition']} more than once: its files"
            " overlap. Remove the files that repeat others."
        )
    kept = ledger.rows(COORDINATOR_RECORDS).select(
        F.col("kafka_partition").alias("partition"), F.col("kafka_offset").alias("offset")
    )
    late = rows.where(~is_new(positions)).join(kept, ["partition", "offset"], "left_anti").count()
    if late:
        raise InputError(
            f"{late:,} rows of the capture lie below what the ledger has read and are not in it: they would change a"
            " past that counts as complete. Ingest all captures into a new --cluster or --warehouse, oldest first."
        )


def is_new(positions: Mapping[int, int]) -> Column:
    """Returns the condition that a row's offset is at or above the ledger's position in its partition."""
    if not positions:
        return F.lit(True)
    known = F.create_map(*[F.lit(number) for pair in positions.items() for number in pair])
    return F.col("offset") >= F.coalesce(known[F.col("partition")], F.lit(0))


def capture_extents(rows: DataFrame, manifest: Manifest | None) -> tuple[dict[int, Extent], int | None]:
    """Returns the offsets that the capture covers, by partition, and the instant until when it is complete, in
    milliseconds since the epoch. Both are from its manifest, or if it has none, from its rows."""
    if manifest is not None:
        covered = {key: Extent(start, manifest.to_offsets[key]) for key, start in manifest.from_offsets.items()}
        return covered, manifest.captured_at_ms
    # A record with the time of a broken clock, or without a time, says nothing about how far the others reach.
    written_ms = F.unix_millis("timestamp")
    known_ms = F.when(written_ms.between(WRITTEN_FROM_MS, WRITTEN_UNTIL_MS), written_ms)
    found = rows.groupBy("partition").agg(F.min("offset"), F.max("offset"), F.max(known_ms)).collect()
    extents = {partition: Extent(first, last + 1) for partition, first, last, _ in found}
    return extents, max((row[3] for row in found if row[3] is not None), default=None)


def new_readings(
    positions: Mapping[int, int],
    extents: Mapping[int, Extent],
    known_until_ms: int | None,
    manifest: Manifest | None,
    *,
    recover: bool,
) -> dict[int, Reading]:
    """Returns a reading for each partition that begins with this capture, or continues after a hole.

    Raises InputError if there is a hole, unless asked to `recover`. If there is no manifest, no hole can be seen:
    compaction removes records, so the first row of a capture may lie anywhere.
    """
    started_at_ms = known_until_ms or 0
    holes = {
        key
        for key, extent in extents.items()
        if manifest is not None and key in positions and extent.from_offset > positions[key]
    }
    if holes and not recover:
        raise InputError(
            f"The capture begins after the end of the ledger in {len(holes)} partitions: what lies between is in"
            " neither. Ingest the capture that holds it, or run with --recover to leave a hole that `coverage` shows."
        )
    is_complete = manifest is not None and manifest.completeness == Completeness.COMPLETE
    return {
        key: Reading(
            from_offset=extent.from_offset,
            complete_from=extent.from_offset if is_complete else extent.to_offset,
            complete_from_ms=manifest.began_at_ms if manifest is not None and is_complete else started_at_ms,
            resumed_from=positions[key] if key in holes else None,
            began_ms=started_at_ms,
        )
        for key, extent in extents.items()
        if key in holes or key not in positions
    }


def judged_readings(
    before: Mapping[int, list[Reading]],
    rows: DataFrame,
    positions: Mapping[int, int],
    extents: Mapping[int, Extent],
    known_until_ms: int,
    manifest: Manifest | None,
    late: AbstractSet[int],
) -> dict[int, list[Reading]]:
    """Returns the readings, extended by the new part of the capture. Offsets without a row are judged by the manifest
    or, if the manifest does not explain them, by the rows. `late` are the partitions in which tombstones may be
    missing."""
    known = {} if manifest is None else manifest.explained_from
    begins = {
        key: max(at.from_offset, positions.get(key, 0))
        for key, at in extents.items()
        if at.to_offset > positions.get(key, 0)
    }
    counts = (
        rows.where(is_new(positions))
        .groupBy("partition")
        .agg(F.count(F.lit(1)).alias("count"), F.unix_millis(F.min("timestamp")).alias("begin_ms"))
    )
    found = {row["partition"]: (row["count"], row["begin_ms"]) for row in counts.collect()}
    has_gap = {key for key, begin in begins.items() if found.get(key, (0, 0))[0] < extents[key].to_offset - begin}
    untold = {key: begins[key] for key in has_gap if key not in known}
    repeated = first_repeated(rows.where(is_new(positions)), untold)
    readings = dict(before)
    for key, begin in begins.items():
        explained = max(begin, known.get(key, begin)) if key in has_gap else begin
        proof = Proof.BATCH_HEADERS if key in has_gap else Proof.NO_GAP
        if key in untold:
            explained, proof = repeated.get(key, extents[key].to_offset), Proof.REPEATED_KEY
        read = Read(
            begin=begin,
            end=extents[key].to_offset,
            begin_ms=found.get(key, (0, 0))[1],
            explained_from=explained,
            proof=proof,
            at_end=(extents[key].to_offset, known_until_ms),
            may_lack_tombstones=key in late,
        )
        readings[key] = judged(readings[key], read)
    return readings

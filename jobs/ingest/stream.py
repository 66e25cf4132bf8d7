"""Runs the streaming query of `ingest`, from Kafka rows to `coordinator_records`, one Delta commit per micro-batch.

Spark's tasks fetch, decode and write the files; the driver commits their list (`jobs.warehouse.task_files`). A batch
has the number that Spark's checkpoint gives it, and the table takes each number of the query once: so a batch that is
run again after a crash adds nothing if its commit was made, and everything if it was not.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException

from groupledger.jobs.ingest.patience import BatchGivenUpError
from groupledger.jobs.process.clock import DAY_MS, now_ms
from groupledger.jobs.process.errors import InputError, JobError, OutsideError
from groupledger.jobs.warehouse.checkpoint import damaged_checkpoint, forget_planned_batch, read_checkpoint
from groupledger.jobs.warehouse.commits import NumberedBatch
from groupledger.jobs.warehouse.task_files import write_files
from groupledger.schemas.instants import ms_of
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.transforms.records.decode import KAFKA_COLUMNS, decode_batches

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.task_files import WrittenFile
    from groupledger.transforms.privacy import Privacy

TABLES = (COORDINATOR_RECORDS, COVERAGE)
POLL_S = 1
# Spark's stack frames that read a checkpoint (they report damage in many ways), and the texts by which its file log
# reports a missing file.
CHECKPOINT_IS_READ = re.compile(
    r"HDFSMetadataLog(\.applyFnToBatchByStream|\.get\(|\$\.verifyBatchIds)| doesn't exist \(latestId: "
)
SILENT_BROKER_S = 20
OFFSETS_PER_FILE = 100_000
WHOLE_BATCH = "triggerExecution"


@dataclass
class Totals:
    """The totals of a run so far. `known_until_ms` is the instant when the last batch that reached the end of the topic
    began. `is_complete` is true if the run was not stopped before its end. `phases_ms` has the milliseconds of each
    phase of the last batch, by Spark's own names (`StreamingQueryProgress.durationMs`)."""

    last_batch: int | None = None
    batches: int = 0
    rows: int = 0
    quarantined: int = 0
    known_until_ms: int | None = None
    is_complete: bool = False
    phases_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Decoding:
    """Decodes Kafka rows in a task, into rows of `coordinator_records`. `ingest_date` counts days since the epoch."""

    cluster: str
    ingest_date: int
    privacy: Privacy

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in decode_batches(batches, self.privacy):
            cluster = pa.repeat(pa.scalar(self.cluster), batch.num_rows)
            date = pa.repeat(pa.scalar(self.ingest_date, pa.int32()), batch.num_rows).cast(pa.date32())
            columns = {"cluster": cluster, "ingest_date": date} | dict(
                zip(batch.schema.names, batch.columns, strict=True)
            )
            names = COORDINATOR_RECORDS.schema.names
            yield pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


@dataclass(frozen=True)
class Checks:
    """The checks of a micro-batch before it is committed.

    `source` raises InputError if the topic is no longer the one that the ledger is fed from. It is called when a batch
    has been planned, and again when it has been read: if another cluster has answered at the address meanwhile, the
    rows are not committed, and the plan with that cluster's offsets is set aside. `judge` gets the number and the files
    of a batch. `size` returns how many offsets a batch has; None if that is unknown.
    """

    source: Callable[[], None] = lambda: None
    judge: Callable[[int, Sequence[WrittenFile]], None] = lambda *_: None
    size: Callable[[int], int | None] = lambda _: None


@dataclass(frozen=True)
class BatchPace:
    """`trigger` says when batches are run, in the form that Spark's `trigger` takes. `coverage_s` is the number of
    seconds after which `coverage` is written again."""

    trigger: dict[str, Any]
    coverage_s: float = math.inf


class BatchFailedError(Exception):
    """A micro-batch failed. `Batches.failure` has the original error."""


class Batches:
    """Processes each micro-batch of a query. `failure` is the error that a batch raised.

    Spark would report that error only as text. And if the query was asked to stop, Spark searches the text for an
    interruption with a pattern that needs stack for each character (`StreamExecution.PROXY_ERROR`, 4.0): a long text
    overflows the stack of the query's thread, which prints a thousand lines on standard error. So Spark gets a short
    error.
    """

    def __init__(self, act: Callable[[DataFrame, int], None]) -> None:
        self.failure: JobError | PySparkException | Py4JError | None = None
        self._act = act

    def __call__(self, rows: DataFrame, number: int) -> None:
        try:
            self._act(rows, number)
        except (JobError, PySparkException, Py4JError) as error:
            self.failure = error
            raise BatchFailedError(f"batch {number} failed") from None

    def close(self) -> None:
        """Does nothing. A subclass cleans up here after a batch that failed; call it when the query has ended."""


class BatchWriter(Batches):
    """Writes the micro-batches of a query into `coordinator_records`. `counts` has, by batch, the number of rows and
    the number of quarantined ones among them."""

    def __init__(self, ledger: Ledger, checks: Checks) -> None:
        super().__init__(self._write)
        self.counts: dict[int, tuple[int, int]] = {}
        self._ledger = ledger
        self._checks = checks
        self._is_source_other = False
        self._privacy = ledger.settings.privacy.resolve()

    def _write(self, rows: DataFrame, number: int) -> None:
        ledger = self._ledger
        checkpoint = read_checkpoint(ledger.storage, ledger.checkpoint_folder)
        if checkpoint is None:
            raise OutsideError("The checkpoint was deleted while it was in use: run `groupledger ingest --recover`.")
        batch = NumberedBatch(checkpoint.query_id, number)
        if ledger.commits.has(COORDINATOR_RECORDS, batch):
            return
        self._check()
        size = self._checks.size(number)
        files = write_files(
            rows if size is None else rows.coalesce(files_for(size)),
            COORDINATOR_RECORDS,
            ledger.warehouse,
            prepare=Decoding(ledger.cluster, now_ms() // DAY_MS, self._privacy),
            counted=("decode_error",),
        )
        self._check()
        self._checks.judge(number, files)
        ledger.commits.add_files(COORDINATOR_RECORDS, files, batch)
        self.counts[number] = (sum(each.rows for each in files), sum(each.counts[0] for each in files))

    def _check(self) -> None:
        try:
            self._checks.source()
        except InputError:
            self._is_source_other = True
            raise

    def close(self) -> None:
        if self._is_source_other:
            forget_planned_batch(self._ledger.storage, self._ledger.lease, self._ledger.checkpoint_folder)


def files_for(offsets: int) -> int:
    """Returns the maximum number of files for a batch of `offsets` many offsets. One file for each core would give many
    small files, all of which the log names and readers open."""
    return max(-(-offsets // OFFSETS_PER_FILE), 1)


def start_query(
    ledger: Ledger, kafka_rows: DataFrame, trigger: dict[str, Any], checks: Checks
) -> tuple[StreamingQuery, BatchWriter]:
    writer = BatchWriter(ledger, checks)
    stream = kafka_rows.select(*KAFKA_COLUMNS).writeStream.foreachBatch(writer)
    return stream.option("checkpointLocation", ledger.checkpoint_path).trigger(**trigger).start(), writer


def run_query(
    ledger: Ledger,
    kafka_rows: DataFrame,
    pace: BatchPace,
    stop: threading.Event,
    totals: Totals,
    *,
    cover: Callable[[], None],
    checks: Checks | None = None,
) -> None:
    """Starts the query, and adds each batch to `totals` until the query ends or `stop` is set. Now and then and at the
    end it calls `cover`, which writes `coverage`.

    Raises the error of a batch that failed, and OutsideError if the lease is lost or the query fails.
    """
    called_at = time.monotonic()
    watch = BrokerWatch(ledger)
    query, writer = start_query(ledger, kafka_rows, pace.trigger, checks or Checks())
    while not wait(query, writer, ledger.checkpoint_folder):
        count_batches(ledger, totals, query, writer)
        watch.look(query)
        if must_stop(ledger, query, stop):
            break
        if time.monotonic() - called_at > pace.coverage_s:
            cover()
            called_at = time.monotonic()
    totals.is_complete = not stop.is_set()
    count_batches(ledger, totals, query, writer)
    cover()


class BrokerWatch:
    """Reports, once for each wait, that Spark's driver waits for brokers that don't answer. Spark itself does not
    report it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._asking_since: float | None = None
        self._has_said = False

    def look(self, query: StreamingQuery) -> None:
        if not str(query.status["message"]).startswith("Getting offsets"):
            self._asking_since, self._has_said = None, False
            return
        self._asking_since = self._asking_since or time.monotonic()
        if not self._has_said and time.monotonic() - self._asking_since > SILENT_BROKER_S:
            self._ledger.warn(f"the brokers have not answered for {SILENT_BROKER_S} s: waiting for them")
            self._has_said = True


def must_stop(ledger: Ledger, query: StreamingQuery, stop: threading.Event) -> bool:
    """Stops the query if `stop` is set or the lease is lost, and returns whether it did. Raises OutsideError if the
    lease is lost."""
    if not (stop.is_set() or ledger.lease.lost.is_set()):
        return False
    stop_query(ledger, query)
    ledger.lease.check()
    return True


def stop_query(ledger: Ledger, query: StreamingQuery) -> None:
    """Stops the query; the next run reads its running batch again. A query that waits for a broker can't be
    interrupted: it continues to wait until this process ends."""
    try:
        query.stop()
    except Py4JJavaError as error:
        if not error.java_exception.getClass().getSimpleName() == "TimeoutException":
            raise
        ledger.say("stopped while the brokers did not answer")


def wait(query: StreamingQuery, batches: Batches, checkpoint_folder: str) -> bool:
    """Waits for `POLL_S` seconds, and returns whether the query has ended, which it also does if its batch was
    abandoned (BatchGivenUpError). Raises the JobError that a batch raised, and OutsideError if the query failed in
    another way."""
    try:
        return bool(query.awaitTermination(POLL_S))
    except StreamingQueryException as error:
        failure = batches.failure
        if not isinstance(failure, JobError):
            if failure is not None:
                error.__cause__ = failure  # its original cause, which Spark does not know
            elif CHECKPOINT_IS_READ.search(getattr(error, "_stackTrace", None) or ""):
                raise OutsideError(damaged_checkpoint(checkpoint_folder)) from error
            raise OutsideError(failure_sentence(str(failure or error))) from error
    if isinstance(failure, BatchGivenUpError):
        return True
    batches.close()
    raise failure


def failure_sentence(text: str) -> str:
    if "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE" in text:
        return (
            f"The table {COORDINATOR_RECORDS.name} is another one than the history has read: it was deleted and"
            " created again. Restore the earlier one, or run `groupledger history --rebuild`."
        )
    if "DATA_LOSS" in text or "failOnDataLoss" in text:
        return (
            "Records were deleted from the topic before they were read, or the topic was recreated while it was read."
            " Nothing was skipped: run the command again to learn which."
        )
    return f"The streaming query failed and can be started again without loss: {' '.join(text.split())[:500]}"


def count_batches(ledger: Ledger, totals: Totals, query: StreamingQuery, writer: BatchWriter) -> None:
    for progress in query.recentProgress:
        is_new = totals.last_batch is None or progress["batchId"] > totals.last_batch
        if is_new and progress["batchId"] in writer.counts:
            count_batch(ledger, totals, progress, *writer.counts.pop(progress["batchId"]))


def count_batch(ledger: Ledger, totals: Totals, progress: Any, rows: int, quarantined: int) -> None:
    """Adds a batch to the totals, and prints its figures."""
    totals.last_batch = progress["batchId"]
    totals.batches += 1
    totals.rows += rows
    totals.quarantined += quarantined
    totals.phases_ms = progress["durationMs"]
    (source,) = progress["sources"]
    if source["endOffset"] == source["latestOffset"]:
        totals.known_until_ms = epoch_ms(progress["timestamp"])
    seconds = totals.phases_ms[WHOLE_BATCH] / 1000
    kept = f", {quarantined:,} of them kept undecoded" if quarantined else ""
    ledger.say(f"batch {progress['batchId']}: {rows:,} records in {seconds:.1f} s{kept}")


def epoch_ms(timestamp: str) -> int:
    """Returns the milliseconds since the epoch of an instant such as 2026-01-31T12:00:00.123Z."""
    return ms_of(datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc))

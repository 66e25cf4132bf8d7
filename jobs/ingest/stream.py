"""Runs the streaming query of `ingest`, from Kafka rows to `coordinator_records`, one Delta commit per micro-batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from groupledger.jobs.process.errors import OutsideError
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.transforms.conform import conform
from groupledger.transforms.records.decode import decode

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from groupledger.jobs.warehouse.ledger import Ledger

TABLES = (COORDINATOR_RECORDS, COVERAGE)
POLL_S = 1
SILENT_BROKER_S = 20
TO_DECODE, DECODED = "to_decode", "decoded"


@dataclass
class Totals:
    """The totals of a run so far. `known_until_ms` is when the last batch began that reached the end of the topic;
    `is_complete`: the run was not stopped before its end."""

    last_batch: int | None = None
    rows: int = 0
    quarantined: int = 0
    known_until_ms: int | None = None
    is_complete: bool = False


def start_query(ledger: Ledger, kafka_rows: DataFrame, trigger: dict[str, Any]) -> StreamingQuery:
    rows = decode(kafka_rows.observe(TO_DECODE, F.count(F.lit(1)).alias("rows"))).select(
        F.lit(ledger.cluster).alias("cluster"),
        # In a streaming query this is the batch's date from the checkpoint, so a repeated batch has the same date.
        F.current_date().alias("ingest_date"),
        "*",
    )
    rows = rows.observe(DECODED, F.count(F.lit(1)).alias("rows"), F.count("decode_error").alias("quarantined"))
    writer = conform(rows, COORDINATOR_RECORDS).writeStream.format("delta").outputMode("append")
    writer = writer.option("checkpointLocation", ledger.checkpoint_path).trigger(**trigger)
    return writer.start(ledger.path(COORDINATOR_RECORDS))


def run_query(
    ledger: Ledger, query: StreamingQuery, stop: threading.Event, *, every_s: float, then: Callable[[Totals], None]
) -> Totals:
    """Reports each batch until the query ends or `stop` is set; calls `then` every `every_s` seconds and at the end.

    Raises OutsideError if the lease is lost or the query fails.
    """
    totals = Totals()
    called_at = time.monotonic()
    watch = BrokerWatch(ledger)
    while not wait(query):
        count_batches(ledger, totals, query)
        watch.look(query)
        if must_stop(ledger, query, stop):
            break
        if time.monotonic() - called_at > every_s:
            then(totals)
            called_at = time.monotonic()
    totals.is_complete = not stop.is_set()
    count_batches(ledger, totals, query)
    then(totals)
    return totals


class BrokerWatch:
    """Tells the user, once each time, that Spark's driver waits for brokers that don't answer: Spark itself is
    silent."""

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
            self._ledger.say(f"the brokers have not answered for {SILENT_BROKER_S} s: waiting for them")
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
    """Stops the query; its running batch is read again next time. Spark can't be interrupted while it waits for a
    broker: then it waits on, and ends with this process."""
    try:
        query.stop()
    except Py4JJavaError as error:
        if not error.java_exception.getClass().getSimpleName() == "TimeoutException":
            raise
        ledger.say("stopped while the brokers did not answer")


def wait(query: StreamingQuery) -> bool:
    """Waits for `POLL_S` seconds, and returns whether the query has ended. Raises OutsideError if it failed."""
    try:
        return bool(query.awaitTermination(POLL_S))
    except StreamingQueryException as error:
        raise OutsideError(failure_sentence(str(error))) from error


def failure_sentence(text: str) -> str:
    if "DATA_LOSS" in text or "failOnDataLoss" in text:
        return (
            "Records were deleted from the topic before they were read, or the topic was recreated while it was read."
            " Nothing was skipped: run the command again to learn which."
        )
    return f"The streaming query failed and can be started again without loss: {' '.join(text.split())[:500]}"


def count_batches(ledger: Ledger, totals: Totals, query: StreamingQuery) -> None:
    for progress in query.recentProgress:
        is_new = totals.last_batch is None or progress["batchId"] > totals.last_batch
        if is_new and DECODED in progress["observedMetrics"]:
            count_batch(ledger, totals, progress)


def count_batch(ledger: Ledger, totals: Totals, progress: Any) -> None:
    """Adds a batch to the totals. Raises AssertionError if it lost or repeated rows between the source and the
    table."""
    (rows_in,) = progress["observedMetrics"][TO_DECODE]
    rows, quarantined = progress["observedMetrics"][DECODED]
    if rows != rows_in:
        raise AssertionError(f"batch {progress['batchId']}: {rows_in} rows came and {rows} went")
    totals.last_batch = progress["batchId"]
    totals.rows += rows
    totals.quarantined += quarantined
    (source,) = progress["sources"]
    if source["endOffset"] == source["latestOffset"]:
        totals.known_until_ms = epoch_ms(progress["timestamp"])
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    kept = f", {quarantined:,} of them kept undecoded" if quarantined else ""
    ledger.say(f"batch {progress['batchId']}: {rows:,} records in {seconds:.1f} s{kept}")


def epoch_ms(timestamp: str) -> int:
    """Returns the milliseconds since the epoch of an instant such as 2026-01-31T12:00:00.123Z."""
    return round(datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp() * 1000)

"""`groupledger ingest --bootstrap-servers` reads `__consumer_offsets` into `coordinator_records` and `coverage`.

Before the query starts, its next offsets are compared with the topic. Four differences are errors, each with a sentence
of its own, since Spark would skip records or fail in the middle: another topic, records that were deleted before they
were read, an end of the log below our position, and a log that was truncated below our position and has grown again.
Compaction is not an error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.jobs.ingest.coverage import regained_source, write_coverage
from groupledger.jobs.ingest.decode_again import decode_quarantined_again
from groupledger.jobs.ingest.evidence import GapEvidence, cut_sentence, cuts
from groupledger.jobs.ingest.patience import until_answered
from groupledger.jobs.ingest.stream import TABLES, BatchPace, Checks, Totals, run_query
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.leader_epochs import ends_of_epochs
from groupledger.jobs.kafka.login import check_java_login
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic, kafka_options, offsets_topic_identity
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.session import task_count
from groupledger.jobs.warehouse.checkpoint import kafka_positions, set_checkpoint_aside, source_offset
from groupledger.jobs.warehouse.ledger import known_positions
from groupledger.jobs.warehouse.resume import resume_point
from groupledger.jobs.warehouse.source import KAFKA, LedgerSource, check_same_source, read_source, write_source
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.transforms.coverage.rules.stretches import Reading

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.kafka.offsets_topic import TopicRange
    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.ledger import Ledger


# How often a continuous run updates `coverage`; it also does so when it stops.
COVERAGE_INTERVAL_S = 60


@dataclass(frozen=True)
class KafkaIngest:
    """The arguments of a run of `ingest` from Kafka."""

    settings: Settings
    bootstrap_servers: str
    is_continuous: bool = False
    recover: bool = False


def ingest_kafka(ledger: Ledger, ingest: KafkaIngest, stop: threading.Event, totals: Totals | None = None) -> Totals:
    """Reads until the topic's present end, or with `is_continuous` until `stop` is set; returns the totals. A
    continuous run updates `totals` after each batch.

    If Kafka's cleaner has removed records that a pass should have read, that pass only knows all records after the end
    that it saw last. So a second pass follows, which has little to read; otherwise the history would be unknown until
    somebody starts the next pass.
    """
    totals = totals or Totals()
    is_known = _pass(ledger, ingest, stop, totals)
    if ingest.is_continuous or is_known or stop.is_set():
        return totals
    ledger.say("Kafka's cleaner has compacted the log: reading the records written since")
    second = Totals()
    _pass(ledger, ingest, stop, second)
    return replace(second, rows=totals.rows + second.rows, quarantined=totals.quarantined + second.quarantined)


def _pass(ledger: Ledger, ingest: KafkaIngest, stop: threading.Event, totals: Totals) -> bool:
    """Reads the topic, and returns whether each partition is known until some instant."""
    started_at_ms = now_ms()
    source, positions = plan(ledger, ingest, started_at_ms)
    write_source(ledger.storage, ledger.cluster, source)
    decode_quarantined_again(ledger)
    every = f"{ingest.settings.ingest.trigger_interval_s} seconds"
    trigger = {"processingTime": every} if ingest.is_continuous else {"availableNow": True}

    is_known = True
    evidence = GapEvidence(ledger, ingest.settings, ingest.bootstrap_servers, source, positions, stop)

    def cover() -> None:
        reached = source_offset(ledger.storage, ledger.checkpoint_folder, totals.last_batch)
        is_at_end = not ingest.is_continuous and totals.is_complete
        known_until_ms = started_at_ms if is_at_end else totals.known_until_ms
        ends = positions | kafka_positions(reached, OFFSETS_TOPIC)
        nonlocal is_known
        is_known = write_coverage(ledger, evidence.source, ends, known_until_ms)

    def check_source() -> None:
        wish = "whether the topic is still the same"
        identity = until_answered(
            lambda: offsets_topic_identity(ingest.bootstrap_servers, ingest.settings.kafka), wish, ledger, stop
        )
        check_same_source(source, KAFKA, identity, ledger.cluster)

    def size(number: int) -> int:
        def ends(batch: int) -> dict[int, int]:
            return kafka_positions(source_offset(ledger.storage, ledger.checkpoint_folder, batch), OFFSETS_TOPIC)

        before = positions | ends(number - 1)
        return sum(end - before.get(partition, 0) for partition, end in ends(number).items())

    rows = kafka_rows(ledger, ingest, positions)
    checks = Checks(check_source, evidence, size)
    run_query(ledger, rows, BatchPace(trigger, COVERAGE_INTERVAL_S), stop, totals, cover=cover, checks=checks)
    return is_known


def plan(ledger: Ledger, ingest: KafkaIngest, started_at_ms: int) -> tuple[LedgerSource, dict[int, int]]:
    """Returns the ledger's source and, by partition, the next offset to read. Raises InputError if topic and ledger
    don't belong together."""
    identity, topic = describe_offsets_topic(ingest.bootstrap_servers, ingest.settings.kafka)
    source = read_source(ledger.storage, ledger.cluster)
    if source is not None:
        check_same_source(source, KAFKA, identity, ledger.cluster)
    ledger.create(*TABLES)
    resume = resume_point(ledger, source, recover=ingest.recover)
    source = resume.source or LedgerSource(KAFKA, identity, {})
    settled = kafka_positions(resume.settled_offset, OFFSETS_TOPIC) or known_positions(ledger)
    source = regained_source(ledger, source, settled, topic.last_stable_offset, started_at_ms)
    positions = {**topic.log_start_offset, **settled}
    source = source.at(positions)
    check_end({**positions, **kafka_positions(resume.planned_offset, OFFSETS_TOPIC)}, topic)
    source = source.with_readings_after_cuts(readings_after_cuts(ingest, source, positions, topic, started_at_ms))
    holes = {partition for partition, start in topic.log_start_offset.items() if positions[partition] < start}
    if holes:
        if not ingest.recover:
            raise InputError(
                f"{sum(topic.log_start_offset[hole] - positions[hole] for hole in holes):,} offsets in"
                f" {len(holes)} partitions were deleted from {OFFSETS_TOPIC} before they were read. Run `groupledger"
                " ingest --recover` to continue after them; `coverage` will show the hole."
            )
        set_checkpoint_aside(ledger.storage, ledger.lease, ledger.checkpoint_folder)
    new = {
        partition: Reading(
            from_offset=max(start, positions[partition]),
            complete_from=topic.last_stable_offset[partition],
            complete_from_ms=started_at_ms,
            resumed_from=positions[partition] if partition in holes else None,
            began_ms=started_at_ms,
        )
        for partition, start in topic.log_start_offset.items()
        if partition in holes or partition not in settled
    }
    say_waiting(ledger, topic)
    return source.with_readings(new), positions | {partition: reading.from_offset for partition, reading in new.items()}


def check_end(positions: Mapping[int, int], topic: TopicRange) -> None:
    """Raises InputError if a partition of the topic ends below our position."""
    beyond = [partition for partition, end in topic.high_watermark.items() if positions[partition] > end]
    if beyond:
        partition = beyond[0]
        raise InputError(
            f"Partition {partition} of {OFFSETS_TOPIC} ends at offset {topic.high_watermark[partition]:,}, and the"
            f" ledger has read up to {positions[partition]:,}: records were cut off, and others may take their offsets."
            " Use another --cluster name or another --warehouse from now on."
        )


def readings_after_cuts(
    ingest: KafkaIngest, source: LedgerSource, positions: Mapping[int, int], topic: TopicRange, started_at_ms: int
) -> dict[int, Reading]:
    """Returns a reading for each partition whose log was truncated below our position and has grown again. Raises
    InputError if there is one, unless asked to recover.

    Records that we read above the cut stay: they were in the log, and the coordinator answered by them. They can't be
    distinguished from the records that took their offsets.
    """
    if not source.leader_epochs:
        return {}
    with connect(ingest.bootstrap_servers, ingest.settings) as brokers:
        ends = ends_of_epochs(brokers, ingest.settings.sampling, source.leader_epochs)
    cut = cuts(positions, ends)
    if cut and not ingest.recover:
        raise InputError(cut_sentence(cut, positions))
    return {
        partition: Reading(
            from_offset=positions[partition],
            complete_from=max(topic.last_stable_offset[partition], positions[partition]),
            complete_from_ms=started_at_ms,
            is_state_lost=True,
            began_ms=started_at_ms,
        )
        for partition in cut
    }


def say_waiting(ledger: Ledger, topic: TopicRange) -> None:
    """Reports how many offsets can't be read yet: a read_committed reader stops at the first open transaction."""
    waiting = {
        partition: end - topic.last_stable_offset[partition]
        for partition, end in topic.high_watermark.items()
        if end > topic.last_stable_offset[partition]
    }
    if waiting:
        ledger.warn(
            f"{sum(waiting.values()):,} offsets in partitions {', '.join(map(str, waiting))} wait for open"
            " transactions and will be read when these end"
        )


def kafka_rows(ledger: Ledger, ingest: KafkaIngest, positions: Mapping[int, int]) -> DataFrame:
    check_java_login(ledger.spark, ingest.settings.kafka)
    options = {
        **kafka_options(ingest.settings, ingest.bootstrap_servers, positions),
        "maxOffsetsPerTrigger": str(ingest.settings.ingest.max_offsets_per_trigger),
    }
    rows = ledger.spark.readStream.format("kafka").options(**options).load()
    return rows.coalesce(task_count(ledger.spark, ingest.settings.ingest.read_tasks))

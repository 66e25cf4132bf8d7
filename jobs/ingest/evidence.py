"""Judges, before the rows of a micro-batch from Kafka are written, whether records were removed from the log before
they were read, and whether the log is still the one that was read before.

The resulting readings are written first and the rows afterwards, so that a fold of the rows always finds the readings.
A batch that is run again is judged again. Brokers that don't answer are asked again for `SILENT_S_MAX` seconds, so that
a change of leader only costs waiting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.ingest.coverage import late_partitions
from groupledger.jobs.ingest.patience import Answer, SettledError, until_answered
from groupledger.jobs.kafka.batch_headers import read_batches
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.leader_epochs import ends_of_epochs, epochs_at
from groupledger.jobs.kafka.offsets_topic import describe_offsets_topic, tombstone_retention_ms
from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.checkpoint import kafka_positions, source_offset
from groupledger.jobs.warehouse.source import Before, write_source
from groupledger.jobs.warehouse.task_files import read_columns
from groupledger.schemas.instants import ms_of
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.words import Proof
from groupledger.transforms.coverage.offset_gaps import gaps
from groupledger.transforms.coverage.rules.evidence import Read, UnreadError, explained_from, judged

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from groupledger.jobs.process.settings import Settings
    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.source import LedgerSource
    from groupledger.jobs.warehouse.task_files import WrittenFile
    from groupledger.transforms.coverage.rules.evidence import BatchHeader, Gap
    from groupledger.transforms.coverage.rules.stretches import Reading


SILENT_S_MAX = 600


class GapEvidence:
    """Judges how completely a ledger was read from Kafka. `source` is the ledger's source with the newest readings.

    `positions` are the offsets, by partition, at which the query's first batch begins. While brokers don't answer, a
    judgement waits for them, until `stop` is set.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        bootstrap_servers: str,
        source: LedgerSource,
        positions: Mapping[int, int],
        stop: threading.Event,
    ) -> None:
        self.source = source
        self._stop = stop
        self._ledger = ledger
        self._settings = settings
        self._bootstrap_servers = bootstrap_servers
        self._positions = positions

    def __call__(self, number: int, files: Sequence[WrittenFile]) -> None:
        """Judges batch `number`, whose rows are in `files` that are not committed yet. Raises OutsideError if the
        brokers don't answer, InputError if the log was truncated below the begin of the batch, and BatchGivenUpError if
        the run was stopped."""
        begins = {**self._positions, **self._reached(number - 1)}
        ends = {partition: end for partition, end in self._reached(number).items() if end > begins[partition]}
        epochs = self._answer_of(lambda: self._epochs(begins, ends), "whether the log is still the same")
        source = self.source.at(begins)
        found = read_columns(files, COORDINATOR_RECORDS, self._ledger.warehouse, COLUMNS)
        of_partition = {partition: found.filter(pc.field("kafka_partition") == partition) for partition in ends}
        missing = {
            partition: gaps(some.column("kafka_offset").to_numpy(), begins[partition], ends[partition])
            for partition, some in of_partition.items()
        }
        explained = self._answer_of(
            lambda: explained_by_headers(missing, begins, self._settings, self._bootstrap_servers),
            "what the log has where records are missing",
        )
        is_thinned = any(at > begins[partition] for partition, at in explained.items())
        at_end, late = {}, set[int]()
        if is_thinned:
            at_end = self._answer_of(self._at_end, "where the log ends")
            late = self._answer_of(lambda: self._late(source.readings), "how long the topic keeps tombstones")
        readings = dict(source.readings)
        for partition, end in ends.items():
            read = Read(
                begin=begins[partition],
                end=end,
                begin_ms=first_ms(of_partition[partition]),
                explained_from=explained[partition],
                proof=Proof.BATCH_HEADERS if missing[partition] else Proof.NO_GAP,
                at_end=at_end.get(partition, (end, now_ms())),
                may_lack_tombstones=partition in late,
            )
            readings[partition] = judged(readings[partition], read)
        new = replace(self.source, leader_epochs=epochs)
        if readings != self.source.readings:
            before = Before({partition: begins[partition] for partition in ends}, source.readings)
            new = replace(new, readings=readings, before=before)
        if new != self.source:
            self.source = new
            write_source(self._ledger.storage, self._ledger.cluster, self.source)

    def _answer_of(self, ask: Callable[[], Answer], wish: str) -> Answer:
        return until_answered(ask, wish, self._ledger, self._stop, SILENT_S_MAX)

    def _epochs(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        """Returns, by partition, the leader epoch of the last record read. An epoch that can't be found out is left
        out."""
        kept, settings = self.source.leader_epochs, self._settings
        if not ends:
            return dict(kept)
        found = {partition: epoch for partition, epoch in kept.items() if partition not in ends}
        with connect(self._bootstrap_servers, settings) as brokers:
            of_grown = {partition: kept[partition] for partition in ends if partition in kept}
            cut = cuts(begins, ends_of_epochs(brokers, settings.sampling, of_grown))
            if cut:
                raise InputError(cut_sentence(cut, begins))
            last = {partition: end - 1 for partition, end in ends.items()}
            return found | epochs_at(brokers, settings.sampling, last)

    def _reached(self, number: int) -> dict[int, int]:
        at = source_offset(self._ledger.storage, self._ledger.checkpoint_folder, number) if number >= 0 else None
        return kafka_positions(at, OFFSETS_TOPIC)

    def _late(self, readings: Mapping[int, Sequence[Reading]]) -> set[int]:
        retention_ms = tombstone_retention_ms(self._bootstrap_servers, self._settings.kafka)
        return late_partitions(self._ledger, readings, now_ms(), retention_ms)

    def _at_end(self) -> dict[int, tuple[int, int]]:
        _, topic = describe_offsets_topic(self._bootstrap_servers, self._settings.kafka)
        return {partition: (end, now_ms()) for partition, end in topic.last_stable_offset.items()}


def cuts(positions: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Returns, by partition, the offset at which the log was truncated. `ends` are the ends of the leader epochs in
    which our last records were written. A log that still has these records has such an end at or after `positions`, the
    offsets after them."""
    return {partition: end for partition, end in ends.items() if end < positions[partition]}


def cut_sentence(cut: Mapping[int, int], positions: Mapping[int, int]) -> str:
    partition, end = min(cut.items())
    return (
        f"Partition {partition} of {OFFSETS_TOPIC} was cut off at offset {end:,} and has grown again, and the ledger"
        f" has read up to {positions[partition]:,}: other records have taken the place of some that it holds, as after"
        " the election of a leader that was not in sync. Run `groupledger ingest --recover` to continue after them:"
        " rows that were read stay as they were, and nothing is taken for known of a group before its next record."
    )


def explained_by_headers(
    missing: Mapping[int, Sequence[Gap]], begins: Mapping[int, int], settings: Settings, bootstrap_servers: str
) -> dict[int, int]:
    """Returns, by partition, the offset from which on the headers of the batches account for every gap in `missing`.
    Raises OutsideError if the leader does not answer, and SettledError if the log has a record that was not
    delivered."""
    if not any(missing.values()):
        return {partition: begins[partition] for partition in missing}
    explained: dict[int, int] = {}
    with connect(bootstrap_servers, settings) as brokers:
        for partition, found in missing.items():

            def headers(begin: int, end: int, partition: int = partition) -> Sequence[BatchHeader]:
                return read_batches(brokers, settings.sampling, partition, begin, end)

            try:
                explained[partition] = explained_from(found, begins[partition], headers)
            except UnreadError as error:
                raise SettledError(
                    f"Records of partition {partition} of {OFFSETS_TOPIC} are in the log and were not delivered"
                    f" ({error}): nothing was kept, run the command again."
                ) from error
    return explained


COLUMNS = ("kafka_partition", "kafka_offset", "kafka_timestamp")


def first_ms(rows: pa.Table) -> int:
    """Returns the earliest timestamp of the rows, in milliseconds since the epoch; 0 if there is none."""
    least = pc.min(rows.column("kafka_timestamp")).as_py()
    return 0 if least is None else ms_of(least)

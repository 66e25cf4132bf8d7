"""Implements `groupledger simulate`: runs a cluster in virtual time, and writes the data that a real cluster would
leave, and what really happened to compare with.

    OUT/capture/        what `ingest --capture` reads, as `jobs.ingest.capture` writes it
    OUT/request-log/    a file for each broker, of every request about a group and its answer
    OUT/server-log/     a file for each broker, of what its group coordinator logs
    OUT/watermarks/     sampled ends of all topics, those of __consumer_offsets first
    OUT/group_states/   the groups as DescribeGroups described them in the same rounds
    OUT/truth/          what really happened, a table for each list of `coordinator.simulator.truth`
    OUT/scenario.json   name, seed, settings and counts

The simulation is run in slices of virtual time, so that memory does not grow with the length of the run, except for
what goes into `truth/`. The same seed and settings give the same files.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupledger.coordinator.model.log_lines import render_line as render_server_line
from groupledger.coordinator.simulator import truth
from groupledger.coordinator.simulator.described_groups import SimulatedGroupState
from groupledger.coordinator.simulator.request_log import render_line as render_request_line
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS, SimulatedWatermark
from groupledger.jobs.ingest.capture import Manifest, write_manifest
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.source import TopicIdentity
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.codec.records import encode_record
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from groupledger.schemas.words import Completeness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from typing import TextIO

    from groupledger.coordinator.model.operation import Batch
    from groupledger.coordinator.simulator.partition_log import PartitionLog
    from groupledger.coordinator.simulator.scenarios import Scenario
    from groupledger.coordinator.simulator.simulation import Outputs, Simulation

_HOUR_MS = 3_600_000
_SLICE_MS = 600_000
_SAY_EVERY_S = 5.0
_CREATE_TIME = 0

CAPTURE_COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
_PLACES = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))
_ARROW_TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "tuple[str, ...]": pa.list_(pa.string()),
    "tuple[int, ...]": pa.list_(pa.int64()),
    "tuple[TopicPartition, ...]": _PLACES,
}
TABLES_OF_TRUTH = {
    "generations": truth.TrueGeneration,
    "owners": truth.TrueOwner,
    "causes": truth.TrueCause,
    "members": truth.TrueTenure,
    "epochs": truth.Epoch,
    "holdings": truth.Holding,
    "tasks": truth.TaskHolding,
    "rejections": truth.Rejection,
    "actions": truth.Action,
}


@dataclass(frozen=True, slots=True)
class SimulatedCounts:
    groups: int
    requests: int
    records: int


def scenario_named(name: str) -> Scenario:
    """Returns the scenario with this name. Raises InputError for an unknown one."""
    if name not in SCENARIOS:
        raise InputError(
            f"There is no scenario of that name; `groupledger simulate --list` shows all {len(SCENARIOS)}."
        )
    return SCENARIOS[name]


def simulate(
    scenario: Scenario,
    seed: int,
    directory: Path,
    groups: int | None,
    hours: float | None,
    say: Callable[[str], None],
    until_ms: int | None = None,
) -> SimulatedCounts:
    """Runs a scenario, and writes its outputs and the truth. Returns the counts. The virtual time ends at `until_ms`,
    in milliseconds since the epoch; if that is None, it begins at the same fixed time as in all simulations.

    Raises InputError if the directory is not empty, or if the time is too short for the scenario.
    """
    hours = scenario.hours if hours is None else hours
    if hours < scenario.hours:
        raise InputError(f"The scenario {scenario.name} takes {scenario.hours:g} hours: give --hours at least that.")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InputError(f"{directory} is not an empty directory: a simulation needs one of its own.")
    lasts_ms = round(hours * _HOUR_MS)
    simulation = prepare(scenario, seed, groups, BEGAN_AT_MS if until_ms is None else until_ms - lasts_ms)
    end_ms = simulation.began_at_ms + lasts_ms
    with ExitStack() as stack:
        files = Files(directory, simulation.brokers.coordinators, stack)
        said_at = monotonic()
        while simulation.now_ms < end_ms:
            simulation.run(min(simulation.now_ms + _SLICE_MS, end_ms))
            files.write(simulation.take(is_last=simulation.now_ms == end_ms))
            if monotonic() - said_at > _SAY_EVERY_S:
                said_at = monotonic()
                passed_hours = (simulation.now_ms - simulation.began_at_ms) / _HOUR_MS
                say(f"{passed_hours:.1f} of {hours:g} hours simulated, {simulation.request_count:,} requests")
    _write_truth(directory / "truth", simulation)
    identity = TopicIdentity(simulation.cluster_id, simulation.offsets_topic_id, len(simulation.brokers.logs))
    write_capture_manifest(
        directory / "capture",
        identity,
        simulation.brokers.logs,
        (simulation.began_at_ms, simulation.now_ms),
        Completeness.COMPACTED if simulation.settings.is_compacted else Completeness.COMPLETE,
    )
    counts = SimulatedCounts(len(simulation.group_ids), simulation.request_count, files.record_count)
    _write_summary(directory, scenario, seed, hours, simulation, counts)
    return counts


class Files:
    """Writes the files that grow during the run: the capture, the samples, and a request log and a server log for each
    broker. They stay open until `stack` closes them."""

    def __init__(self, directory: Path, broker_ids: Iterable[int], stack: ExitStack) -> None:
        self.record_count = 0
        self._capture = self._parquet(directory / "capture", CAPTURE_COLUMNS, stack)
        self._watermarks = self._parquet(directory / "watermarks", arrow_schema(SimulatedWatermark), stack)
        self._group_states = self._parquet(directory / "group_states", arrow_schema(SimulatedGroupState), stack)
        self._request_logs: dict[int, TextIO] = {}
        self._server_logs: dict[int, TextIO] = {}
        for broker in broker_ids:
            self._request_logs[broker] = self._text(directory / "request-log", f"kafka-request-{broker}.log", stack)
            self._server_logs[broker] = self._text(directory / "server-log", f"server-{broker}.log", stack)

    @staticmethod
    def _parquet(folder: Path, schema: pa.Schema, stack: ExitStack) -> pq.ParquetWriter:
        folder.mkdir(parents=True, exist_ok=True)
        return stack.enter_context(pq.ParquetWriter(folder / "part-0.parquet", schema))

    @staticmethod
    def _text(folder: Path, name: str, stack: ExitStack) -> TextIO:
        folder.mkdir(parents=True, exist_ok=True)
        return stack.enter_context((folder / name).open("w", encoding="utf-8", errors="surrogatepass", newline="\n"))

    def write(self, outputs: Outputs) -> None:
        table = capture_table(outputs.batches)
        self.record_count += table.num_rows
        self._capture.write_table(table)
        self._watermarks.write_table(table_of(SimulatedWatermark, outputs.watermarks))
        self._group_states.write_table(table_of(SimulatedGroupState, outputs.group_states))
        for exchange in outputs.exchanges:
            self._request_logs[exchange.broker_id].write(render_request_line(exchange) + "\n")
        for broker, event in outputs.events:
            self._server_logs[broker].write(render_server_line(event, broker_id=broker) + "\n")


def capture_table(batches: Iterable[Batch]) -> pa.Table:
    """Returns the records as rows with the columns of Spark's Kafka source."""
    keys, values, partitions, offsets, times = [], [], [], [], []
    for batch in batches:
        for offset, record in enumerate(batch.records, batch.base_offset):
            key, value = encode_record(record)
            keys.append(key)
            values.append(value)
            partitions.append(batch.partition)
            offsets.append(offset)
            times.append(batch.timestamp_ms * 1_000)
    count = len(keys)
    columns = [keys, values, [OFFSETS_TOPIC] * count, partitions, offsets, times, [_CREATE_TIME] * count]
    return pa.table(columns, schema=CAPTURE_COLUMNS)


def arrow_schema(row_type: Any) -> pa.Schema:
    """Returns the Arrow schema of a table whose rows are this dataclass."""
    return pa.schema(
        [(field.name, _ARROW_TYPES[str(field.type).removesuffix(" | None")]) for field in fields(row_type)]
    )


def table_of(row_type: Any, rows: Iterable[Any]) -> pa.Table:
    columns: dict[str, list[Any]] = {field.name: [] for field in fields(row_type)}
    schema = arrow_schema(row_type)
    places = {name for name in columns if schema.field(name).type == _PLACES}
    for row in rows:
        for name, column in columns.items():
            value = getattr(row, name)
            if name in places:
                value = [{"topic": topic, "partition": partition} for topic, partition in value]
            column.append(value)
    return pa.table(columns, schema=schema)


def _write_truth(folder: Path, simulation: Simulation) -> None:
    folder.mkdir()
    for name, row_type in TABLES_OF_TRUTH.items():
        rows = getattr(simulation.recorder.truth, name)
        pq.write_table(table_of(row_type, rows), folder / f"{name}.parquet")


def write_capture_manifest(
    folder: Path,
    identity: TopicIdentity,
    logs: Sequence[PartitionLog],
    period_ms: tuple[int, int],
    completeness: str,
) -> None:
    """Writes the manifest of a capture of whole logs. `period_ms` has the times at which the logs began and were
    read."""
    began_at_ms, captured_at_ms = period_ms
    manifest = Manifest(
        identity=identity,
        from_offsets=dict.fromkeys(range(len(logs)), 0),
        to_offsets={partition: log.last_stable_offset for partition, log in enumerate(logs)},
        captured_at_ms=captured_at_ms,
        completeness=completeness,
        began_at_ms=began_at_ms,
    )
    write_manifest(LocalStorage(folder), manifest)


def _write_summary(
    directory: Path, scenario: Scenario, seed: int, hours: float, simulation: Simulation, counts: SimulatedCounts
) -> None:
    tables = {name: len(getattr(simulation.recorder.truth, name)) for name in TABLES_OF_TRUTH}
    summary = {
        "scenario": scenario.name,
        "summary": scenario.summary,
        "seed": seed,
        "hours": hours,
        "began_at_ms": simulation.began_at_ms,
        "ended_at_ms": simulation.now_ms,
        "settings": asdict(simulation.settings),
        "counts": {**asdict(counts), **tables},
    }
    LocalStorage(directory).write("scenario.json", json.dumps(summary, indent=1))

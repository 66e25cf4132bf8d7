"""Plays groups of the simulator's scenarios, and returns each group's rows in a ledger together with its truth.

As in a pipeline, a read_committed reader gets the records as rows with the columns of Spark's Kafka source, and the
decoder decodes them. The fold takes them with the completeness that the capture's manifest claims. A ledger can't know
records at or beyond the end of the capture (the last stable offset).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.coordinator.model.log_lines import render_line
from groupledger.coordinator.simulator.modern_recorder import PREFIXES
from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS, WITH_EPOCHS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.coordinator.simulator.truth import Truth
from groupledger.jobs.demo.simulate import capture_table
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage, GroupTombstone, group_record
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.history.rules.ownership_answer import owner_at
from groupledger.transforms.logs.rules.server_log import Entry as LogEntry
from groupledger.transforms.logs.rules.server_log import parse_entry
from groupledger.transforms.privacy import Privacy
from groupledger.transforms.records.decode import decode_batches
from lab.truth.consumer_groups import event_of
from lab.truth.histories import Commit, position, stretch, summaries
from lab.truth.mixed import MIXED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from random import Random

    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.operation import Batch
    from groupledger.coordinator.simulator.scenarios.registry import Scenario
    from groupledger.coordinator.simulator.scenarios.script import Script
    from groupledger.coordinator.simulator.simulation import Simulation
    from groupledger.transforms.history.rules.ownership_answer import OwnerAnswer
    from lab.truth.histories import Entry

DAYS = ("day", "demo")  # the other scenarios once more, with long hours between them
CLASSIC = {name: scenario for name, scenario in SCENARIOS.items() if name not in DAYS and scenario not in WITH_EPOCHS}
PLAYED = CLASSIC | {MIXED.name: MIXED}
HOUR_MS = 3_600_000
LEISURELY = {"heartbeat_interval_ms": 12_000, "auto_commit_interval_ms": 10_000}

Row = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """One group of a run. `log` has its records in the capture, which ends before `end_offset`. `marks` and `coverage`
    say how complete the log is, `truth` has the group's true history, and `events` are the lines about it in
    the server logs."""

    group_id: str
    kafka_partition: int
    truth: Truth
    log: tuple[Entry, ...]
    marks: tuple[Coverage, ...]
    coverage: tuple[Row, ...]
    end_offset: int
    until_ms: int
    events: tuple[Row, ...]


@dataclass(frozen=True)
class Ledger:
    """The rows that the fold makes of a group, and the coverage of the group's partition."""

    rows: dict[str, list[Row]]
    coverage: tuple[Row, ...]

    def owner(self, topic: str, partition: int, at_ms: int) -> OwnerAnswer:
        (group,), generations, assignments = (self.rows[name] for name in ("groups", "generations", "assignments"))
        return owner_at(group, generations, assignments, self.coverage, topic, partition, at_ms * 1_000)


def groups_of(name: str, seed: int, count: int | None = None, *, is_leisurely: bool = False) -> list[Group]:
    """Plays a scenario to its end with `count` groups, or with as many as the scenario has, and returns them. Leisurely
    groups have longer intervals than Kafka's defaults, and need a third of the time."""
    scenario = PLAYED[name]

    def play(script: Script) -> None:
        if is_leisurely:
            script.pace, script.processing_ms = LEISURELY, (5_000, 15_000)
        scenario.play(script)

    simulation = prepare(replace(scenario, play=play), seed, count)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    outputs = simulation.take(is_last=True)
    return groups_in(simulation, outputs.batches, outputs.events)


def groups_in(
    simulation: Simulation, batches: Iterable[Batch], events: Iterable[tuple[int, LogEvent]] = ()
) -> list[Group]:
    """Returns the groups of a finished simulation, with their records in `batches` and the events in its server
    logs."""
    rows = _server_log_events(events)
    logs: dict[str, list[Entry]] = {group_id: [] for group_id in simulation.group_ids}
    names = {topic.topic_id: topic.name for topic in simulation.topics.by_name.values()}
    for group_id, entry in decoded(capture_table(batches), names):
        logs[group_id].append(entry)
    completeness = Completeness.COMPACTED if simulation.settings.is_compacted else Completeness.COMPLETE
    groups = []
    for group_id, log in logs.items():
        kafka_partition = simulation.brokers.partition_for(group_id)
        end = simulation.brokers.logs[kafka_partition].last_stable_offset
        groups.append(
            Group(
                group_id,
                kafka_partition,
                _truth_of(simulation.recorder.truth, group_id),
                tuple(sorted(log, key=position)),
                (Coverage(0, completeness),),
                (stretch(0, end, (BEGAN_AT_MS, simulation.now_ms), completeness),),
                end,
                simulation.now_ms,
                tuple(row for row in rows if row["group_id"] == group_id),
            )
        )
    return groups


def in_one_partition(scenario: Scenario, seed: int, first_offset: int = 0) -> pa.Table:
    """Plays a scenario, and returns the records of all its groups as the rows of one partition, in the order of their
    times, with the columns of Spark's Kafka source."""
    simulation = prepare(scenario, seed)
    simulation.run(BEGAN_AT_MS + round(scenario.hours * HOUR_MS))
    order = [(name, "ascending") for name in ("timestamp", "partition", "offset")]
    rows = capture_table(simulation.take(is_last=True).batches).sort_by(order)
    offsets = pa.array(range(first_offset, first_offset + rows.num_rows), pa.int64())
    for name, values in (("partition", pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)), ("offset", offsets)):
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)
    return rows


def ledger_of(group: Group) -> Ledger:
    events = summaries(sorted([*group.marks, *group.log], key=position))
    return Ledger(fold(group.group_id, group.kafka_partition, None, events).rows, group.coverage)


def thinned(group: Group, random: Random) -> Group:
    """Returns the group as a ledger knows it that first read the topic at a random instant. Of the earlier records the
    log cleaner has left the last one of each key, and perhaps no tombstones. The later records are complete."""
    at_ms = random.randrange(BEGAN_AT_MS, group.until_ms)
    records: list[Any] = list(group.log)
    before = [entry for entry in records if entry.kafka_timestamp_ms < at_ms]
    after = records[len(before) :]
    last = {_key(entry): entry for entry in before}
    is_old = random.random() < 0.5  # tombstones are gone, too
    kept = [entry for entry in before if last[_key(entry)] is entry and not (is_old and _is_tombstone(entry))]
    end = before[-1].kafka_offset + 1 if before else 0
    found = [
        stretch(0, end, None, Completeness.COMPACTED),
        stretch(end, group.end_offset, (at_ms, group.until_ms), Completeness.COMPLETE),
    ]
    coverage = tuple(row for row in found if row["from_offset"] < row["to_offset"])
    marks = tuple(Coverage(row["from_offset"], row["completeness"]) for row in coverage)
    return replace(group, log=(*kept, *after), marks=marks, coverage=coverage)


def _key(entry: Any) -> object:
    return (entry.topic, entry.partition) if isinstance(entry, Commit) else None


def _is_tombstone(entry: Entry) -> bool:
    return isinstance(entry, GroupTombstone) or (isinstance(entry, Commit) and entry.committed_offset is None)


def decoded(capture: pa.Table, names: Mapping[str, str] | None = None) -> Iterator[tuple[str, Entry]]:
    """Yields, for each row of a capture, the group id and the event or commit. `names` has the topic names by topic id;
    without it, a record of a KIP-848, share or streams group raises AssertionError."""
    for decoded in decode_batches(capture.to_batches()):
        times_us = decoded.column("kafka_timestamp").cast(pa.int64()).to_pylist()
        for row, time_us in zip(decoded.to_pylist(), times_us, strict=True):
            yield row["group_id"], _entry(row, time_us // 1_000, names)


def _entry(row: Row, timestamp_ms: int, names: Mapping[str, str] | None = None) -> Entry:
    offset = row["kafka_offset"]
    if row["record_type"] == "offset_commit":
        commit = row["offset_commit"]
        return Commit(offset, timestamp_ms, commit["topic"], commit["partition"], commit["offset"])
    if names is not None and row["record_type"].startswith(PREFIXES):
        fields, is_tombstone = json.loads(row["record_json"]), row["is_tombstone"]
        return event_of(  # type: ignore[return-value]
            (offset, timestamp_ms), row["record_type"], fields, names, is_tombstone=is_tombstone
        )
    if row["record_type"] != "group_metadata":
        raise AssertionError(f"no scenario writes a {row['record_type']} ({row['decode_error_detail']})")
    if row["is_tombstone"]:
        return GroupTombstone(offset, timestamp_ms)
    return group_record(offset, timestamp_ms, row["record_json"])


def _server_log_events(events: Iterable[tuple[int, LogEvent]]) -> list[Row]:
    """Returns the lines of every broker's server log as `coordinator_events` rows, with times in microseconds."""
    found = []
    for line_number, (broker, event) in enumerate(events, 1):
        line = render_line(event, broker_id=broker)
        parsed = parse_entry(LogEntry(line_number, 1, line), "UTC", Privacy())
        assert isinstance(parsed, dict)
        found.append({"source_file": f"server-{broker}", **parsed})
    return found


def _truth_of(truth: Truth, group_id: str) -> Truth:
    def of_group(rows: Iterable[Any]) -> list[Any]:
        return [row for row in rows if row.group_id == group_id]

    return Truth(
        generations=of_group(truth.generations),
        owners=of_group(truth.owners),
        causes=of_group(truth.causes),
        members=of_group(truth.members),
        rejections=of_group(truth.rejections),
        actions=of_group(truth.actions),
    )

"""Reads a capture and server logs of a real cluster, and returns the facts about its groups, without Spark.

As in a pipeline, the decoder decodes the records. The fold takes them as those of a log without holes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from groupledger.schemas.instants import LATEST_MS
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.fold import fold
from groupledger.transforms.incidents.coordinator_faults import DEPARTURES, RECORD_COLUMNS, counted, seconds
from groupledger.transforms.incidents.rules import CoordinatorEvent, GroupFacts
from groupledger.transforms.incidents.rules.blameless import is_unexplained, partition_of, stated_leaves
from groupledger.transforms.incidents.rules.coordinator_faults import (
    GIVEN_UP,
    LOADED,
    PartitionLine,
    coordinators,
    faults_of,
    moves,
    silences,
)
from groupledger.transforms.incidents.rules.facts import milliseconds
from groupledger.transforms.logs.rules.server_log import entries, parse_entry
from groupledger.transforms.privacy import Privacy
from groupledger.transforms.records.decode import decode_batches
from lab.truth.consumer_groups import event_of
from lab.truth.from_logs import history_facts
from lab.truth.histories import Commit, position, summaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lab.truth.histories import Entry

    Row = dict[str, Any]

EVENT_COLUMNS = (
    *("line_number", "kind", "generation", "member_id", "client_reason", "trigger", "reason", "member_ids"),
    *("broker_id", "kafka_partition"),
)


def facts_of_capture(folder: Path, server_logs: Iterable[Path] = ()) -> dict[str, GroupFacts]:
    """Returns the facts of each group of a capture, as they are known at the time of its last record."""
    capture = pq.read_table(folder)
    logs: dict[str, tuple[int, list[Entry]]] = {}
    for group_id, partition, entry in _entries(capture):
        logs.setdefault(group_id, (partition, []))[1].append(entry)
    as_of_ms = max(entry.kafka_timestamp_ms for _, log in logs.values() for entry in log)  # type: ignore[union-attr]
    events: dict[str, list[CoordinatorEvent]] = {}
    lines = []
    for row in log_rows(server_logs):
        if row["group_id"] is not None:
            events.setdefault(row["group_id"], []).append(event_of_row(row))
        elif row["kind"] in (LOADED, *GIVEN_UP):
            lines.append(line_of_row(row))
    found = {}
    for group_id, (partition, log) in logs.items():
        log.sort(key=position)
        rows = fold(group_id, partition, None, summaries([Coverage(0, Completeness.COMPLETE), *log])).rows
        facts = GroupFacts(group_id, as_of_ms, [], events.get(group_id, []), **history_facts(partition, log, rows))
        facts.groups = rows["groups"]
        facts.coordinators = coordinators(lines)
        found[group_id] = facts
    records = capture.select(["partition", "timestamp", "offset"]).rename_columns(RECORD_COLUMNS)
    faults = counted(faults_of([*moves(lines), *silences(seconds(records))]), _departures(found.values()))
    for facts in found.values():
        facts.faults = faults
    return found


def _departures(groups: Iterable[GroupFacts]) -> pa.Table:
    """Returns the unexplained departures in the history, as `counted` takes them."""
    gone = []
    for facts in groups:
        of_group, stated = {"group_id": facts.group_id, "kafka_partition": partition_of(facts)}, stated_leaves(facts)
        left = [row["left_at"] for row in facts.members if is_unexplained(row, 0, LATEST_MS, stated)]
        gone += [of_group | {"left_ms": milliseconds(at_us)} for at_us in left]
    return pa.Table.from_pylist(gone, DEPARTURES.append(pa.field("kafka_partition", pa.int32())))


def line_of_row(row: Row) -> PartitionLine:
    names = ("kind", "kafka_partition", "broker_id", "source_file", "line_number")
    loading = (row["details"] or {}).get("loading")
    return PartitionLine(at_ms=row["logged_at"] // 1_000, loading=loading, **{name: row[name] for name in names})


def log_rows(server_logs: Iterable[Path]) -> list[Row]:
    """Returns the rows of `coordinator_events` that server logs give, in the order of their times."""
    found = []
    for path in server_logs:
        for entry in entries(enumerate(path.read_text(errors="replace").splitlines(), 1)):
            row = parse_entry(entry, "UTC", Privacy())
            if isinstance(row, dict):
                found.append({"source_file": path.name, **row})
    return sorted(found, key=lambda row: (row["logged_at"], row["source_file"], row["line_number"]))


def event_of_row(row: Row) -> CoordinatorEvent:
    of_event = {name: row[name] for name in EVENT_COLUMNS if name in CoordinatorEvent.__slots__}
    return CoordinatorEvent(source_file=row["source_file"], logged_at_ms=row["logged_at"] // 1_000, **of_event)


def _entries(capture: pa.Table) -> Iterator[tuple[str, int, Entry]]:
    for decoded in decode_batches(capture.to_batches()):
        times_us = decoded.column("kafka_timestamp").cast(pa.int64()).to_pylist()
        for row, time_us in zip(decoded.to_pylist(), times_us, strict=True):
            if row["group_id"] is not None and row["decode_error"] is None:
                yield row["group_id"], row["kafka_partition"], _entry(row, time_us // 1_000)


def _entry(row: Row, at_ms: int) -> Entry:
    if row["record_type"] == "offset_commit":
        commit = row["offset_commit"]
        return Commit(row["kafka_offset"], at_ms, commit["topic"], commit["partition"], commit["offset"])
    place, fields = (row["kafka_offset"], at_ms), json.loads(row["record_json"])
    return event_of(place, row["record_type"], fields, {}, is_tombstone=row["is_tombstone"])  # type: ignore[return-value]

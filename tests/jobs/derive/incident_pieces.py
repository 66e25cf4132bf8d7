"""Takes a simulated log piece by piece, and judges the incidents after each piece."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from bench.lag_cost import table_rows
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.jobs.derive.incidents import update_incidents
from groupledger.jobs.derive.pipeline import derive
from groupledger.jobs.ingest.coverage import write_coverage
from groupledger.jobs.ingest.samples import batch_of
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.warehouse.conform import conform
from groupledger.jobs.warehouse.delta_log import dataset
from groupledger.jobs.warehouse.source import CAPTURE, LedgerSource, TopicIdentity, write_source
from groupledger.schemas.instants import instant_of_ms, ms_of
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.group_states import GROUP_STATES
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.coverage.rules.stretches import Reading
from groupledger.transforms.incidents import incidents as facts
from lab.warehouses.ledgers import open_test_ledger
from tests.jobs.simulated_log import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from random import Random

    from pyspark.sql import DataFrame, SparkSession

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table

CLUSTER = "test"
STATE = f"_groupledger/{CLUSTER}"
NOTE = f"{STATE}/judged_groups.json"
KEPT_NOTES = (NOTE, *(f"{STATE}/{name}.json" for name in ("coordinator_faults", "rebalance_stretches")))
MINUTE_MS, MINUTES = 60_000, 60
STUCK, STUCK_FROM = "mix-0000", 40  # from that minute on this group rebalances and commits nothing


def samples(records: pa.Table, random: Random) -> dict[Table, pa.Table]:
    """Returns samples of each minute: the ends of the topics that are committed, some with records that wait, and the
    states of the groups, some of which rebalance for long."""
    lines: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in records.filter(pc.field("record_type") == "offset_commit").to_pylist():
        commit = row["offset_commit"]
        if commit is not None and (commit["offset"] or -1) >= 0:
            place = (commit["topic"], commit["partition"])
            lines.setdefault(place, []).append((ms_of(row["kafka_timestamp"]), commit["offset"]))
    at_ms = BEGAN_AT_MS + np.arange(1, MINUTES + 1) * MINUTE_MS - 5_000
    ends: list[tuple[int, str, int, int]] = []
    for (topic, partition), line in sorted(lines.items()):
        waiting, more = random.choice([0, 0, 1, 50, 1_000]), random.choice([0, 0, 3, 20])
        for number, now_ms in enumerate(at_ms):
            done = max((offset for each_ms, offset in line if each_ms <= now_ms), default=0)
            ends.append((int(now_ms), topic, partition, done + waiting + more * number))
    states: list[tuple[int, str, str]] = []
    for group in sorted({*records["group_id"].to_pylist()} - {None}):
        begin = random.randrange(MINUTES)
        busy = range(begin, begin + random.choice([0, 5, 14, 25]))
        if group == STUCK:
            busy = range(STUCK_FROM, MINUTES)
        states += [
            (int(now_ms), group, "PreparingRebalance" if n in busy else "Stable") for n, now_ms in enumerate(at_ms)
        ]
    return {WATERMARKS: _ends(sorted(ends)), GROUP_STATES: _states(sorted(states))}


def _ends(rows: list[tuple[int, str, int, int]]) -> pa.Table:
    at_ms, topics, partitions, ends = zip(*rows, strict=True)
    columns = {"topic": [*topics], "partition": np.array(partitions), "log_start_offset": np.zeros(len(rows), np.int64)}
    columns |= dict.fromkeys(("high_watermark", "last_stable_offset"), np.array(ends))
    return table_rows(WATERMARKS, CLUSTER, {**_sampled(at_ms), **columns})


def _states(rows: list[tuple[int, str, str]]) -> pa.Table:
    at_ms, groups, states = zip(*rows, strict=True)
    return table_rows(GROUP_STATES, CLUSTER, {**_sampled(at_ms), "group_id": [*groups], "state": [*states]})


def _sampled(at_ms: tuple[int, ...]) -> dict[str, Any]:
    return {"sampled_at": np.array(at_ms) * 1_000, "sample_date": np.array(at_ms) // DAY_MS}


@dataclass(frozen=True)
class Pieces:
    """A log of records and samples that comes piece by piece. Samples come `late_ms` after the records of their time,
    or earlier if that is negative."""

    source: LedgerSource
    records: pa.Table
    sampled: Mapping[Table, pa.Table]
    late_ms: int = 0

    def take(self, ledger: Ledger, begin: int, end: int) -> None:
        """Appends everything that comes between two minutes, and derives what follows from it. Nothing but time goes
        on after the last record."""
        begin_ms, end_ms = BEGAN_AT_MS + begin * MINUTE_MS - (begin == 0), BEGAN_AT_MS + end * MINUTE_MS
        write_source(ledger.storage, ledger.cluster, self.source)
        ledger.create(COORDINATOR_RECORDS, COVERAGE, *self.sampled)
        records = _between(self.records, "kafka_timestamp", begin_ms, end_ms)
        if records.num_rows:
            ledger.commits.append(COORDINATOR_RECORDS, records)
        known = ledger.arrow(COORDINATOR_RECORDS, columns=["kafka_partition", "kafka_offset"])
        ends = known.group_by("kafka_partition").aggregate([("kafka_offset", "max")]).to_pylist()
        read_to = {row["kafka_partition"]: row["kafka_offset_max"] + 1 for row in ends}
        write_coverage(ledger, self.source, dict.fromkeys(self.source.readings, 0) | read_to, end_ms)
        for table, rows in self.sampled.items():
            found = _between(rows, "sampled_at", begin_ms - (begin > 0) * self.late_ms, end_ms - self.late_ms)
            if found.num_rows:
                last_ms = ms_of(pc.max(found["sampled_at"]).as_py())
                ledger.commits.append(table, found, batch_of(ledger, table, last_ms))
        derive(ledger, threading.Event())


def pieces_of(rows: DataFrame, random: Random, late_ms: int = 0) -> Pieces:
    """Returns the pieces of a simulated log, with samples as in `Pieces`."""
    rows = rows.withColumn("cluster", F.lit(CLUSTER)).withColumn("ingest_date", F.to_date(F.lit("2026-01-05")))
    records = conform(rows, COORDINATOR_RECORDS).toArrow()
    is_late = pc.field("kafka_timestamp") > instant_of_ms(BEGAN_AT_MS + STUCK_FROM * MINUTE_MS)
    is_commit = pc.field("record_type") == "offset_commit"
    records = records.filter(~((pc.field("group_id") == STUCK) & is_commit & is_late))
    born = Reading(from_offset=0, complete_from=0, complete_from_ms=BEGAN_AT_MS)
    identity = TopicIdentity("c", "t", PARTITIONS)
    source = LedgerSource(CAPTURE, identity, {partition: [born] for partition in range(PARTITIONS)})
    return Pieces(source, records, samples(records, random), late_ms)


def _between(rows: pa.Table, name: str, begin_ms: int, end_ms: int) -> pa.Table:
    return rows.filter((pc.field(name) > instant_of_ms(begin_ms)) & (pc.field(name) <= instant_of_ms(end_ms)))


def content(warehouse: Path) -> list[str]:
    """Returns all incidents, repeated ones too."""
    rows = dataset(str(warehouse), INCIDENTS).to_table().to_pylist()
    return sorted(repr(sorted(row.items())) for row in rows)


def judged_at_once(spark: SparkSession, warehouse: Path, folder: Path) -> list[str]:
    """Returns the incidents as a pass finds them that knows of no other one, in a copy of the warehouse, with all steps
    of commits."""
    copied = folder / "copy"
    shutil.copytree(warehouse, copied)
    for name in KEPT_NOTES:
        (copied / name).unlink(missing_ok=True)
    with (
        open_test_ledger(spark, copied, CLUSTER) as ledger,
        patch.object(facts, "needed_steps", lambda steps, *_others: steps),
    ):
        update_incidents(ledger)
    found = content(copied)
    shutil.rmtree(copied)
    return found

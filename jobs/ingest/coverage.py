"""Updates the table `coverage` after an ingest. An update can be repeated: if a run was killed before its update, the
next run makes the update."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from groupledger.jobs.warehouse.commits import as_new
from groupledger.jobs.warehouse.upsert import of_rows
from groupledger.schemas.instants import instant_if_known, ms_of
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.transforms.coverage.rules.stretches import Stretch, regained, stretch_of, stretches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.source import LedgerSource
    from groupledger.transforms.coverage.rules.stretches import Reading


def write_coverage(
    ledger: Ledger, source: LedgerSource, positions: Mapping[int, int], known_until_ms: int | None
) -> bool:
    """Writes the stretches up to `positions`, the next offsets to read. The last stretch of a partition is known until
    `known_until_ms`, if that is not None. Returns whether each partition is known until some instant. A stretch in the
    table may grow, but never shrinks."""
    found = {
        partition: stretches(readings, positions.get(partition, readings[-1].from_offset), known_until_ms)
        for partition, readings in sorted(source.readings.items())
    }
    rows = [
        (
            ledger.cluster,
            partition,
            stretch.from_offset,
            stretch.to_offset,
            instant_if_known(stretch.from_time_ms),
            instant_if_known(stretch.to_time_ms),
            stretch.completeness,
            stretch.proof,
            stretch.is_state_lost,
        )
        for partition, of_partition in found.items()
        for stretch in of_partition
    ]
    is_known = all(each[-1].to_time_ms is not None for each in found.values() if each)
    if not rows:
        return is_known
    ledger.commits.merge(
        COVERAGE,
        of_rows(rows, COVERAGE),
        f"old.cluster = '{ledger.cluster}'",
        updates={name: f"greatest(old.{name}, new.{name})" for name in ("to_offset", "to_time")}
        | as_new(["completeness", "proof", "is_state_lost"]),
        # In delta-rs OR binds closer than the operands of FROM.
        update_condition="new.to_offset > old.to_offset OR (new.to_time > old.to_time) IS TRUE OR old.to_time IS NULL"
        " OR old.completeness <> new.completeness OR (old.proof IS DISTINCT FROM new.proof)"
        " OR (old.is_state_lost IS DISTINCT FROM new.is_state_lost)",
    )
    return is_known


def regained_source(
    ledger: Ledger, source: LedgerSource, positions: Mapping[int, int], ends: Mapping[int, int], now_ms: int
) -> LedgerSource:
    """Returns the source with a reading for each partition in `positions`, which are the next offsets to read. (A
    reading notes how completely a part of the log was read.) If the source has lost the reading of a partition, it is
    rebuilt from the rows of `coverage`. `ends` are the ends of the partitions' logs."""
    lost = {partition: position for partition, position in positions.items() if partition not in source.readings}
    if not lost:
        return source
    found: dict[int, list[Stretch]] = {partition: [] for partition in lost}
    names = [name for name in COVERAGE.schema.names if name != "cluster"]
    is_lost = pc.field("kafka_partition").isin([*lost])
    for row in ledger.arrow(COVERAGE, is_lost, names).sort_by("from_offset").to_pylist():
        found[row["kafka_partition"]].append(stretch_of(row))
    readings = {
        partition: regained(found[partition], position, (ends.get(partition, position), now_ms))
        for partition, position in lost.items()
    }
    return replace(source, readings={**source.readings, **readings})


def late_partitions(
    ledger: Ledger, readings: Mapping[int, Sequence[Reading]], now_ms: int, retention_ms: int
) -> set[int]:
    """Returns the partitions that were not read for `retention_ms` or longer, so that tombstones may have been written
    and removed since.

    Such a tombstone was written after the last instant in `coverage`, and removed before the present reading began.
    """
    since = {partition: of_partition[-1].began_ms for partition, of_partition in readings.items()}
    known = ledger.arrow(COVERAGE, pc.field("to_time").is_valid(), ["kafka_partition", "to_time"])
    for row in known.to_pylist():
        partition = row["kafka_partition"]
        if partition in since:
            since[partition] = max(since[partition], ms_of(row["to_time"]))
    return {partition for partition, since_ms in since.items() if now_ms - since_ms >= retention_ms}

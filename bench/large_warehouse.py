"""Makes a warehouse of many groups and a year of history, for bench.asking: by appending rows with delta-rs.

Each group has a member that owns all partitions of its topic. It rebalances every week, and every fourth week another
member takes over. For a tenth of the groups lag was sampled once on every day of the year, and for all groups in every
hour of the last day. A tenth of the partitions is committed every day. So tables that are partitioned by date have a
file for each day, as after `maintain`, and those of the history have a file for each month, with the rows of all
groups.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from groupledger.schemas.definitions import date_column_of, schema_of

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "east"
NOW = datetime(2026, 1, 1, 13, 0, tzinfo=timezone.utc)
DAY, WEEK = timedelta(days=1), timedelta(weeks=1)
WEEKS, DAYS, HOURS = 52, 364, 24
DAYS_AT_ONCE = 28
MONTH = 4  # weeks
# The group that bench.asking asks about, g-7, is of the tenth that commits and is sampled.
GROUP_ASKED = 7
SINCE = NOW - WEEKS * WEEK
KAFKA_PARTITIONS = 50
# Between two weeks of a partition of the log lie so many offsets.
WEEK_OFFSETS = 1_000_000
CLOSED = ("generations", "members", "assignments")


def append(warehouse: Path, table: str, rows: int, **columns: Any) -> None:
    """Appends rows; a column is an array, or a value that all of them have."""
    schema = schema_of(table)
    found = []
    for field in schema:
        value = {"cluster": CLUSTER, **columns}.get(field.name)
        if isinstance(value, np.ndarray):
            found.append(pa.array(value).cast(field.type))
        elif isinstance(value, pa.Array):
            found.append(value.cast(field.type))
        else:
            found.append(pa.array([value], field.type).take(pa.array(np.zeros(rows, np.int64))))
    date = date_column_of(table)
    by = [date] if date else [name for name in ("cluster", "is_open") if table in CLOSED]
    write_deltalake(str(warehouse / table), pa.table(found, schema), mode="append", partition_by=by or None)


def names(prefix: str, numbers: np.ndarray, suffix: str = "") -> pa.Array:
    return pa.array(np.char.add(np.char.add(prefix, numbers.astype(str)), suffix))


def make_large(warehouse: Path, groups: int, partitions: int) -> None:
    """Writes the tables. The newest round of lag is at NOW."""
    numbers = np.arange(groups)
    append(
        warehouse,
        "coverage",
        KAFKA_PARTITIONS,
        kafka_partition=np.arange(KAFKA_PARTITIONS),
        completeness="complete",
        from_offset=0,
        to_offset=1 << 40,
        from_time=SINCE,
        to_time=NOW,
    )
    append(
        warehouse,
        "groups",
        groups,
        group_id=names("g-", numbers),
        kafka_partition=numbers % KAFKA_PARTITIONS,
        group_type="classic",
        is_alive=True,
        is_simple=False,
        incarnation=1,
        member_count=1,
        first_seen_at=SINCE,
        last_seen_at=NOW,
        last_commit_at=NOW,
    )
    for week in range(WEEKS):
        _generation(warehouse, numbers, partitions, week)
        if week % MONTH == 0:
            _tenure(warehouse, numbers, partitions, week)
    every = np.repeat(numbers, partitions), np.tile(np.arange(partitions), groups)
    chosen = numbers[GROUP_ASKED::10]
    tenth = np.repeat(chosen, partitions), np.tile(np.arange(partitions), len(chosen))
    for first in range(1, DAYS + 1, DAYS_AT_ONCE):
        days = range(first, min(first + DAYS_AT_ONCE, DAYS + 1))
        _rounds(warehouse, *tenth, [NOW - day * DAY for day in days])
        _commits(warehouse, *tenth, days)
    for hour in range(HOURS):
        _rounds(warehouse, *every, [NOW - hour * timedelta(hours=1)])
    _incidents(warehouse, numbers)


def _generation(warehouse: Path, numbers: np.ndarray, partitions: int, week: int) -> None:
    is_last = week == WEEKS - 1
    at, offset = SINCE + week * WEEK, (week + 1) * WEEK_OFFSETS + numbers
    of_group = {"group_id": names("g-", numbers), "incarnation": 1}
    append(
        warehouse,
        "generations",
        len(numbers),
        **of_group,
        generation=week + 1,
        revision=0,
        kafka_offset=offset,
        to_offset=None if is_last else offset + WEEK_OFFSETS,
        started_at=at,
        ended_at=None if is_last else at + WEEK,
        protocol="range",
        member_count=1,
        owned_count=partitions,
        is_ownership_known=True,
        is_current=is_last,
        is_open=int(is_last),
    )
    if week:
        append(
            warehouse,
            "rebalances",
            len(numbers),
            **of_group,
            from_generation=week,
            to_generation=week + 1,
            kafka_offset=offset,
            happened_at=at,
            inferred_trigger="joined",
            inferred_trigger_confidence=0.9,
            changes=[],
            partitions_moved=partitions if week % MONTH == 0 else 0,
            generation_gap=0,
            pause_upper_ms=3_000,
        )


def _tenure(warehouse: Path, numbers: np.ndarray, partitions: int, week: int) -> None:
    is_last = week + MONTH >= WEEKS
    begin, end = SINCE + week * WEEK, None if is_last else SINCE + (week + MONTH) * WEEK
    offset = (week + 1) * WEEK_OFFSETS + numbers
    to_offset = None if is_last else offset + MONTH * WEEK_OFFSETS
    append(
        warehouse,
        "members",
        len(numbers),
        group_id=names("g-", numbers),
        incarnation=1,
        member_id=names("g-", numbers, f"-{week}"),
        client_id="app",
        client_host="/10.0.0.1",
        from_offset=offset,
        to_offset=to_offset,
        joined_at=begin,
        left_at=end,
        is_open=int(is_last),
    )
    units = np.repeat(numbers, partitions)
    append(
        warehouse,
        "assignments",
        len(units),
        group_id=names("g-", units),
        incarnation=1,
        topic=names("orders-", units),
        partition=np.tile(np.arange(partitions), len(numbers)),
        member_id=names("g-", units, f"-{week}"),
        other_member_ids=[],
        from_offset=np.repeat(offset, partitions),
        to_offset=None if to_offset is None else np.repeat(to_offset, partitions),
        from_generation=week + 1,
        to_generation=None if is_last else week + MONTH,
        valid_from=begin,
        valid_to=end,
        is_start_known=True,
        is_end_known=None if is_last else True,
        is_open=int(is_last),
    )


def _rounds(warehouse: Path, units: np.ndarray, partitions: np.ndarray, instants: list[datetime]) -> None:
    at = repeated(instants, len(units))
    units, partitions = np.tile(units, len(instants)), np.tile(partitions, len(instants))
    append(
        warehouse,
        "lag",
        len(units),
        sampled_at=at,
        sample_date=at.cast(pa.date32()),
        group_id=names("g-", units),
        topic=names("orders-", units),
        partition=partitions,
        committed_offset=5,
        high_watermark=12,
        raw_lag=7,
        lag=7,
        status="ok",
        burrow_status="OK",
        flags=[],
    )


def repeated(instants: list[datetime], times: int) -> pa.Array:
    places = np.repeat(np.arange(len(instants)), times)
    return pa.array(instants, pa.timestamp("us", "UTC")).take(pa.array(places))


def _commits(warehouse: Path, units: np.ndarray, partitions: np.ndarray, days: range) -> None:
    at, day = repeated([NOW - day * DAY for day in days], len(units)), np.repeat(np.array(days), len(units))
    units, partitions = np.tile(units, len(days)), np.tile(partitions, len(days))
    # In a partition of the log, the commits of a day of each fiftieth group follow one another.
    of_day = units // KAFKA_PARTITIONS * (partitions.max() + 1) + partitions
    commit_type = schema_of("coordinator_records").field("offset_commit").type
    fields = {"topic": names("orders-", units), "partition": pa.array(partitions), "offset": pa.array(partitions + 5)}
    commit = pa.StructArray.from_arrays(
        [
            fields[field.name].cast(field.type) if field.name in fields else pa.nulls(len(units), field.type)
            for field in commit_type
        ],
        fields=list(commit_type),
    )
    append(
        warehouse,
        "coordinator_records",
        len(units),
        kafka_partition=units % KAFKA_PARTITIONS,
        kafka_offset=((DAYS - day) // 7 + 1) * WEEK_OFFSETS + 100_000 + (DAYS - day) % 7 * 50_000 + of_day,
        kafka_timestamp=at,
        ingest_date=at.cast(pa.date32()),
        record_type="offset_commit",
        value_version=3,
        is_tombstone=False,
        group_id=names("g-", units),
        offset_commit=commit,
    )


def _incidents(warehouse: Path, numbers: np.ndarray) -> None:
    chosen = np.tile(numbers[::20], 12)
    at = np.array([np.datetime64((NOW - each * DAY).replace(tzinfo=None), "us") for each in range(len(chosen))])
    at = np.maximum(at, np.datetime64(SINCE.replace(tzinfo=None), "us"))
    instants = pa.array(at).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    append(
        warehouse,
        "incidents",
        len(chosen),
        group_id=names("g-", chosen),
        incident_id=names("i-", np.arange(len(chosen))),
        episode_id=names("e-", np.arange(len(chosen))),
        kind="session_expired",
        severity="warning",
        evidence="inferred",
        confidence=0.9,
        is_ambiguous=False,
        is_open=False,
        occurrences=1,
        first_seen_at=instants,
        last_seen_at=instants,
        explanation="It fell silent.",
        probable_root="session_expired",
    )

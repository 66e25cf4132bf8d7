"""Stores the steps found among the commits in the table `commit_steps`, so that they are found only once. A step is a
pair of consecutive commits, and the second one goes back or comes late (`transforms.incidents.commit_steps`).

When the table lacks an hour of commits or more, one Delta commit writes the steps between two known commits, and
replaces the last record of each partition. Each run reads later commits again. After the Delta commit, a small file
notes how far the steps reach (`_groupledger/<cluster>/commit_steps.json`): by offset, by the version of
`coordinator_records`, by the earliest ingest date that new records can have, and by time. If the file is older than the
table, because a pass was killed, some records are read twice. The file is not used if it is newer than the table,
because the table was restored, or if it was written with other settings. Then all commits are read again, as after a
rebuild of the history (`drop_commit_steps`), and the table provides only those last records whose own rows retention
has removed.

The stored steps reach up to an instant until which everything is known: all records, and the ends of all partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.ingest.samples import batch_of, last_sampled_at_ms
from groupledger.jobs.warehouse.added_files import added_between, first_version_of, rows_in
from groupledger.jobs.warehouse.conform import conform
from groupledger.jobs.warehouse.delta_log import added_by
from groupledger.jobs.warehouse.ledger import (
    at_or_after,
    day_before,
    first_day_ms,
    ingested_since,
    known_ends,
    of_removed_records,
    records_since,
)
from groupledger.jobs.warehouse.progress import KEPT_EVERY_MS, drop_progress, note_progress, read_progress
from groupledger.jobs.warehouse.tables import every_row, is_open, of_spark
from groupledger.jobs.warehouse.task_files import write_files
from groupledger.schemas.instants import ms_of
from groupledger.schemas.tables.commit_steps import COMMIT_STEPS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.schemas.words import Completeness
from groupledger.transforms.incidents.commit_steps import (
    as_rows,
    as_steps,
    commits_of,
    lines_of,
    steps_of,
    with_earlier,
    with_ends,
    with_suspicion,
)
from groupledger.transforms.numbers import known_instant_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.jobs.warehouse.tables import Condition
    from groupledger.transforms.incidents.rules import Rules


@dataclass(frozen=True)
class StoredSteps:
    """Notes how far the stored steps reach: up to `until_ms`. `number` counts how often they were written, and
    `positions` are the next offsets by partition. `unread_version` is the first version of `coordinator_records` that
    may have later records; None if it is unknown. `before_at_ms` is the time of the version before that, which shows
    whether the table is still the same."""

    number: int = 0
    gap_ms: int = 0
    gap_intervals: float = 0
    until_ms: int = 0
    positions: Mapping[int, int] = field(default_factory=dict)
    ingested_from_ms: int | None = None
    unread_version: int | None = None
    before_at_ms: int | None = None


@dataclass(frozen=True)
class CommitSteps:
    """The steps of all known commits: the stored ones that have ended, and those computed again (`new`)."""

    ledger: Ledger
    stored: StoredSteps
    new: DataFrame

    def of(self, condition: Condition, is_read: Condition = every_row) -> DataFrame:
        """Returns the steps that match a condition; those that have ended only if they match `is_read`, too."""

        def is_ended(column: Callable[[str], Any]) -> Any:
            return (column("is_open") == 0) & condition(column) & is_read(column)

        ended = _rows(self.ledger, self.stored, is_ended)
        return ended.unionByName(self.new.where(of_spark(condition)), allowMissingColumns=True)


def commit_steps_until(
    ledger: Ledger, as_of_ms: int, rules: Rules, keep: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> CommitSteps:
    """Returns the steps of all known commits, up to the instant `as_of_ms`. Writes them if the table lacks an hour or
    more. Steps that are not in the table are computed only once if `keep` persists its argument."""
    ledger.create(COMMIT_STEPS)
    stored = _stored(ledger, rules)
    until_ms = settled_ms(ledger)
    if until_ms - stored.until_ms >= KEPT_EVERY_MS:
        stored = _keep(ledger, stored, until_ms, rules)
    lines = _lines(ledger, stored, _new_records(ledger, stored, ledger.version(COORDINATOR_RECORDS)))
    steps = with_ends(steps_of(lines, rules.commit_gap_ms, as_of_ms), _new_samples(ledger, stored), as_of_ms)
    return CommitSteps(ledger, stored, keep(with_suspicion(steps.where("is_step"), rules, as_of_ms)))


def drop_commit_steps(ledger: Ledger) -> None:
    """Deletes the note on how far the stored steps reach, because the records that they come from have changed."""
    drop_progress(ledger, COMMIT_STEPS.name)


def _keep(ledger: Ledger, stored: StoredSteps, until_ms: int, rules: Rules) -> StoredSteps:
    """Replaces the stored steps by those up to the instant `until_ms`."""
    version = ledger.version(COORDINATOR_RECORDS)
    records = _new_records(ledger, stored, version, by_file=True)
    positions = {**stored.positions, **_positions_at(ledger, records, until_ms)}
    day, is_left = F.unix_date("ingest_date"), at_or_after(positions)
    placed = records.select(day.alias("day"), is_left.alias("is_left"), F.input_file_name().alias("file"))
    of_left = [F.when(F.col("is_left"), F.col(name)) for name in ("day", "file")]
    left, last, unread_in = placed.agg(F.min(of_left[0]), F.max("day"), F.collect_set(of_left[1])).collect()[0]
    since_ms = first_day_ms(left, last)
    lines = _lines(ledger, stored, records.where(~is_left))
    steps = with_ends(steps_of(lines, rules.commit_gap_ms, until_ms), _new_samples(ledger, stored), until_ms)
    steps = with_suspicion(steps, rules, until_ms)
    rows = as_rows(with_earlier(steps, lines)).withColumn("cluster", F.lit(ledger.cluster))
    files = write_files(conform(rows, COMMIT_STEPS), COMMIT_STEPS, ledger.warehouse)
    number = last_sampled_at_ms(ledger, COMMIT_STEPS) + 1
    replaced = {"cluster": ledger.cluster} | ({"is_open": "1"} if stored.until_ms else {})
    old = ledger.commits.paths(COMMIT_STEPS, replaced)
    ledger.commits.replace_files(COMMIT_STEPS, old, files, batch=batch_of(ledger, COMMIT_STEPS, number))
    ingested_from_ms = stored.ingested_from_ms if since_ms is None else since_ms
    unread = first_version_of(ledger, COORDINATOR_RECORDS, unread_in, version)
    before_at_ms = None if unread is None else _version_at_ms(ledger, unread - 1)
    found = StoredSteps(number, *_of_rules(rules), until_ms, positions, ingested_from_ms, unread, before_at_ms)
    note_progress(ledger, COMMIT_STEPS.name, found)
    return found


def _positions_at(ledger: Ledger, records: DataFrame, until_ms: int) -> dict[int, int]:
    """Returns, by partition, the offset after the last new record until an instant, as far as a complete stretch
    reaches. A record whose time is impossible does not count as later: otherwise the groups of its partition would wait
    for that time for ever."""
    later = F.when(known_instant_ms(F.unix_millis("kafka_timestamp")) > until_ms, F.col("kafka_offset"))
    first_later = F.coalesce(F.min(later), F.max("kafka_offset") + 1)
    coverage = ledger.arrow(COVERAGE, columns=["kafka_partition", "to_offset", "completeness"]).to_pylist()
    ends: dict[int, int] = {}
    for row in coverage:
        if row["completeness"] == Completeness.COMPLETE:
            ends[row["kafka_partition"]] = max(row["to_offset"], ends.get(row["kafka_partition"], 0))
    found = records.groupBy("kafka_partition").agg(first_later).collect()
    return {partition: min(offset, ends[partition]) for partition, offset in found if partition in ends}


def settled_ms(ledger: Ledger) -> int:
    """Returns the instant until which all records and samples are known, in milliseconds since the epoch; 0 or less if
    there is no such instant."""
    sampled_ms = last_sampled_at_ms(ledger, WATERMARKS)
    return min([*known_ends(ledger).values(), *([sampled_ms] if sampled_ms else [])], default=0)


def _new_records(ledger: Ledger, stored: StoredSteps, version: int, *, by_file: bool = False) -> DataFrame:
    """Returns the records up to a version that the stored steps do not include. If the log shows which files were added
    since, only these are read. With `by_file` the source file of each row can be asked for (`input_file_name`)."""
    files = None
    if stored.unread_version is not None and _version_at_ms(ledger, stored.unread_version - 1) == stored.before_at_ms:
        files = added_between(ledger, COORDINATOR_RECORDS, stored.unread_version, version)
    if files is not None:
        rows = rows_in(ledger, COORDINATOR_RECORDS, files)
    elif by_file:
        is_new = of_spark(ingested_since(stored.ingested_from_ms))
        rows = ledger.rows(COORDINATOR_RECORDS, version).where(is_new)
    else:
        rows = records_since(ledger, stored.ingested_from_ms)
    return rows.where(at_or_after(stored.positions))


def _version_at_ms(ledger: Ledger, version: int) -> int | None:
    """Returns when a version of the records was written; None if the log does not have it any more."""
    found = added_by(ledger.storage, COORDINATOR_RECORDS, version)
    return None if found is None else ms_of(found.at)


def _new_samples(ledger: Ledger, stored: StoredSteps) -> DataFrame | None:
    """Returns the samples since `until_ms`, and those of a day before: some records are young, and clocks may have been
    set back."""
    if not ledger.exists(WATERMARKS):
        return None
    since = day_before(stored.until_ms)
    return ledger.rows_within(WATERMARKS, lambda column: column("sample_date") >= since)


def _lines(ledger: Ledger, stored: StoredSteps, records: DataFrame) -> DataFrame:
    """Returns, for each partition, its former last record and the new records after it."""
    if stored.until_ms:
        last = _rows(ledger, stored, is_open)
    else:
        last = as_steps(of_removed_records(ledger, ledger.rows_within(COMMIT_STEPS, is_open)))
    return lines_of(last, commits_of(records), ledger.rows_within(COVERAGE, every_row))


def _rows(ledger: Ledger, stored: StoredSteps, condition: Condition) -> DataFrame:
    is_stored = stored.until_ms > 0
    return as_steps(ledger.rows_within(COMMIT_STEPS, condition) if is_stored else ledger.empty(COMMIT_STEPS))


def _stored(ledger: Ledger, rules: Rules) -> StoredSteps:
    found = read_progress(
        ledger, COMMIT_STEPS.name, StoredSteps, "move it out of the warehouse: all commits are then read again"
    )
    if (
        found is None
        or (found.gap_ms, found.gap_intervals) != _of_rules(rules)
        or found.number > last_sampled_at_ms(ledger, COMMIT_STEPS)
    ):
        return StoredSteps()
    return found


def _of_rules(rules: Rules) -> tuple[int, float]:
    """Returns the settings that decide which steps are kept."""
    return rules.commit_gap_ms, rules.commit_gap_intervals

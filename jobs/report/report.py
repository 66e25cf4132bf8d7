"""`groupledger report` reads the tables and writes one HTML page about a period.

The file gets its name only when it is complete. The page shows lag and incidents if their tables exist; otherwise it
says that they don't.
"""

from __future__ import annotations

import os
import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.errors import InputError, OutsideError
from groupledger.jobs.report.answers import known_until, no_group, rebalances_told, within
from groupledger.jobs.report.page import assemble
from groupledger.jobs.report.page.group_data import GroupRows, group_data
from groupledger.jobs.report.page.overview import OverviewRows, overview
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.connect_assignments import CONNECT_ASSIGNMENTS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.incidents import INCIDENTS
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.words import Completeness
from groupledger.transforms.history.group_activity import GROUP
from groupledger.transforms.report import report as selections
from groupledger.transforms.report.report import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables
    from groupledger.schemas.tables.table import Table

PERIOD = timedelta(days=7)
# The page counts rebalances by the hour in periods up to this long, and by the day in longer ones.
HOURLY_PERIOD_MAX = timedelta(days=8)

OfGroup = defaultdict[str, list["Answer"]]


def write_report(
    tables: ClusterTables,
    file: Path,
    say: Callable[[str], None],
    names: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    limits: Limits | None = None,
) -> None:
    """Raises InputError for a file that can't be one, an empty period and a group that nobody knows."""
    check_target(file)
    until = until or known_until(tables)
    since = since or begin_of_period(known_from(tables), until)
    if since >= until:
        raise InputError("The report's period is empty: give a --since that lies before --until.")
    say("reading the tables")
    selection = Selection(tables, since, until, limits or Limits(), tuple(names))
    ranked = selection.ranked()
    page = assemble(overview(selection.overview(ranked)), selection.group_data(ranked))
    write_whole(file, page)
    groups = "1 group" if len(ranked) == 1 else f"{len(ranked):,} groups"
    say(f"{groups} from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC; the page is {file}")


def begin_of_period(known: datetime | None, until: datetime) -> datetime:
    """Returns where the page begins by itself: with what is known, of which the first read of a topic gives no time."""
    begin = until - PERIOD
    return known if known is not None and begin < known < until else begin


def known_from(tables: ClusterTables) -> datetime | None:
    """Returns the first instant that the ledger saw as it was written."""
    (first,) = collect(
        tables.rows(COVERAGE).where(F.col("completeness") == F.lit(Completeness.COMPLETE)).agg(F.min("from_time"))
    )
    return next(iter(first.values()), None)


def check_target(file: Path) -> None:
    if file.is_dir():
        raise InputError(f"{file} is a directory: give --out the name of a file in it, such as {file / 'report.html'}.")
    if not file.absolute().parent.is_dir():
        raise InputError(f"There is no directory {file.absolute().parent} to write {file.name} into: make it first.")


def write_whole(file: Path, text: str) -> None:
    """Raises OutsideError; what was there before stays then."""
    temporary = file.with_name(f".report-{uuid.uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as target:
            target.write(text)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutsideError(
            f"{file} could not be written ({error.strerror}): check the disk and your rights."
        ) from error


@dataclass(frozen=True)
class Selection:
    """Selects the cluster's rows of [since, until); if `names` has any, only those of these groups."""

    tables: ClusterTables
    since: datetime
    until: datetime
    limits: Limits
    names: tuple[str, ...]

    def rows(self, table: Table) -> DataFrame:
        return self.of_names(self.tables.rows(table))

    def of_names(self, rows: DataFrame) -> DataFrame:
        return rows.where(F.col("group_id").isin(*self.names)) if self.names else rows

    def rows_if_any(self, table: Table) -> DataFrame:
        return self.of_names(self.tables.rows_if_any(table))

    def groups(self) -> DataFrame:
        return self.rows(GROUPS).where(F.col("first_seen_at") < F.lit(self.until))

    def rebalances(self) -> DataFrame:
        return within(self.rows(REBALANCES), "happened_at", self.since, self.until)

    def incidents(self) -> DataFrame:
        found = self.rows_if_any(INCIDENTS)
        return found.where((F.col("first_seen_at") < F.lit(self.until)) & (F.col("last_seen_at") >= F.lit(self.since)))

    def lag(self) -> DataFrame:
        days = F.col("sample_date").between(F.lit(self.since.date()), F.lit(self.until.date()))
        return within(self.rows_if_any(LAG).where(days), "sampled_at", self.since, self.until)

    @property
    def window(self) -> str:
        return "hour" if self.until - self.since <= HOURLY_PERIOD_MAX else "day"

    def stats(self) -> DataFrame:
        return selections.stats_of(self.rows_if_any(REBALANCE_STATS), self.window, self.since, self.until)

    def ranked(self) -> list[Answer]:
        """Returns the groups of the page."""
        rounds = selections.lag_rounds(self.lag())
        found = collect(
            selections.ranked_groups(self.groups(), self.rebalances(), self.incidents(), rounds, self.limits)
        )
        missing = set(self.names) - {row["group_id"] for row in found}
        if missing and len(found) < self.limits.groups:
            raise no_group(self.tables.cluster, min(missing))
        return found

    def overview(self, ranked: Sequence[Answer]) -> OverviewRows:
        has_stats = self.tables.exists(REBALANCE_STATS)
        coverage = self.tables.rows(COVERAGE)
        stats = self.stats()
        return OverviewRows(
            cluster=self.tables.cluster,
            since=self.since,
            until=self.until,
            window=self.window,
            ranked=ranked,
            groups=collect(selections.group_totals(self.groups())),
            incidents=collect(selections.incident_totals(self.incidents())) if self.tables.exists(INCIDENTS) else None,
            stats=collect(self.chosen(stats, ranked)) if has_stats else None,
            windows=collect(selections.rebalances_by_window(stats).orderBy("window_start")) if has_stats else None,
            coverage=collect(selections.coverage_totals(coverage, self.since, self.until)),
            holes=collect(
                coverage.where(F.col("completeness") == F.lit(Completeness.UNKNOWN)).orderBy(
                    "kafka_partition", "from_offset"
                )
            ),
            has_lag=self.tables.exists(LAG),
        )

    def chosen(self, rows: DataFrame, ranked: Sequence[Answer]) -> DataFrame:
        keys = [(row["cluster"], row["group_id"]) for row in ranked]
        of_page = self.tables.spark.createDataFrame(keys, "cluster string, group_id string")
        return rows.join(F.broadcast(of_page), GROUP, "left_semi")

    def group_data(self, ranked: Sequence[Answer]) -> Iterator[dict[str, object]]:
        """Yields the data of each group, in the order of `ranked`."""

        def by_group(rows: DataFrame) -> OfGroup:
            found: OfGroup = defaultdict(list)
            for row in collect(self.chosen(rows, ranked)):
                found[row["group_id"]].append(row)
            return found

        def of_period(table: Table, begin: str, end: str) -> DataFrame:
            return selections.overlapping(self.rows(table), begin, end, self.since, self.until)

        limits = self.limits
        intervals = selections.all_intervals(
            of_period(ASSIGNMENTS, "valid_from", "valid_to"), of_period(CONNECT_ASSIGNMENTS, "valid_from", "valid_to")
        )
        owned = by_group(selections.newest_intervals(intervals, limits))
        members = by_group(selections.newest_members(of_period(MEMBERS, "joined_at", "left_at"), limits))
        generations = by_group(selections.newest_generations(self.rows(GENERATIONS), self.since, self.until, limits))
        told = within(self.of_names(rebalances_told(self.tables)), "happened_at", self.since, self.until)
        rebalances = by_group(selections.newest_rebalances(told, limits))
        incidents = (
            by_group(selections.newest_incidents(self.incidents(), limits)) if self.tables.exists(INCIDENTS) else None
        )
        lag = self.lag()
        rounds = selections.lag_points(selections.lag_rounds(lag), self.since, self.until, limits)
        points = by_group(rounds) if self.tables.exists(LAG) else None
        partitions = by_group(selections.worst_partitions(lag, limits)) if points is not None else None
        coverage = defaultdict(list)
        for row in collect(self.tables.rows(COVERAGE)):
            coverage[row["kafka_partition"]].append(row)
        for group in ranked:
            name = group["group_id"]
            rows = GroupRows(
                group=group,
                generations=generations[name],
                rebalances=rebalances[name],
                members=members[name],
                intervals=owned[name],
                coverage=coverage[group["kafka_partition"]],
                incidents=None if incidents is None else incidents[name],
                lag=None if points is None else points[name],
                lag_partitions=None if partitions is None else partitions[name],
            )
            yield group_data(rows, self.since, self.until)

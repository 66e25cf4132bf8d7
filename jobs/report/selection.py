"""Selects the rows of a page: those of one cluster and a period, and if wanted of some groups only."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from groupledger.jobs.ask.answers import held_otherwise, no_group, within
from groupledger.jobs.ask.cluster_rows import as_scan, wanted_schema
from groupledger.jobs.ask.told_rebalances import is_within, rebalances_told
from groupledger.jobs.ask.what_if_kept import kept_totals
from groupledger.jobs.report import queries
from groupledger.jobs.report.page.group_data import GroupRows, group_data
from groupledger.jobs.report.page.overview import OverviewRows
from groupledger.schemas.definitions import schema_of
from groupledger.schemas.words import Completeness, StatsWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows, Filter
    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.report.queries import Limits

# The page counts rebalances by the hour in periods up to this long, and by the day in longer ones.
HOURLY_PERIOD_MAX = timedelta(days=8)
# What the page has no use for, and is large.
LEFT_OUT = {"rebalances": ("partition_pauses",), "rebalance_stats": ("flapping_members", "flapping_partitions")}

OfGroup = defaultdict[str, list["Answer"]]


@dataclass(frozen=True)
class Selection:
    """Selects the cluster's rows of [since, until); if `names` has any, only those of these groups."""

    tables: ClusterRows
    since: datetime
    until: datetime
    limits: Limits
    names: tuple[str, ...]

    @cached_property
    def period(self) -> dict[str, datetime]:
        return {"since": self.since, "until": self.until}

    def scan(self, table: str, *filters: Filter, names: Sequence[str] = ()) -> pa.RecordBatchReader:
        """Returns the rows of some groups, by default of those that the page is about; none for a missing table."""
        names = names or self.names
        of_names: list[Filter] = [("group_id", "in", names)] if names else []
        columns = [name for name in schema_of(table).names if name not in ("cluster", *LEFT_OUT.get(table, ()))]
        return self.tables.scan_if_any(table, *of_names, *filters, columns=columns)

    def incidents(self, names: Sequence[str] = ()) -> pa.RecordBatchReader:
        seen: tuple[Filter, ...] = (("first_seen_at", "<", self.until), ("last_seen_at", ">=", self.since))
        return self.scan("incidents", *seen, names=names)

    def lag(self, *filters: Filter, names: Sequence[str] = ()) -> pa.RecordBatchReader:
        days: tuple[Filter, ...] = (("sample_date", ">=", self.since.date()), ("sample_date", "<=", self.until.date()))
        return self.scan("lag", *days, *within("sampled_at", self.since, self.until), *filters, names=names)

    def groups(self) -> pa.RecordBatchReader:
        return self.scan("groups", ("first_seen_at", "<", self.until))

    @property
    def window(self) -> str:
        return StatsWindow.HOUR if self.until - self.since <= HOURLY_PERIOD_MAX else StatsWindow.DAY

    def stats(self, names: Sequence[str] = ()) -> pa.RecordBatchReader:
        """Returns the statistics of the hours, or days, that lie in the period in part or whole."""
        begin = self.since.replace(minute=0, second=0, microsecond=0)
        begin = begin if self.window == StatsWindow.HOUR else begin.replace(hour=0)
        wanted = (("window", "=", self.window), *within("window_start", begin, self.until))
        return self.scan("rebalance_stats", *wanted, names=names)

    def ranked(self) -> list[Answer]:
        """Returns the groups of the page. Raises InputError if one that is asked for is not known."""
        self.tables.scan("groups")  # which says what to do where there is no history
        found = self.tables.query(
            queries.RANKED,
            {"limit": self.limits.groups},
            groups=self.groups(),
            rebalances=self.scan("rebalances", *within("happened_at", self.since, self.until)),
            incidents=self.incidents(),
            lag=self.lag(),
        )
        missing = set(self.names) - {row["group_id"] for row in found}
        if missing and len(found) < self.limits.groups:
            raise no_group(self.tables, min(missing))
        return found

    def overview(self, ranked: Sequence[Answer]) -> OverviewRows:
        tables = self.tables
        has_stats, has_incidents = tables.exists("rebalance_stats"), tables.exists("incidents")
        coverage = sorted(tables.rows("coverage"), key=itemgetter("kafka_partition", "from_offset"))
        incidents = tables.query(queries.INCIDENT_TOTALS, incidents=self.incidents())
        windows = tables.query(queries.REBALANCES_BY_WINDOW, rebalance_stats=self.stats())
        chosen = [row["group_id"] for row in ranked]
        return OverviewRows(
            cluster=tables.cluster,
            since=self.since,
            until=self.until,
            window=self.window,
            ranked=ranked,
            groups=tables.query(queries.GROUP_TOTALS, groups=self.groups()),
            incidents=incidents if has_incidents else None,
            stats=self.stats(chosen).read_all().to_pylist() if has_stats and chosen else [] if has_stats else None,
            windows=windows if has_stats else None,
            coverage=tables.query(queries.COVERAGE_TOTALS, self.period, coverage=tables.scan("coverage")),
            holes=[row for row in coverage if row["completeness"] == Completeness.UNKNOWN],
            has_lag=tables.exists("lag"),
            what_ifs=kept_totals(tables),
        )

    def group_data(self, ranked: Sequence[Answer]) -> Iterator[dict[str, object]]:
        """Yields the data of each group, in the order of `ranked`."""
        names = [row["group_id"] for row in ranked]
        if not names:
            return
        tables, limits = self.tables, self.limits

        def first(query: str, limit: int, **scans: Any) -> OfGroup:
            told = {"limit": limit, **{name: at for name, at in self.period.items() if f"${name}" in query}}
            return by_group(tables.query(query, told, **scans))

        def of(table: str) -> dict[str, pa.RecordBatchReader]:
            return {table: self.scan(table, names=names)}

        intervals = by_group(
            tables.query(
                queries.INTERVALS,
                {**self.period, "limit": limits.intervals, "partitions": limits.partitions},
                **of("assignments"),
                **of("connect_assignments"),
                held_otherwise=self._held_otherwise(names),
            )
        )
        generations = first(queries.GENERATIONS, limits.records, **of("generations"))
        members = first(queries.MEMBERS, limits.members, **of("members"))
        rebalances = self._rebalances(names)
        incidents = first(queries.INCIDENTS, limits.incidents, incidents=self.incidents(names))
        points, partitions = self._lag(names)
        coverage = defaultdict(list)
        for row in tables.rows("coverage"):
            coverage[row["kafka_partition"]].append(row)
        has_incidents, has_lag = tables.exists("incidents"), tables.exists("lag")
        for group in ranked:
            name = group["group_id"]
            rows = GroupRows(
                group=group,
                generations=generations[name],
                rebalances=rebalances[name],
                members=members[name],
                intervals=intervals[name],
                coverage=coverage[group["kafka_partition"]],
                incidents=incidents[name] if has_incidents else None,
                lag=points[name] if has_lag else None,
                lag_partitions=partitions[name] if has_lag else None,
            )
            yield group_data(rows, self.since, self.until)

    def _held_otherwise(self, names: Sequence[str]) -> pa.RecordBatchReader:
        """Returns what members share and what is reserved for one, with the columns of `assignments`."""
        rows = held_otherwise(self.tables, ("group_id", "in", names), ("valid_from", "<", self.until))
        return as_scan(rows, wanted_schema("assignments", None).append(pa.field("is_reserved", pa.bool_())))

    def _rebalances(self, names: Sequence[str]) -> OfGroup:
        """Returns the newest rebalances of each group, with what the server log says started them."""
        columns = [name for name in schema_of("rebalances").names if name not in ("cluster", *LEFT_OUT["rebalances"])]
        told = rebalances_told(self.tables, names, columns)
        of_period = by_group(row for row in told if is_within(row["happened_at"], self.since, self.until))
        found: OfGroup = defaultdict(list)
        for name, rows in of_period.items():
            newest = sorted(rows, key=itemgetter("kafka_offset"), reverse=True)[: self.limits.records]
            found[name] = [row | {"of_group": len(rows)} for row in newest]
        return found

    def _lag(self, names: Sequence[str]) -> tuple[OfGroup, OfGroup]:
        """Returns by group the worst rounds of the parts of the period, and the partitions that are furthest behind in
        the cluster's newest round."""
        part_s = max(1, int((self.until - self.since).total_seconds()) // self.limits.lag_points + 1)
        parts = {"since_s": int(self.since.timestamp()), "part_s": part_s}
        points = by_group(self.tables.query(queries.LAG_POINTS, parts, lag=self.lag(names=names)))
        (newest,) = self.tables.query("SELECT max(sampled_at) AS at FROM lag", lag=self.lag())
        if newest["at"] is None:
            return points, defaultdict(list)
        of_round = self.lag(("sampled_at", "=", newest["at"]), names=names)
        told = {"limit": self.limits.lag_partitions}
        return points, by_group(self.tables.query(queries.LAG_PARTITIONS, told, lag=of_round))


def by_group(rows: Iterable[Answer]) -> OfGroup:
    found: OfGroup = defaultdict(list)
    for row in rows:
        found[row["group_id"]].append(row)
    return found

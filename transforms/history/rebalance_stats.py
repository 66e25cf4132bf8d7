"""Computes `rebalance_stats` from `rebalances`, `members` and `assignments`: a row for each group and hour, and for
each group and day.

A window's row is always counted from all rows in the window, so the result does not depend on how many batches they
came in.

A rebalance is in a storm if, within the `storm_window_ms` up to it, the group has rebalanced at least
`storm_rebalances` times, and at least `storm_rebalances_per_member` times per member: a restart of every member costs
two rebalances each, which does not count as a storm. A group's first generation does not count, and neither do the
cooperative follow-ups of another rebalance, except those of an endless chain (`transforms.history.rules.follow_ups`).
The storm belongs to the window in which it was recognized, so later rebalances never change it.

A member flaps if at least `flapping_tenures` of its tenures, each shorter than `flapping_tenure_ms`, ended in the
window. A static member is recognized by its instance id, a dynamic one by its client id and host. The tenure of the
last member to leave a group does not count, unless the coordinator removed that member: a job that runs every five
minutes is not a problem. A partition flaps if at least `flapping_owners` intervals of ownership ended in the window.

The counting is plain Python, one call for each group: as joins and windows of Spark, it took half the time of a first
batch of history, nearly all of that for planning.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import saturated_int32
from groupledger.schemas.kinds.changes import CHANGE_KINDS, GROUP_STARTED, MEMBER_JOINED, MEMBER_LEFT
from groupledger.schemas.kinds.triggers import LEFT
from groupledger.schemas.tables.rebalance_stats import REBALANCE_STATS
from groupledger.schemas.words import StatsWindow
from groupledger.transforms.by_group import by_group, judged_batches
from groupledger.transforms.history.group_activity import GROUP, is_birth
from groupledger.transforms.history.rules.follow_ups import is_price_of_another
from groupledger.transforms.troubles import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from groupledger.transforms.troubles import Report

    Row = dict[str, Any]

LENGTHS_US = {StatsWindow.HOUR: 3_600_000_000, StatsWindow.DAY: 86_400_000_000}
# How many flapping members and partitions a row names; its counts include all.
WORST = 10
# The columns that recognize a member over several tenures.
PLACE = ("group_instance_id", "client_id", "client_host")
UNIT = ("topic", "partition")
# The columns of a rebalance that are counted.
COUNTED = (
    *("kafka_offset", "to_generation", "generation_gap", "caused_by_generation", "member_count", "partitions_moved"),
)
PAUSES = ("pause_lower_ms", "pause_upper_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRules:
    storm_rebalances: int
    storm_rebalances_per_member: float
    storm_window_ms: int
    flapping_tenures: int
    flapping_tenure_ms: int
    flapping_owners: int

    @property
    def reach_ms(self) -> int:
        """Returns for how many milliseconds a rebalance influences later ones. It may lie in the storm window of a
        later rebalance, and in that of the rebalance before the later one, which decides whether a storm begins."""
        return 2 * self.storm_window_ms


def touches(rebalances: DataFrame, members: DataFrame, assignments: DataFrame, rules: StatsRules) -> DataFrame:
    """Returns one row for each row of `rebalances`, and for each row of the other two tables that has ended. Each says
    in which span of time, from `at` to `until_us`, the row may change windows of `rebalance_stats`."""
    moments = rebalances.select(*GROUP, F.col("happened_at").alias("at"), F.lit(rules.reach_ms).alias("reach_ms"))
    for rows, ended in ((members, "left_at"), (assignments, "valid_to")):
        moments = moments.unionByName(rows.select(*GROUP, F.col(ended).alias("at"), F.lit(0).alias("reach_ms")))
    until_us = F.unix_micros("at") + F.col("reach_ms") * 1_000
    return moments.where(F.col("at").isNotNull()).select(*GROUP, "at", until_us.alias("until_us"))


def rebalance_stats(
    touched: DataFrame,
    rebalances: DataFrame,
    members: DataFrame,
    assignments: DataFrame,
    rules: StatsRules,
    report: Report = stop,
) -> DataFrame:
    """Returns a row for each group and each window that `touched` (the result of `touches`) names, unless nothing
    happened in the window.

    The other inputs have at least all rebalances in these windows and in the `StatsRules.reach_ms` before them, and all
    tenures and intervals that ended in these windows.
    """
    tenure_ms = F.unix_millis("left_at") - F.unix_millis("joined_at")
    is_short = F.col("is_start_known") & F.col("is_end_known") & (tenure_ms < F.lit(rules.flapping_tenure_ms))
    kinds = F.transform("changes", lambda change: change["kind"]).alias("kinds")
    parts = [
        _part("touches", touched, "at", "until_us"),
        _part("rebalances", rebalances, "happened_at", *COUNTED, *PAUSES, kinds, is_birth().alias("is_birth")),
        _part("tenures", members.where(is_short), "left_at", "to_offset", "leave_cause", *PLACE),
        _part("losses", assignments.where(F.col("valid_to").isNotNull()), "valid_to", *UNIT),
    ]
    groups = F.broadcast(touched.select(*GROUP).distinct())
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)

    def count(group: tuple[str, str], of_group: Iterator[Row]) -> Iterator[Row]:
        sources = {source: list(of) for source, of in groupby(of_group, itemgetter("source"))}
        return ({**dict(zip(GROUP, group, strict=True)), **row} for row in group_stats(sources, rules))

    of_groups = rows.join(groups, GROUP, "left_semi")
    return by_group(of_groups, GROUP, ["source"], count, REBALANCE_STATS.schema, _of_groups(report))


def _part(source: str, rows: DataFrame, at: str, *columns: Any) -> DataFrame:
    return rows.select(*GROUP, F.lit(source).alias("source"), F.unix_micros(at).alias("at_us"), *columns)


def stats_in_memory(
    written: Mapping[str, pa.Table], near: Mapping[str, pa.Table], rules: StatsRules, report: Report = stop
) -> pa.Table:
    """Returns the rows that `rebalance_stats` returns, computed from Arrow tables. Both mappings are by table name.

    `written` has the new or changed rows, from which the windows follow. `near` has the rows to count, as the other
    inputs of `rebalance_stats`.
    """
    found: dict[tuple[str, str], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for table, ended, reach_ms in (
        ("rebalances", "happened_at", rules.reach_ms),
        ("members", "left_at", 0),
        ("assignments", "valid_to", 0),
    ):
        for group, row in _rows_of(written[table], ended):
            touch = {"at_us": row["at_us"], "until_us": row["at_us"] + reach_ms * 1_000}
            found[group]["touches"].append(touch)
    for group, row in _rows_of(near["rebalances"], "happened_at", *COUNTED, *PAUSES, "changes"):
        kinds = [change["kind"] for change in row.pop("changes") or ()]
        found[group]["rebalances"].append({**row, "kinds": kinds, "is_birth": GROUP_STARTED.name in kinds})
    known = ("is_start_known", "is_end_known", "joined_at")
    for group, row in _rows_of(near["members"], "left_at", *known, "to_offset", "leave_cause", *PLACE):
        is_known = row["is_start_known"] and row["is_end_known"] and row["joined_at"] is not None
        if is_known and row["at_us"] // 1_000 - row["joined_at"] // 1_000 < rules.flapping_tenure_ms:
            found[group]["tenures"].append(row)
    for group, row in _rows_of(near["assignments"], "valid_to", *UNIT):
        found[group]["losses"].append(row)

    def count(group: tuple[str, str], sources: dict[str, list[Row]]) -> Iterator[Row]:
        return ({**dict(zip(GROUP, group, strict=True)), **row} for row in group_stats(sources, rules))

    schema = arrow_schema(REBALANCE_STATS.schema)
    return pa.Table.from_batches(judged_batches(found.items(), count, schema, _of_groups(report)), schema)


def _of_groups(report: Report) -> Report:
    return lambda group, error: report(group[GROUP.index("group_id")], error)


def _rows_of(rows: pa.Table, at: str, *columns: str) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yields the rows that have the time `at`, as `at_us`, with their groups; all times are microseconds."""
    rows = rows.filter(pc.is_valid(rows.column(at))).select([*GROUP, at, *columns])
    for name in (at, *columns):
        if pa.types.is_timestamp(rows.schema.field(name).type):
            index = rows.schema.get_field_index(name)
            rows = rows.set_column(index, name, rows.column(name).cast(pa.int64()))
    for row in rows.to_pylist():
        group = tuple(row.pop(name) for name in GROUP)
        row["at_us"] = row.pop(at)
        yield group, row


# One group


def group_stats(sources: dict[str, list[Row]], rules: StatsRules) -> Iterator[Row]:
    """Yields the rows of a group's windows, without `cluster` and `group_id`. `sources` has the group's rows by source:
    `touches`, `rebalances`, `tenures` and `losses`."""
    rebalances = _with_storms(sources.get("rebalances", []), rules)
    emptied = {row["kafka_offset"] for row in rebalances if row["member_count"] == 0}
    tenures = [row for row in sources.get("tenures", []) if not _is_harmless(row, emptied)]
    flapping_members = _by_window(tenures, _place)
    flapping_partitions = _by_window(sources.get("losses", []), itemgetter(*UNIT))
    in_window: dict[tuple[str, int], list[Row]] = {}
    for row in rebalances:
        for key in _windows_of(row["at_us"]):
            in_window.setdefault(key, []).append(row)
    for key in sorted(_touched_windows(sources.get("touches", []))):
        members = _worst(flapping_members.get(key), PLACE, "short_tenures", rules.flapping_tenures)
        partitions = _worst(flapping_partitions.get(key), UNIT, "owners_lost", rules.flapping_owners)
        if key in in_window or members or partitions:
            window, window_start = key
            yield {
                "window": window,
                "window_start": window_start,
                **_counts(in_window.get(key, [])),
                "flapping_member_count": len(members),
                "flapping_members": members[:WORST] or None,
                "flapping_partition_count": len(partitions),
                "flapping_partitions": partitions[:WORST] or None,
            }


def _touched_windows(touched: Iterable[Row]) -> set[tuple[str, int]]:
    hour_us = LENGTHS_US[StatsWindow.HOUR]
    hours = {(row["at_us"] // hour_us, row["until_us"] // hour_us) for row in touched}
    return {key for first, last in hours for hour in range(first, last + 1) for key in _windows_of(hour * hour_us)}


def _windows_of(at_us: int) -> list[tuple[str, int]]:
    return [(window, at_us - at_us % length_us) for window, length_us in LENGTHS_US.items()]


def _with_storms(rebalances: Sequence[Row], rules: StatsRules) -> list[Row]:
    """Returns rebalances in order, with `is_stormy` (in a storm) and `is_storm_start` (the storm began here)."""
    rows = sorted(rebalances, key=itemgetter("at_us", "kafka_offset"))
    times_ms = [row["at_us"] // 1_000 for row in rows]
    is_counted = [not row["is_birth"] and not is_price_of_another(row) for row in rows]
    first = end = 0
    was_stormy = False
    found = []
    for row, at_ms, counted in zip(rows, times_ms, is_counted, strict=True):
        while times_ms[first] <= at_ms - rules.storm_window_ms:
            first += 1
        while end < len(rows) and times_ms[end] <= at_ms:
            end += 1
        members = max((each["member_count"] or 0 for each in rows[first:end]), default=0)
        enough = max(rules.storm_rebalances, rules.storm_rebalances_per_member * members)
        is_stormy = counted and sum(is_counted[first:end]) >= enough
        found.append({**row, "is_stormy": is_stormy, "is_storm_start": is_stormy and not was_stormy})
        if counted:
            was_stormy = is_stormy
    return found


def _counts(rows: Sequence[Row]) -> Row:
    times_ms = [row["at_us"] // 1_000 for row in rows if not row["is_birth"]]
    number = len(times_ms)
    kinds = Counter(kind for row in rows for kind in row["kinds"] or ())

    def total(name: str) -> int:
        return sum(row[name] or 0 for row in rows)

    uppers_ms = [row["pause_upper_ms"] for row in rows if row["pause_upper_ms"] is not None]
    return {
        "rebalances": number,
        "births": len(rows) - number,
        "increments_without_record": saturated_int32(total("generation_gap")),
        "cooperative_follow_ups": sum(row["caused_by_generation"] is not None for row in rows),
        "mean_interval_ms": (max(times_ms) - min(times_ms)) // (number - 1) if number > 1 else None,
        "members_joined": kinds[MEMBER_JOINED.name],
        "members_left": kinds[MEMBER_LEFT.name],
        "members_replaced": sum(kinds[kind.name] for kind in CHANGE_KINDS if kind.is_replacement),
        "partitions_moved": total("partitions_moved"),
        "pause_lower_ms": total("pause_lower_ms"),
        "longest_pause_upper_ms": max(uppers_ms, default=None),
        "storms": total("is_storm_start"),
        "storm_rebalances": total("is_stormy"),
    }


def _is_harmless(tenure: Row, emptied: set[int]) -> bool:
    """Returns whether a member was the last one to leave, and was not removed by the coordinator."""
    return tenure["to_offset"] in emptied and tenure["leave_cause"] in (None, LEFT.name)


def _place(tenure: Row) -> tuple[Any, ...]:
    if tenure["group_instance_id"] is not None:
        return (tenure["group_instance_id"], None, None)
    return (None, tenure["client_id"], tenure["client_host"])


def _by_window(rows: Iterable[Row], name: Callable[[Row], tuple[Any, ...]]) -> dict[tuple[str, int], Counter[Any]]:
    """Returns how many rows of each name ended in each window."""
    found: dict[tuple[str, int], Counter[Any]] = {}
    for row in rows:
        for key in _windows_of(row["at_us"]):
            found.setdefault(key, Counter())[name(row)] += 1
    return found


def _worst(counts: Counter[Any] | None, columns: Sequence[str], number: str, threshold: int) -> list[Row]:
    """Returns the names whose count reaches the threshold, the highest count first, and in order of name where counts
    are equal."""
    found = [(name, count) for name, count in (counts or {}).items() if count >= threshold]
    found.sort(key=lambda each: (-each[1], [(part is not None, part) for part in each[0]]))
    return [{**dict(zip(columns, name, strict=True)), number: count} for name, count in found]

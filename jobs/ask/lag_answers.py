"""`groupledger lag`: the lag of groups in the newest sampling round, or in the last one at or before an instant.

The first columns are those of `kafka-consumer-groups --describe` (Kafka's ConsumerGroupCommand), in its order and with
its names; then ours. With `--since`, both statuses are computed again for all rounds since, by the settings of now, and
told where they change: so a rule can be tried out on the past before it wakes anybody.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from groupledger.jobs.ask.spark_answers import group_row
from groupledger.jobs.derive.lag import lag_of, rounds_after
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.lag import LAG
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.lag.lag import MILLISECONDS, at_ms
from groupledger.transforms.lag.rules import LagRow, LagRules, rollup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables

# Heading of the table, and column of the answer.
COLUMNS = {
    "GROUP": "group_id",
    "TOPIC": "topic",
    "PARTITION": "partition",
    "CURRENT-OFFSET": "committed_offset",
    "LOG-END-OFFSET": "high_watermark",
    "LAG": "lag",
    "CONSUMER-ID": "owner",
    "HOST": "client_host",
    "CLIENT-ID": "client_id",
    "SECONDS": "seconds",
    "STATUS": "status",
    "FLAGS": "flags",
}
ROLLUP_COLUMNS = (
    *("group_id", "topic", "group_state", "partitions", "lag_sum", "lag_max", "worst_topic", "worst_partition"),
    *("lag_seconds_max", "catch_up_seconds", "commit_age_ms", "status", "burrow_status"),
)
CHANGE_COLUMNS = (
    *("sampled_at", "topic", "partition", "lag", "status", "status_before", "burrow_status", "burrow_before"),
)


def lag_at(tables: ClusterTables, name: str | None, at: datetime | None) -> tuple[datetime, list[LagRow]]:
    """Returns the instant of the round that answers, and its rows in the order of their keys."""
    rows = tables.rows(LAG)
    if at is not None:
        rows = rows.where(F.col("sampled_at") <= F.lit(at))
    (newest,) = collect(rows.agg(F.max("sampled_at").alias("at")))
    sampled_at: datetime | None = newest["at"]
    if sampled_at is None:
        raise InputError(no_round(tables, at))
    found = tables.rows(LAG).where(F.col("sampled_at") == F.lit(sampled_at))
    if name is not None:
        group_row(tables, name)  # an unknown one is told apart from one without commits
        found = found.where(F.col("group_id") == F.lit(name))
    return sampled_at, lag_rows(found)


def no_round(tables: ClusterTables, at: datetime | None) -> str:
    (first,) = collect(tables.rows(LAG).agg(F.min("sampled_at").alias("at")))
    if at is None or first["at"] is None:
        return "No sampling round is computed yet: run `groupledger pipeline`, or `groupledger monitor`."
    return f"The first sampling round was at {iso(first['at'])}: ask for a later instant than {iso(at)}."


def lag_rows(rows: DataFrame) -> list[LagRow]:
    names = {name: MILLISECONDS[name] for name in MILLISECONDS}
    plain = [field for field in LagRow.__dataclass_fields__ if field not in names.values()]
    found = collect(rows.select(*plain, *(at_ms(name).alias(alias) for name, alias in names.items())))
    answers = [LagRow(**{**row, "flags": tuple(row["flags"] or ())}) for row in found]
    return sorted(answers, key=attrgetter("group_id", "topic", "partition", "sampled_at_ms"))


def answer(row: LagRow) -> Answer:
    """Returns the fields of a row, with instants for people."""
    found = asdict(row)
    for name, alias in MILLISECONDS.items():
        at = found.pop(alias)
        found[name] = None if at is None else datetime.fromtimestamp(at / 1_000, timezone.utc)
    return {"sampled_at": found.pop("sampled_at"), **found}


def cells(row: LagRow) -> list[object]:
    shown: dict[str, Any] = {**asdict(row), "seconds": seconds(row), "flags": ", ".join(row.flags) or None}
    return [shown[column] for column in COLUMNS.values()]


def seconds(row: LagRow) -> str | None:
    if row.lag_seconds is not None:
        return f"{row.lag_seconds:,.1f}"
    return None if row.lag_seconds_lower_bound is None else f"> {row.lag_seconds_lower_bound:,.0f}"


def rollup_answers(rows: Iterable[LagRow], *, by_topic: bool) -> list[Answer]:
    found = [each for each in rollup(rows) if (each.topic is not None) == by_topic]
    return [asdict(each) for each in sorted(found, key=lambda each: (-(each.lag_sum or 0), each.group_id))]


def status_changes(
    tables: ClusterTables, name: str, since: datetime, until: datetime | None, rules: LagRules
) -> list[Answer]:
    """Returns every change of one of the statuses, computed again by these rules; the first row of a partition counts
    as a change.

    The rules see the rounds of one window before `since`, so that they do not begin with empty windows.
    """
    group_row(tables, name)
    since_ms = round(since.timestamp() * 1_000)
    warm_up_ms = since_ms - rules.status.window_ms - 1
    rounds = rounds_after(tables, warm_up_ms)
    if until is not None:
        rounds = [each for each in rounds if each[0] < until.timestamp() * 1_000]
    if not rounds or rounds[-1][0] < since_ms:
        raise InputError(f"There is no sampling round from {iso(since)} on: ask for an earlier instant.")
    (before,) = collect(tables.rows(WATERMARKS).where(at_ms() <= warm_up_ms).agg(F.max(at_ms()).alias("at_ms")))
    found = lag_of(tables, rounds, before["at_ms"] or 0, rules, group_id=name, emit_from_ms=since_ms)
    return changes(lag_rows(found))


def changes(rows: Sequence[LagRow]) -> list[Answer]:
    """Returns the rows at which a status changes. `rows` are in the order of their keys, and of time."""
    found = []
    for _, of_partition in groupby(rows, key=attrgetter("topic", "partition")):
        before: LagRow | None = None
        for row in of_partition:
            now = (row.status, row.burrow_status)
            if before is None or now != (before.status, before.burrow_status):
                found.append(
                    answer(row)
                    | {
                        "status_before": before.status if before else None,
                        "burrow_before": before.burrow_status if before else None,
                    }
                )
            before = row
    return sorted(found, key=lambda each: (each["sampled_at"], each["topic"], each["partition"]))

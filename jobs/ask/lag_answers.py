"""`groupledger lag`: the lag of groups in the newest sampling round, or in the last one at or before an instant.

The first columns are those of `kafka-consumer-groups --describe` (Kafka's ConsumerGroupCommand), in its order and with
its names; our own columns follow. With `--since`, our status and Burrow's are computed again for all rounds since then
(`lag_changes`), by the current settings, and reported where they change. So a rule can be tried out on the past before
it raises an alarm.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from groupledger.jobs.ask.answers import group_row
from groupledger.jobs.ask.rounds import last_round, of_round
from groupledger.jobs.process.errors import InputError
from groupledger.schemas.instants import instant_if_known, ms_if_known
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.lag.rules import LagRow, rollup
from groupledger.transforms.lag.rules.row import MILLISECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.ask.table_rows import Filter
    from groupledger.jobs.process.output import Answer

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
    "COMMIT-AGE": "commit_age",
    "STATUS": "status",
    "FLAGS": "flags",
}
# Columns that a narrow terminal can leave out, in this order.
OPTIONAL = ("CONSUMER-ID", "CURRENT-OFFSET", "LOG-END-OFFSET", "COMMIT-AGE", "FLAGS", "CLIENT-ID", "SECONDS", "HOST")
ROLLUP_OPTIONAL = (
    *("burrow_status", "commit_age_ms", "catch_up_seconds", "worst_partition", "worst_topic", "lag_max", "partitions"),
    *("group_state", "lag_seconds_max", "partitions_without_lag"),
)
ROLLUP_COLUMNS = (
    *("group_id", "topic", "group_state", "partitions", "partitions_without_lag", "lag_sum", "lag_max"),
    *("worst_topic", "worst_partition", "lag_seconds_max", "catch_up_seconds", "commit_age_ms", "status"),
    "burrow_status",
)
PLAIN = {*LagRow.__dataclass_fields__} - {"flags", *MILLISECONDS.values()}
CHANGE_COLUMNS = (
    *("sampled_at", "topic", "partition", "lag", "status", "status_before", "burrow_status", "burrow_before"),
)


def lag_at(tables: ClusterRows, name: str | None, at: datetime | None) -> tuple[datetime, list[LagRow]]:
    """Returns the instant of the newest round, or of the last one at or before `at`, and its rows of one group or of
    all, in the order of their keys. Raises as `round_at` does."""
    sampled_at = round_at(tables, name, at)
    return sampled_at, rows_of_round(tables, sampled_at, None if name is None else [name])


def round_at(tables: ClusterRows, name: str | None, at: datetime | None) -> datetime:
    """Returns the instant of the newest round, or of the last one at or before `at`. Raises InputError if there is
    none, and UnknownNameError if the round has no rows of the group `name` and the group is unknown. A known group
    without rows has no commits."""
    sampled_at = last_round(tables, "lag", at)
    if sampled_at is None:
        raise InputError(no_round(tables, at))
    if name is not None and not tables.rows("lag", *of_round(sampled_at), ("group_id", "=", name), columns=("topic",)):
        group_row(tables, name)
    return sampled_at


def rows_of_round(tables: ClusterRows, sampled_at: datetime, names: Sequence[str] | None) -> list[LagRow]:
    """Returns the rows of a round, of all groups or of the groups `names`, in the order of their keys."""
    of_group: list[Filter] = [] if names is None else [("group_id", "in", names)]
    return lag_rows(tables.rows("lag", *of_round(sampled_at), *of_group))


def no_round(tables: ClusterRows, at: datetime | None) -> str:
    rounds = tables.scan("lag", columns=("sampled_at",))
    (first,) = tables.query("SELECT min(sampled_at) AS at FROM lag", lag=rounds)
    if at is None or first["at"] is None:
        return "No sampling round is computed yet: run `groupledger pipeline`, or `groupledger monitor`."
    return f"The first sampling round was at {iso(first['at'])}: ask for a later instant than {iso(at)}."


def lag_rows(rows: Iterable[Mapping[str, Any]]) -> list[LagRow]:
    """Returns rows of the table `lag` as `LagRow`s, in the order of their keys."""
    answers = [
        LagRow(
            **{name: value for name, value in row.items() if name in PLAIN},
            **_milliseconds(row),
            flags=tuple(row["flags"] or ()),
        )
        for row in rows
    ]
    return sorted(answers, key=attrgetter("group_id", "topic", "partition", "sampled_at_ms"))


def _milliseconds(row: Mapping[str, Any]) -> dict[str, Any]:
    return {field: ms_if_known(row[name]) for name, field in MILLISECONDS.items()}


def answer(row: LagRow) -> Answer:
    """Returns the fields of a row as an answer has them: with instants in place of milliseconds."""
    found = asdict(row) | {"commit_age_ms": row.commit_age_ms}
    for name, alias in MILLISECONDS.items():
        at = found.pop(alias)
        found[name] = instant_if_known(at)
    return {"sampled_at": found.pop("sampled_at"), **found}


def cells(row: LagRow) -> list[object]:
    texts = {"seconds": seconds(row), "commit_age": commit_age(row), "flags": ", ".join(row.flags) or None}
    shown: dict[str, Any] = {**asdict(row), **texts}
    return [shown[column] for column in COLUMNS.values()]


def seconds(row: LagRow) -> str | None:
    if row.lag_seconds_lower_bound is not None:
        return f"> {row.lag_seconds_lower_bound:,.0f}"
    return None if row.lag_seconds is None else f"{row.lag_seconds:,.1f}"


def commit_age(row: LagRow) -> str | None:
    """Returns the seconds since the last commit as text; None if that is not known."""
    return None if row.commit_age_ms is None else f"{row.commit_age_ms / 1_000:,.0f}"


def rollup_answers(rows: Iterable[LagRow], *, by_topic: bool) -> list[Answer]:
    found = [each for each in rollup(rows) if (each.topic is not None) == by_topic]
    return [asdict(each) for each in sorted(found, key=lambda each: (-(each.lag_sum or 0), each.group_id))]


def changes(rows: Sequence[LagRow]) -> list[Answer]:
    """Returns the rows at which our status or Burrow's changes, in the order of time, each with both statuses in the
    partition's row before. The first row of a partition counts as a change. `rows` are those of one group, in the order
    of their keys, and of time."""
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

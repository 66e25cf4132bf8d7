"""Reads rebalances with their triggers from the server log, as `transforms.logs.rebalance_triggers` does with Spark.

Both use the same rule (`transforms.logs.rules.triggers`), one group at a time. The cost of each rebalance is given in
the same columns: if the whole group stood still, `pause_lower_ms` and `pause_upper_ms` are the bounds in the table,
else those of the partitions that moved (`transforms.history.rules.pause`).
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from groupledger.schemas.instants import instant_of_us, us_of
from groupledger.schemas.kinds.changes import GROUP_STARTED
from groupledger.schemas.kinds.incidents import COORDINATOR_FAILED
from groupledger.transforms.history.rules.departures import with_unknown_triggers
from groupledger.transforms.history.rules.pause import pause_of
from groupledger.transforms.logs.rules.triggers import EVENT_COLUMNS, KINDS, triggers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from groupledger.jobs.ask.cluster_rows import ClusterRows
    from groupledger.jobs.process.output import Answer


def rebalances_with_triggers(tables: ClusterRows, names: Sequence[str]) -> list[Answer]:
    """Returns the rebalances of groups, including their creations, in the order of their logs, with `TRIGGER_COLUMNS`,
    which are null if no imported log states the trigger. Filter by time only afterwards: earlier rebalances decide
    whether a line is about a later one."""
    of_groups = ("group_id", "in", names)
    events = defaultdict(list)
    lines = tables.rows_if_any(
        "coordinator_events", of_groups, ("kind", "in", sorted(KINDS)), columns=("group_id", *EVENT_COLUMNS)
    )
    for event in lines:
        events[event["group_id"]].append(event | {"logged_at": us_of(event["logged_at"])})
    faults = defaultdict(list)
    is_fault = ("kind", "=", COORDINATOR_FAILED.name)
    columns = ("group_id", "first_seen_at", "last_seen_at")
    for fault in tables.rows_if_any("incidents", of_groups, is_fault, columns=columns):
        faults[fault["group_id"]].append(fault)
    by_group = defaultdict(list)
    for row in sorted(tables.rows("rebalances", of_groups), key=itemgetter("kafka_offset")):
        by_group[row["group_id"]].append(row)
    return [
        row
        for name, rows in by_group.items()
        for row in _with_triggers(with_unknown_triggers(rows, faults[name]), events[name])
    ]


def _with_triggers(rows: Sequence[Answer], events: Iterable[Answer]) -> list[Answer]:
    places = [row | {"happened_at": us_of(row["happened_at"])} for row in rows]
    completed = []
    for row, trigger in zip(rows, triggers(places, events), strict=True):
        at, pause = trigger["trigger_at"], pause_of(row)
        bounds = {"pause_lower_ms": pause.lower_ms, "pause_upper_ms": pause.upper_ms}
        completed.append({**row, **trigger, **bounds, "trigger_at": None if at is None else instant_of_us(at)})
    return completed


def is_birth(rebalance: Answer) -> bool:
    """Returns whether a row only records that a group was created, which does not count as a rebalance."""
    return any(change["kind"] == GROUP_STARTED.name for change in rebalance["changes"] or ())


def is_within(at: datetime, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or since <= at) and (until is None or at < until)

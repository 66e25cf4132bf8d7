"""`groupledger lag --since`: when the statuses changed, computed again by Spark from all that a group's rounds saw.

The rounds are folded by the code that computes the table `lag`, so that no other rule can be tried out than is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.ask.lag_answers import changes, lag_rows
from groupledger.jobs.ask.spark_answers import no_group
from groupledger.jobs.derive.lag import lag_of, rounds_after
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.tables import collect
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.watermarks import WATERMARKS
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.lag.lag import at_ms

if TYPE_CHECKING:
    from datetime import datetime

    from groupledger.jobs.process.output import Answer
    from groupledger.jobs.warehouse.tables import ClusterTables
    from groupledger.transforms.lag.rules import LagRules


def status_changes(
    tables: ClusterTables, name: str, since: datetime, until: datetime | None, rules: LagRules
) -> list[Answer]:
    """Returns every change of one of the statuses, computed again by these rules; the first row of a partition counts
    as a change.

    The rules see the rounds of one window before `since`, so that they do not begin with empty windows.
    """
    if not collect(tables.rows_of_group(GROUPS, name).select("group_id")):
        raise no_group(tables.cluster, name)
    since_ms = round(since.timestamp() * 1_000)
    warm_up_ms = since_ms - rules.status.window_ms - 1
    rounds = rounds_after(tables, warm_up_ms)
    if until is not None:
        rounds = [each for each in rounds if each[0] < until.timestamp() * 1_000]
    if not rounds or rounds[-1][0] < since_ms:
        raise InputError(f"There is no sampling round from {iso(since)} on: ask for an earlier instant.")
    (before,) = collect(tables.rows(WATERMARKS).where(at_ms() <= warm_up_ms).agg(F.max(at_ms()).alias("at_ms")))
    found = lag_of(tables, rounds, before["at_ms"] or 0, rules, group_id=name, emit_from_ms=since_ms)
    return changes(lag_rows(collect(found)))

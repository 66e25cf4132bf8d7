"""Keeps `troubles`: the groups on which the rules of a step have failed (`transforms.troubles`).

A pass collects the errors that its tasks report and writes them after the step's rows. A trouble is open until the step
succeeds on the group again. The table is created with the first trouble; without it a pass only checks whether the
table exists.

A failure on all groups is not a trouble of one group. A step that fails on every group is listed in
`Ledger.judged_nobody`: then a command ends with exit code 1, and a monitor publishes a metric with an alert.
"""

from __future__ import annotations

from importlib.metadata import version
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.process.troubled_groups import REMEDY, troubled_groups
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.open_groups import OPEN_GROUPS
from groupledger.schemas.tables.table import IS_OPEN
from groupledger.schemas.tables.troubles import TROUBLES
from groupledger.transforms.gathered_troubles import Gathered, reported_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.troubles import Trouble

RELEASE = version("groupledger")


def gathering(ledger: Ledger) -> Gathered:
    return Gathered(reported_in(ledger.spark.sparkContext))


def note_troubles(
    ledger: Ledger, step: str, troubles: Mapping[str, Trouble], judged: Collection[str] | None = None
) -> None:
    """Writes into `troubles` the groups on which a pass of the step has failed, and reports the new ones. Earlier
    troubles end for groups in `judged` on which the step did not fail again; None stands for all groups."""
    if not troubles and not ledger.exists(TROUBLES):
        return
    ledger.create(TROUBLES)
    before = {row["group_id"]: row for row in open_troubles(ledger, step)}
    now = instant_of_ms(now_ms())
    new = [
        {
            "cluster": ledger.cluster,
            "group_id": trouble.group_id,
            "step": step,
            "since": now,
            "ended_at": None,
            "reason": trouble.reason,
            "kafka_partition": trouble.kafka_partition,
            "kafka_offset": trouble.kafka_offset,
            "release": RELEASE,
            IS_OPEN.name: 1,
        }
        for name, trouble in troubles.items()
        if name not in before or before[name]["release"] != RELEASE
    ]
    is_over = {name for name in before if name not in troubles and (judged is None or name in judged)}
    is_over |= {row["group_id"] for row in new} & before.keys()
    ended = [before[name] | {"ended_at": now, IS_OPEN.name: 0} for name in is_over]
    upsert_arrow(ledger, TROUBLES, pa.Table.from_pylist([*new, *ended], arrow_schema(TROUBLES.schema)))
    if new:
        ledger.warn(f"{printable(troubled_groups(new))}: all others go on")


def look_for_anybody(ledger: Ledger, step: str, met: Callable[[], Iterable[str]]) -> None:
    """Reports if a step fails on all the groups that it meets, and notes the step in `Ledger.judged_nobody`. `met`
    returns these groups, and is called only if there are troubles. If only one group is troubled and the history knows
    others, nothing is reported."""
    was_said = step in ledger.judged_nobody
    ledger.judged_nobody.discard(step)
    rows = sorted(open_troubles(ledger, step), key=itemgetter("group_id"))
    troubled = {row["group_id"] for row in rows}
    if not rows or (len(troubled) == 1 and known_groups(ledger) - troubled) or {*met()} - troubled:
        return
    ledger.judged_nobody.add(step)
    if not was_said:
        ledger.warn(printable(f"{step}: no group could be judged: {troubled_groups(rows)}: {REMEDY}"))


def known_groups(ledger: Ledger) -> set[str]:
    """Returns all groups that the history has read, including those that it could not fold."""
    return groups_in(ledger, OPEN_GROUPS)


def groups_in(ledger: Ledger, table: Table, condition: pc.Expression | None = None) -> set[str]:
    return {*ledger.arrow(table, condition, ["group_id"])["group_id"].to_pylist()} if ledger.exists(table) else set()


def open_troubles(ledger: Ledger, step: str | None = None) -> list[dict[str, Any]]:
    """Returns the open rows of `troubles` for a step; for all steps if `step` is None."""
    if not ledger.exists(TROUBLES):
        return []
    is_wanted = pc.field(IS_OPEN.name) == 1
    if step is not None:
        is_wanted &= pc.field("step") == step
    rows: list[dict[str, Any]] = ledger.arrow(TROUBLES, is_wanted).to_pylist()
    return rows


def say_troubles(ledger: Ledger) -> bool:
    """Prints which groups have open troubles, and returns whether there are any."""
    rows = sorted(open_troubles(ledger), key=itemgetter("group_id", "step"))
    if rows:
        ledger.warn(f"{printable(troubled_groups(rows))}: {REMEDY}")
    return bool(rows)

"""Keeps `troubles`: the groups on which the rules of a step have failed (`transforms.troubles`).

A pass gathers what its tasks report and writes it down when it has written the step's rows. A trouble is open until the
step could judge the group again. Without any the table is not even made, and a pass only looks whether it is there.
"""

from __future__ import annotations

from importlib.metadata import version
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from groupledger.jobs.process.clock import now_ms
from groupledger.jobs.process.terminal import printable
from groupledger.jobs.process.troubled_groups import REMEDY, troubled_groups
from groupledger.jobs.warehouse.upsert import upsert_arrow
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.table import IS_OPEN
from groupledger.schemas.tables.troubles import TROUBLES
from groupledger.transforms.gathered_troubles import Gathered, reported_in

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from groupledger.jobs.warehouse.ledger import Ledger
    from groupledger.transforms.troubles import Trouble

RELEASE = version("groupledger")


def gathering(ledger: Ledger) -> Gathered:
    return Gathered(reported_in(ledger.spark.sparkContext))


def note_troubles(
    ledger: Ledger, step: str, found: Mapping[str, Trouble], judged: Collection[str] | None = None
) -> None:
    """Writes down the groups on which a pass of the step has failed, and says the new ones. Troubles end of the groups
    that it `judged` without failing; None stands for all that there are."""
    if not found and not ledger.exists(TROUBLES):
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
        for name, trouble in found.items()
        if name not in before or before[name]["release"] != RELEASE
    ]
    is_over = {name for name in before if name not in found and (judged is None or name in judged)}
    is_over |= {row["group_id"] for row in new} & before.keys()
    ended = [before[name] | {"ended_at": now, IS_OPEN.name: 0} for name in is_over]
    upsert_arrow(ledger, TROUBLES, pa.Table.from_pylist([*new, *ended], to_arrow_schema(TROUBLES.schema)))
    if new:
        ledger.say(f"{printable(troubled_groups(new))}: all others go on")


def open_troubles(ledger: Ledger, step: str | None = None) -> list[dict[str, Any]]:
    """Returns the open rows of a step, of all steps without one."""
    if not ledger.exists(TROUBLES):
        return []
    is_wanted = pc.field(IS_OPEN.name) == 1
    if step is not None:
        is_wanted &= pc.field("step") == step
    rows: list[dict[str, Any]] = ledger.arrow(TROUBLES, is_wanted).to_pylist()
    return rows


def say_troubles(ledger: Ledger) -> bool:
    """Says which groups could not be judged, and returns whether there are any."""
    rows = sorted(open_troubles(ledger), key=itemgetter("group_id", "step"))
    if rows:
        ledger.say(f"{printable(troubled_groups(rows))}: {REMEDY}")
    return bool(rows)

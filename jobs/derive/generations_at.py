"""Reads the generations by which steps are judged, without reading all earlier generations. A step is a record of a
committed offset that may be more than normal progress (`transforms.offsets.offset_events.steps_of`).

A step is judged by the generation in force at its offset, or if none was in force, by the last one before. Generations
in force are open, or have ended since a day before the steps (the day is for a broker whose clock is late); Delta's
statistics skip the files of all others. Only if a group had no generation in force, its earlier generations are looked
up by its name. A group that never had a generation is not looked up: it is simple and in its first incarnation, and
none of its records was removed, since a rebuild would have noted that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.warehouse.ledger import floors_of
from groupledger.jobs.warehouse.tables import ended_since, is_among
from groupledger.schemas.instants import instant_of_ms
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from pyspark.sql import DataFrame

    from groupledger.jobs.warehouse.ledger import Ledger

GROUP_COLUMNS = ("group_id", "kafka_partition", "is_simple", "incarnation", "first_kafka_offset")


def generations_at(ledger: Ledger, steps: DataFrame) -> DataFrame:
    """Returns at least the generations that are needed to judge `steps`, a frame that is read twice (see
    `steps_of`)."""
    of_group = (F.min("kafka_offset").alias("first_offset"), F.min(F.unix_millis("happened_at")).alias("first_ms"))
    first = steps.groupBy("group_id").agg(*of_group)
    found = first.collect()
    if not found:
        return ledger.empty(GENERATIONS)
    since_ms = max(min(row.first_ms for row in found) - DAY_MS, 0)
    near = ledger.rows_within(GENERATIONS, ended_since(GENERATIONS, since_ms))
    at_first = (F.col("kafka_offset") <= F.col("first_offset")) & (
        F.col("to_offset").isNull() | (F.col("to_offset") > F.col("first_offset"))
    )
    in_force = near.join(F.broadcast(first), "group_id").where(at_first).select("group_id").distinct().collect()
    others = {row.group_id for row in found} - {row.group_id for row in in_force}
    others -= _without_generations(ledger, others)
    if not others:
        return near

    def is_earlier(column: Callable[[str], Any]) -> Any:
        return (column("is_open") == 0) & (column("ended_at") < instant_of_ms(since_ms))

    return near.unionByName(ledger.rows_named(GENERATIONS, "group_id", others, is_earlier))


def _without_generations(ledger: Ledger, names: Collection[str]) -> set[str]:
    """Returns the groups among those of some names that never had a generation."""
    if not names:
        return set()
    floors = floors_of(ledger)
    rows = ledger.arrow(GROUPS, is_among("group_id", names), GROUP_COLUMNS).to_pylist()
    return {
        row["group_id"]
        for row in rows
        if row["is_simple"]
        and row["incarnation"] == 1
        and (row["kafka_partition"] not in floors or row["first_kafka_offset"] >= floors[row["kafka_partition"]].offset)
    }

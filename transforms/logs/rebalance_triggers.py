"""Joins `rebalances` with `coordinator_events` when they are read, to find the trigger of each rebalance that the
server log states.

Logs may be imported long after the history was written, or never. So the logged trigger is not a column of the table,
and the inferred trigger stays unchanged beside it. `transforms.logs.rules.triggers` has the rules, which are called
once for each group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructType, TimestampType

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.table import column
from groupledger.transforms.history.group_activity import GROUP
from groupledger.transforms.logs.rules.triggers import EVENT_COLUMNS, KINDS, triggers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY = [*REBALANCES.key]
TRIGGER = StructType(
    [
        column("trigger", StringType(), "The first reason in the server log; null if no imported log shows it."),
        column("trigger_at", TimestampType(), "When the coordinator began to prepare the rebalance."),
        column("trigger_reason", StringType(), "The reason in the coordinator's words."),
        column("trigger_client_reason", StringType(), "The reason in the client's words; null if it gave none."),
        column("trigger_member_ids", ArrayType(StringType()), "The members that the reason names."),
        column("trigger_is_certain", BooleanType(), "The line can be read in one way only."),
        column("trigger_source_file", StringType(), "Key of the row of coordinator_events that proves it."),
        column("trigger_line_number", LongType(), "As trigger_source_file."),
    ]
)
_ANSWERED = StructType([*(REBALANCES.schema[name] for name in KEY), *TRIGGER])


def with_triggers(rebalances: DataFrame, coordinator_events: DataFrame) -> DataFrame:
    """Returns `rebalances` with the columns of `TRIGGER`. Filter by time only afterwards: earlier rebalances decide
    whether a line is about a later one."""
    places = rebalances.select(*KEY, "kafka_offset", F.unix_micros("happened_at").alias("happened_at"))
    events = coordinator_events.where(F.col("kind").isin(*KINDS) & F.col("group_id").isNotNull())
    events = events.withColumn("logged_at", F.unix_micros("logged_at")).select(*GROUP, *EVENT_COLUMNS)
    pairs = places.groupBy(*GROUP).cogroup(events.groupBy(*GROUP))
    return rebalances.join(pairs.applyInArrow(_of_group, _ANSWERED), KEY, "left")


def _of_group(places: pa.Table, events: pa.Table) -> pa.Table:
    rows = sorted(places.to_pylist(), key=lambda row: row["kafka_offset"])
    found = [
        {**{name: row[name] for name in KEY}, **trigger}
        for row, trigger in zip(rows, triggers(rows, events.to_pylist()), strict=True)
    ]
    return pa.Table.from_pylist(found, arrow_schema(_ANSWERED))

"""Computes which old rows of the history a rebuild keeps because the records they come from are gone.

Retention removes whole dates of the oldest rows of `coordinator_records`. A rebuild distinguishes three kinds of group:

- A group that has lost no record is folded from its first record, and its rows are equal to the old ones.
- A group that has lost records is folded from the first remaining record that began a generation (`begins_at`). Old
  rows that ended at this record or before it are kept. Old rows that continued beyond it are cut there, with an unknown
  end, and the new rows that continue them have an unknown start. So the history says less than before, but nothing
  wrong.
- A group without such a record keeps all its rows and its open state, from which the next fold continues. If this
  version can't read the state, a state is made from the group's open rows. KIP-848 groups are handled in this way, too,
  since each of their records says one thing only: no later record repeats what the lost ones said about members.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.connect_assignments import CONNECT_ASSIGNMENTS
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.open_groups import OPEN_GROUPS, SET_ASIDE_BY
from groupledger.schemas.tables.rebalances import REBALANCES
from groupledger.schemas.tables.table import GROUP_TYPE, IS_CARRIED_OVER, IS_OPEN
from groupledger.schemas.words import Completeness, GroupType
from groupledger.transforms.by_group import map_rows
from groupledger.transforms.history.group_history import HELD_TABLES
from groupledger.transforms.history.rules.events import Coverage
from groupledger.transforms.history.rules.horizon import OpenRows, readable_state, state_before
from groupledger.transforms.history.rules.rows import open_group_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from groupledger.schemas.tables.table import Table
    from groupledger.transforms.history.group_history import Marks

_STATE_TABLES = (GROUPS, GENERATIONS, MEMBERS, ASSIGNMENTS, CONNECT_ASSIGNMENTS)


def horizons(groups: DataFrame, generations: DataFrame, retained_from: Mapping[int, int]) -> DataFrame:
    """Returns a row for each group that has lost records. `begins_at` is the offset of the first remaining record that
    began a generation; null if there is no such record or the group is not a classic one, and the group then keeps all
    its rows.

    `retained_from` is the oldest remaining offset by partition of `__consumer_offsets`; a partition that is not in it
    has no remaining record.
    """
    floor = _floor("kafka_partition", retained_from)
    lost = groups.where(F.col("first_kafka_offset") < F.coalesce(floor, F.lit(2**63 - 1)))
    classic = lost.where(F.col("group_type") == GroupType.CLASSIC).select("group_id")
    first = F.struct("kafka_offset", "started_at", "incarnation")
    is_left = (F.col("kafka_offset") >= floor) & (F.col("revision") == 0)
    begin = (
        generations.join(classic, "group_id", "left_semi")
        .groupBy("group_id")
        .agg(F.min(F.when(is_left, first)).alias("begin"))
    )
    before = generations.join(begin, "group_id").where(F.col("kafka_offset") < F.col("begin.kafka_offset"))
    before = before.groupBy("group_id").agg(F.max_by("generation", "kafka_offset").alias("generation_before"))
    return (
        lost.select("group_id")
        .join(begin, "group_id", "left")
        .join(before, "group_id", "left")
        .select(
            "group_id",
            F.col("begin.kafka_offset").alias("begins_at"),
            F.col("begin.started_at").alias("begun_at"),
            F.col("begin.incarnation").alias("begins_in"),
            "generation_before",
        )
    )


def _floor(partition: str, retained_from: Mapping[int, int]) -> Column:
    """Returns the oldest remaining offset of a partition, null if it has none."""
    pairs = [F.lit(number) for pair in retained_from.items() for number in pair]
    found = F.try_element_at(F.create_map(*pairs), partition) if pairs else F.lit(None)
    return found.cast("long")


def carried_over(table: Table, rows: DataFrame, horizon: DataFrame) -> DataFrame:
    """Returns those of the old rows in `rows` that the rebuild keeps, with the table's columns. Rows that continue
    beyond `begins_at` in `horizon` are cut there."""
    kept = rows.join(horizon, "group_id")
    if IS_CARRIED_OVER.name in table.schema.names:
        kept = kept.withColumn(IS_CARRIED_OVER.name, F.lit(True))
    if GROUP_TYPE.name in table.schema.names:  # older releases knew no other
        kept = kept.withColumn(GROUP_TYPE.name, F.coalesce(GROUP_TYPE.name, F.lit(GroupType.CLASSIC)))
    begins_at, is_whole = F.col("begins_at"), F.col("begins_at").isNull()
    if table is GENERATIONS:
        kept = kept.where(is_whole | (F.col("kafka_offset") < begins_at))
    elif table is REBALANCES:  # also the rebalance that led to the first remaining record
        kept = kept.where(is_whole | (F.col("kafka_offset") <= begins_at))
    elif table is MEMBERS or table in HELD_TABLES:
        kept = _cut(table, kept.where(is_whole | (F.col("from_offset") < begins_at)))
    else:
        kept = kept.where(is_whole)
    return kept.select(*table.schema.names)


def _cut(table: Table, spans: DataFrame) -> DataFrame:
    """Returns tenures, steps or intervals of ownership; those that continued beyond the first remaining record are cut
    there."""
    begins_at = F.col("begins_at")
    goes_on = begins_at.isNotNull() & (F.col("to_offset").isNull() | (F.col("to_offset") > begins_at))
    end = {
        "to_offset": begins_at,
        str(table.end_column): F.col("begun_at"),
        "to_generation": F.col("generation_before"),
        "is_end_known": F.lit(False),
        IS_OPEN.name: F.lit(0),
    }
    if table is MEMBERS:
        end |= {"leave_cause": F.lit(None), "leave_cause_confidence": F.lit(None)}
    marked = spans.withColumn("goes_on", goes_on)
    return marked.withColumns(
        {
            name: F.when(F.col("goes_on"), value).otherwise(F.col(name))
            for name, value in end.items()
            if name in table.schema.names
        }
    )


def open_states(before: Callable[[Table], DataFrame], horizon: DataFrame, marks: Marks) -> DataFrame:
    """Returns the rows of `open_groups` from which the folds of the groups in `horizon` continue. `before(table)`
    returns the rows that a table had before the rebuild."""
    parts = [_open_rows(table, before(table)) for table in _STATE_TABLES]
    open_rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    of_group = open_rows.groupBy("group_id").agg(
        *[F.collect_list(table.name).alias(table.name) for table in _STATE_TABLES]
    )
    found = before(OPEN_GROUPS).join(horizon, "group_id").join(of_group, "group_id")
    return map_rows(found, lambda groups: (_begin_again(row, marks) for row in groups), OPEN_GROUPS.schema)


def _open_rows(table: Table, rows: DataFrame) -> DataFrame:
    """Returns the open rows as structs with instants in microseconds, and nulls for other tables."""
    if IS_OPEN.name in table.schema.names:
        rows = rows.where(F.col(IS_OPEN.name) == F.lit(1))
    instants = {each.name: F.unix_micros(each.name) for each in table.schema if each.dataType == TimestampType()}
    return rows.withColumns(instants).select("group_id", F.struct(*table.schema.names).alias(table.name))


def _begin_again(row: dict[str, Any], marks: Marks) -> dict[str, Any]:
    rows = OpenRows(
        group=row[GROUPS.name][0],
        generation=next(iter(row[GENERATIONS.name]), None),
        members=row[MEMBERS.name],
        assignments=[
            *row[ASSIGNMENTS.name],
            *(
                {**each, "topic": each["connector"], "partition": each["task"]}
                for each in row[CONNECT_ASSIGNMENTS.name]
            ),
        ],
    )
    stretches = [Coverage(row["coverage_offset"], Completeness.UNKNOWN), *marks.get(row["kafka_partition"], ())]

    def stretch_at(offset: int) -> Coverage:
        return [stretch for stretch in stretches if stretch.from_offset <= offset][-1]

    group = readable_state(row["state"], rows, stretch_at(row["coverage_offset"]))
    if row["begins_at"] is None:
        state = open_group_row(group)
    else:
        state = state_before(group, row["begins_in"], row["begins_at"], stretch_at(row["begins_at"]))
    return {"cluster": row["cluster"], **state, SET_ASIDE_BY.name: None}


def taken_over(table: Table, new: DataFrame, kept: DataFrame) -> DataFrame:
    """Returns the rows of a table after the rebuild: the new rows, and those of the kept rows whose key no new row
    has."""
    if IS_CARRIED_OVER.name in table.schema.names:
        continued = kept.select(*table.key, F.col(IS_CARRIED_OVER.name).alias("continued"))
        new = new.drop(IS_CARRIED_OVER.name).join(continued, list(table.key), "left")
        new = new.withColumn(IS_CARRIED_OVER.name, F.coalesce("continued", F.lit(False)))
    stays = kept.join(new.select(*table.key), list(table.key), "left_anti")
    return new.select(*table.schema.names).unionByName(stays)

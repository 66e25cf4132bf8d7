"""Goal: a table of an older version gets what it lacks, and one that can't be brought to this version is left alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.migrate import Plan, plan
from groupledger.jobs.warehouse.tables import Tables
from groupledger.jobs.warehouse.warehouse import create_table, plan_for
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import CHANGE
from groupledger.schemas.tables.table import Table, column
from lab.warehouses.ledgers import open_test_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def table(*columns: StructField, partition_columns: tuple[str, ...] = (), comment: str = "Things.") -> Table:
    return Table(
        name="things",
        comment=comment,
        written_by="ingest",
        schema=StructType(list(columns)),
        key=("a",),
        statistics_columns=("a",),
        partition_columns=partition_columns,
    )


def plan_from(old: Table, new: Table, **changed: Any) -> Plan:
    """The plan for a table that was made from its older definition."""
    metadata = {
        "partition_columns": list(old.partition_columns),
        "configuration": old.properties,
        "description": old.comment,
    }
    return plan(old.schema.json(), SimpleNamespace(**metadata | changed), new)  # type: ignore[arg-type]


def make(spark: SparkSession, warehouse: str, which: Table) -> None:
    create_table(Tables(spark, warehouse), Commits(warehouse, ()), which)


A = column("a", IntegerType(), "The first.")
SOME = column("s", ArrayType(StructType([StructField("x", IntegerType())])), "Some.")
OLD = table(A, SOME, comment="Things.")
NOTHING = Plan(is_new_schema=False, properties={}, is_new_comment=False, refused=[], is_repartitioned=False)


def test_a_table_of_today_is_left_alone() -> None:
    """Goal: nothing is done to any of today's tables."""
    for each in (OLD, *all_tables()):
        assert not plan_from(each, each).is_needed, each.name


def test_what_is_added() -> None:
    """Goal: columns and fields in structs, arrays and maps, and changed comments and properties, each apart."""
    inner = StructType([StructField("y", StringType()), StructField("x", IntegerType())])
    deeper = column("s", ArrayType(inner), "Some.")
    wider = column("b", MapType(StringType(), StructType([A])), "It's \\ new.")
    second = column("a", IntegerType(), "The second.")
    for new in (table(A, deeper), table(wider, A, SOME), table(second, SOME)):
        assert plan_from(OLD, new) == replace(NOTHING, is_new_schema=True)
    assert plan_from(OLD, replace(OLD, comment="Other things.")) == replace(NOTHING, is_new_comment=True)
    without_mapping = {key: value for key, value in OLD.properties.items() if key != "delta.columnMapping.mode"}
    assert plan_from(OLD, OLD, configuration={}) == replace(NOTHING, properties=without_mapping)
    mapped = plan_from(OLD, OLD, configuration=OLD.properties | {"delta.columnMapping.mode": "name"})
    assert mapped.refused == ["its columns have other names in its files (delta.columnMapping.mode)"]


@pytest.mark.parametrize(
    ("old", "why"),
    [
        (table(column("a", LongType(), "The first.")), "its column `a` is bigint, not int"),
        (table(A, A.__class__("z", IntegerType())), "it has a column `z`, which is not known here"),
        (
            table(A, column("s", ArrayType(StructType([StructField("x", LongType())])), "Some.")),
            "its column `s`.`element`.`x` is bigint, not int",
        ),
    ],
)
def test_what_is_refused(old: Table, why: str) -> None:
    """Goal: a column that is of another type, or not known, is named."""
    new = OLD if "s" in old.schema.names else table(A)
    assert plan_from(old, new).refused == [why]


def without(of: Table, name: str) -> Table:
    """An older version of a table, which lacks a column."""
    return replace(
        of,
        schema=StructType([each for each in of.schema if each.name != name]),
        statistics_columns=tuple(each for each in of.statistics_columns if each != name),
    )


def older_generations() -> Table:
    """`generations` without its last column of data, and without a field of the structs in `changes`."""
    change = StructType([each for each in CHANGE if each.name != "previous_protocol"])
    fields = [
        StructField(each.name, ArrayType(change), metadata=each.metadata) if each.name == "changes" else each
        for each in GENERATIONS.schema
        if each.name != "finding"
    ]
    return replace(
        GENERATIONS,
        schema=StructType(fields),
        comment="Older.",
        statistics_columns=GENERATIONS.statistics_columns[:2],
    )


def test_an_older_warehouse(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: a reader sees nulls for the columns that an older table lacks, and changes nothing; a writer of one table
    brings all tables of the warehouse to today's definition, with their rows, in a path with quotes."""
    made, warehouse = str(tmp_path / "made"), str(tmp_path / "it's `here`")
    older = older_generations()
    make(spark, made, older)
    make(spark, made, without(MEMBERS, "rack_id"))
    make(spark, made, GROUPS)
    row = {
        "cluster": "c",
        "group_id": "g",
        "generation": 1,
        "is_open": 0,
        "changes": [{"kind": "member_left", "protocol": "range"}],
    }
    spark.createDataFrame([row], older.schema).write.format("delta").mode("append").partitionBy(
        *older.partition_columns
    ).save(Tables(spark, made).path(GENERATIONS))
    (tmp_path / "made").rename(warehouse)
    version = Tables(spark, warehouse).version(GENERATIONS)

    (before,) = Tables(spark, warehouse).rows(GENERATIONS).collect()
    assert Tables(spark, warehouse).version(GENERATIONS) == version
    make(spark, warehouse, MEMBERS)
    (after,) = Tables(spark, warehouse).rows(GENERATIONS).collect()
    for found in (before, after):
        assert (found.group_id, found.finding) == ("g", None)
        assert (found.changes[0].protocol, found.changes[0].previous_protocol) == ("range", None)
    assert before == after
    for each in (GENERATIONS, MEMBERS, GROUPS):
        assert not plan_for(Tables(spark, warehouse), each).is_needed
        there = spark.read.format("delta").load(Tables(spark, warehouse).path(each))
        assert there.schema == each.schema
    assert Tables(spark, warehouse).version(GROUPS) == 0


def test_a_table_with_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: rows that lie in other partitions than today's, and lack a column, are written again in one commit, which
    an earlier writer can't undo; a second writer changes nothing."""
    older = replace(without(MEMBERS, "rack_id"), partition_columns=("is_open",))
    make(spark, str(tmp_path), older)
    row = {"cluster": "c", "group_id": "g", "member_id": "m", "is_open": 1, "session_timeout_ms": 7}
    path = Tables(spark, str(tmp_path)).path(MEMBERS)
    frame = spark.createDataFrame([row, row | {"cluster": "d", "is_open": 0}], older.schema)
    frame.write.format("delta").mode("append").partitionBy("is_open").save(path)
    before = Tables(spark, str(tmp_path)).rows(MEMBERS).collect()
    with open_test_ledger(spark, tmp_path, "c") as ledger:
        ledger.create(MEMBERS)
        version = ledger.version(MEMBERS)
    after = spark.read.format("delta").load(path)
    assert after.schema == MEMBERS.schema
    assert Counter(after.collect()) == Counter(before)
    assert sorted(each.name for each in (tmp_path / "members").iterdir() if "cluster" in each.name) == [
        *("cluster=c", "cluster=d"),
    ]
    assert not plan_for(Tables(spark, str(tmp_path)), MEMBERS).is_needed
    with open_test_ledger(spark, tmp_path, "c") as ledger:
        ledger.create(MEMBERS)
        assert ledger.version(MEMBERS) == version + 1  # the fence


def test_a_warehouse_that_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: if one table can't be brought to this version, no table is changed, and the sentence names the remedy."""
    warehouse = str(tmp_path)
    make(spark, warehouse, without(GENERATIONS, "finding"))
    newer = StructType([*MEMBERS.schema, StructField("mood", StringType())])
    make(spark, warehouse, replace(MEMBERS, schema=newer))
    with pytest.raises(
        InputError,
        match=r"members .* column `mood`, which is not known here\. Use that release, ask who changed it, or",
    ):
        make(spark, warehouse, GENERATIONS)
    assert Tables(spark, warehouse).version(GENERATIONS) == 0

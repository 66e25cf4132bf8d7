"""Goal: a table of an older version gets what it lacks, and one that can't be brought to this version is left alone."""

from __future__ import annotations

from dataclasses import replace
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
from groupledger.jobs.warehouse.migrate import plan
from groupledger.jobs.warehouse.tables import Tables
from groupledger.jobs.warehouse.warehouse import create_table, plan_for
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.schemas.tables.rebalances import CHANGE
from groupledger.schemas.tables.table import Table, column

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


def metadata(of: Table, **changed: Any) -> dict[str, Any]:
    """Delta's metadata action of a table that was made from its definition."""
    return {
        "schemaString": of.schema.json(),
        "partitionColumns": list(of.partition_columns),
        "configuration": of.properties,
        "description": of.comment,
    } | changed


A = column("a", IntegerType(), "The first.")
OLD = table(A, column("s", ArrayType(StructType([StructField("x", IntegerType())])), "Some."), comment="Things.")


def test_a_table_of_today_is_left_alone() -> None:
    """Goal: nothing is done to any of today's tables."""
    for each in (OLD, *all_tables()):
        assert not plan(metadata(each), each, "/w/things").is_needed, each.name


def test_what_is_added() -> None:
    """Goal: columns and fields in structs, arrays and maps, at their place, and changed comments and properties; a path
    and a comment that hold quotes stay what they are."""
    inner = StructType([StructField("y", StringType()), StructField("x", IntegerType())])
    new = table(
        column("b", MapType(StringType(), StructType([A])), "It's \\ new."),
        column("a", IntegerType(), "The second."),
        column("s", ArrayType(inner), "Some."),
        comment="Other things.",
    )
    found = plan(metadata(OLD, configuration={}), new, "/w/it's `here`/things")
    name = "delta.`/w/it's ``here``/things`"
    assert found.refused == []
    assert found.statements[:5] == [
        f"ALTER TABLE {name} ADD COLUMNS (`b` map<string,struct<a:int>> COMMENT 'It\\'s \\\\ new.' FIRST)",
        f"ALTER TABLE {name} ADD COLUMNS (`s`.`element`.`y` string FIRST)",
        f"ALTER TABLE {name} ALTER COLUMN `b`.`value`.`a` COMMENT 'The first.'",
        f"ALTER TABLE {name} ALTER COLUMN `a` COMMENT 'The second.'",
        f"ALTER TABLE {name} SET TBLPROPERTIES ("
        + ", ".join(f"'{key}' = '{value}'" for key, value in new.properties.items())
        + ")",
    ]
    assert found.statements[5:] == [f"COMMENT ON TABLE {name} IS 'Other things.'"]


@pytest.mark.parametrize(
    ("old", "why"),
    [
        (table(column("a", LongType(), "The first.")), "its column `a` is bigint, not int"),
        (table(A, A.__class__("z", IntegerType())), "it has a column `z`, which is not known here"),
        (table(A, partition_columns=("a",)), "it is partitioned by a, not nothing"),
        (
            table(A, column("s", ArrayType(StructType([StructField("x", LongType())])), "Some.")),
            "its column `s`.`element`.`x` is bigint, not int",
        ),
    ],
)
def test_what_is_refused(old: Table, why: str) -> None:
    """Goal: a column that is of another type, not known or not partitioned by as today is named."""
    new = OLD if "s" in old.schema.names else table(A)
    assert plan(metadata(old), new, "/w/things").refused == [why]


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
    """Goal: a reader sees nulls in what an older table lacks and changes nothing; a writer of one table brings all
    tables of the warehouse to today's definition, with their rows, in a path with quotes."""
    made, warehouse = str(tmp_path / "made"), str(tmp_path / "it's `here`")
    older = older_generations()
    create_table(spark, made, older)
    create_table(spark, made, without(MEMBERS, "rack_id"))
    create_table(spark, made, GROUPS)
    row = {
        "cluster": "c",
        "group_id": "g",
        "generation": 1,
        "is_open": 0,
        "changes": [{"kind": "member_left", "protocol": "range"}],
    }
    spark.createDataFrame([row], older.schema).write.format("delta").mode("append").partitionBy("is_open").save(
        Tables(spark, made).path(GENERATIONS)
    )
    (tmp_path / "made").rename(warehouse)
    version = Tables(spark, warehouse).version(GENERATIONS)

    (before,) = Tables(spark, warehouse).rows(GENERATIONS).collect()
    assert Tables(spark, warehouse).version(GENERATIONS) == version
    create_table(spark, warehouse, MEMBERS)
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


def test_a_warehouse_that_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Goal: if one table can't be brought to this version, no table is changed, and the sentence names the remedy."""
    warehouse = str(tmp_path)
    create_table(spark, warehouse, without(GENERATIONS, "finding"))
    newer = StructType([*MEMBERS.schema, StructField("mood", StringType())])
    create_table(spark, warehouse, replace(MEMBERS, schema=newer))
    with pytest.raises(InputError, match=r"members .* column `mood`, which is not known here\. Use that version, or"):
        create_table(spark, warehouse, GENERATIONS)
    assert Tables(spark, warehouse).version(GENERATIONS) == 0

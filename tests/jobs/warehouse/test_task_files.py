"""Goal: files that tasks write hold each row once, and no filter of any engine leaves out a row because of their
statistics in the log."""

from __future__ import annotations

import io
import json
import os
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F
from pyspark.sql import types as T

from groupledger.jobs.warehouse.commits import Commits
from groupledger.jobs.warehouse.delta_log import dataset, rows_where
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.jobs.warehouse.task_files import WrittenFile, _Writer, encodings, write_files
from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.tables.all_tables import all_tables
from groupledger.schemas.tables.table import CLUSTER, GROUP_ID, Table, column, struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import Column, SparkSession

ROWS = Table(
    name="rows",
    comment="Rows of every kind that a table of ours has.",
    written_by="a test",
    key=("cluster", "group_id", "number"),
    partition_columns=("cluster", "seen_date", "is_open"),
    statistics_columns=("cluster", "group_id", "number", "seen_at", "day", "nothing"),
    schema=struct(
        CLUSTER,
        GROUP_ID,
        column("number", T.LongType(), "A number."),
        column("seen_at", T.TimestampType(), "An instant."),
        column("day", T.DateType(), "A day."),
        column("nothing", T.StringType(), "Null in all rows."),
        column("topics", T.ArrayType(T.ArrayType(T.StringType())), "Without statistics."),
        column("seen_date", T.DateType(), "A partition of the files; null where nothing was seen."),
        column("is_open", T.IntegerType(), "A partition of the files."),
    ),
)
LAST = "\U0010ffff"
GROUPS = (
    *("", "a", "b", "x" * 32, "x" * 33, "x" * 32 + LAST, "x" * 32 + LAST * 2 + "a", "x" * 31 + LAST * 3, LAST * 40),
    *("é" * 40, "😀" * 33, "\U00020000" * 2, "\uffff" * 33, "\ufffd" * 33, "\ue000" * 33, "z" * 5_000, None),
    *("' OR '1' = '1", "../../etc/passwd", "cluster=c/%2e%2e", 'quote"\\\n\t\x00', "__HIVE_DEFAULT_PARTITION__"),
)
YEAR_1_US = -62_135_596_800_000_000
INSTANTS_US = (
    *(0, 1, 999, 1_000, -1, -999, -1_000_001, 1_760_000_000_123_456, 1_760_000_000_123_999, None),
    *(YEAR_1_US, YEAR_1_US + 1, -(10**16), 253_402_300_799_999_999),
    *(YEAR_1_US - 1, 253_402_300_800_000_000, 2**62, -(2**60)),  # out of reach of Python's own type
)
DAYS = (date(2026, 1, 5), date(1969, 12, 31), None, date(1, 1, 1), date(9999, 12, 31))


def rows_of(groups: Iterable[str | None], instants: Iterable[int | None] = INSTANTS_US) -> pa.RecordBatch:
    """One row for each group and instant."""
    pairs = [(group, instant) for group in groups for instant in instants]
    numbers = range(len(pairs))
    columns = {
        "cluster": ["c" for _ in pairs],
        "group_id": [group for group, _ in pairs],
        "number": list(numbers),
        "seen_at": pa.array([instant for _, instant in pairs], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "day": [DAYS[number % len(DAYS)] for number in numbers],
        "nothing": [None for _ in pairs],
        "topics": [[["t", None]] for _ in pairs],
        "seen_date": [DAYS[number % 3] for number in numbers],
        "is_open": [number % 2 for number in numbers],
    }
    return pa.record_batch(columns, schema=arrow_schema(ROWS.schema))


@pytest.fixture
def commits(tmp_path: Path) -> Iterator[Commits]:
    with Lease(LocalStorage(tmp_path), "c", "pytest", 60) as held:
        commits = Commits(str(tmp_path), (held,))
        commits.create(ROWS)
        commits.fence(ROWS)
        yield commits


def written(commits: Commits, *batches: pa.RecordBatch) -> list[WrittenFile]:
    """What a task gives back."""
    write = _Writer(ROWS, f"{commits.warehouse}/{ROWS.name}", None, ("group_id", "nothing"))
    (result,) = write(batches)
    read = [row | {"partition_values": json.loads(row["partition_values"])} for row in result.to_pylist()]
    return [WrittenFile(**row | {"counts": tuple(row["counts"])}) for row in read]


def comparable(rows: pa.Table) -> Counter[str]:
    """The rows as a multiset, with instants as integers, since Python's own type does not hold them all."""
    seen_at = rows.column("seen_at")
    seen_at = seen_at if pa.types.is_integer(seen_at.type) else seen_at.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    names = [name for name in sorted(rows.column_names) if name != "seen_at"]
    return Counter(map(repr, rows.select(names).append_column("seen_at", seen_at).to_pylist()))


def by_delta_rs(commits: Commits, condition: pc.Expression | None = None) -> pa.Table:
    found = dataset(commits.warehouse, ROWS)
    return found.to_table() if condition is None else rows_where(found, condition)


def instant(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.timestamp("us", "UTC"))


def conditions() -> dict[str, tuple[pc.Expression, Column]]:
    """Filters in pyarrow and in Spark."""
    group, seen_at, day = pc.field("group_id"), pc.field("seen_at"), pc.field("day")
    found: dict[str, tuple[pc.Expression, Column]] = {}
    for name in GROUPS:
        if name is not None:
            found[f"group = {name[:40]!a} {len(name)}"] = (group == name, F.col("group_id") == F.lit(name))
    for name in ("x" * 32 + LAST, LAST * 3, "\uffff" * 33, "y"):
        found[f"group >= {name!a}"] = (group >= name, F.col("group_id") >= F.lit(name))
        found[f"group < {name!a}"] = (group < name, F.col("group_id") < F.lit(name))
    for value in (-1, 0, 1_760_000_000_123_456, 1_760_000_000_123_999, YEAR_1_US, 253_402_300_799_999_999):
        at = F.timestamp_micros(F.lit(value))
        found[f"at >= {value}"] = (seen_at >= instant(value), F.col("seen_at") >= at)
        found[f"at <= {value}"] = (seen_at <= instant(value), F.col("seen_at") <= at)
        found[f"at = {value}"] = (seen_at == instant(value), F.col("seen_at") == at)
    for each in (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)):
        found[f"day = {each}"] = (day == pa.scalar(each), F.col("day") == F.lit(each.isoformat()).cast("date"))
    null_date = pc.field("seen_date").is_null()
    found["no date"] = (null_date, F.col("seen_date").isNull())
    found["a date"] = (pc.field("seen_date") == pa.scalar(DAYS[0]), F.col("seen_date") == F.lit(DAYS[0]))
    found["nothing"] = (pc.field("nothing").is_null(), F.col("nothing").isNull())
    found["something"] = (pc.field("nothing") == "x", F.col("nothing") == "x")
    return found


def fill_by_tasks(commits: Commits) -> None:
    """Each group in files of its own, and all of them together in files of several row groups."""
    for group in GROUPS:
        commits.add_files(ROWS, written(commits, rows_of([group])))
    commits.add_files(ROWS, written(commits, *(rows_of([group]) for group in GROUPS)))
    for value in INSTANTS_US:
        commits.add_files(ROWS, written(commits, rows_of(["at"], [value])))


def fill_by_delta_rs(commits: Commits) -> None:
    """The same rows, in files that delta-rs writes."""
    for batch in all_rows().to_batches():
        commits.append(ROWS, pa.Table.from_batches([batch]))


def all_rows() -> pa.Table:
    each = [rows_of([group]) for group in GROUPS]
    return pa.Table.from_batches([*each, *each, *(rows_of(["at"], [value]) for value in INSTANTS_US)])


@pytest.mark.parametrize("fill", [fill_by_tasks, fill_by_delta_rs])
def test_no_filter_leaves_out_a_row(spark: SparkSession, commits: Commits, fill: Callable[[Commits], None]) -> None:
    """Goal: names and times that are made to break bounds: all engines find the rows that a look at each row finds, and
    for an ordinary name and an ordinary time they open few files."""
    fill(commits)
    rows = all_rows()
    assert comparable(by_delta_rs(commits)) == comparable(rows)
    by_spark = spark.read.format("delta").load(f"{commits.warehouse}/{ROWS.name}")
    as_integer = by_spark.withColumn("seen_at", F.unix_micros("seen_at"))
    assert comparable(as_integer.toArrow()) == comparable(rows)
    for number, (name, (condition, of_spark)) in enumerate(conditions().items()):
        expected = comparable(rows.filter(condition))
        assert comparable(by_delta_rs(commits, condition)) == expected, name
        if number % 4 == 0:  # Spark plans for a second
            found = by_spark.where(of_spark).withColumn("seen_at", F.unix_micros("seen_at"))
            assert comparable(found.toArrow()) == expected, name
    files = len(by_spark.inputFiles())
    assert len(by_spark.where("group_id = 'b'").inputFiles()) < files / 5
    assert len(by_spark.where("seen_at = timestamp_micros(1760000000123456)").inputFiles()) < files


def test_the_statistics_are_those_of_spark(spark: SparkSession, commits: Commits) -> None:
    """Goal: Spark's writer writes the same statistics for the same rows: counts, nulls and bounds, for it cuts instants
    to milliseconds and long texts in its own way."""
    names = [name for name in GROUPS if name is None or (len(name) <= 40 and not name.startswith(LAST))]
    rows = rows_of(names, [value for value in INSTANTS_US if value is None or abs(value) < 2 * 10**15])
    ours = {json.dumps(each.partition_values): json.loads(each.statistics) for each in written(commits, rows)}
    frame = spark.createDataFrame(pa.Table.from_batches([rows]), ROWS.schema)
    frame.repartition(1).write.format("delta").mode("append").save(f"{commits.warehouse}/{ROWS.name}")
    log = (Path(commits.warehouse) / ROWS.name / "_delta_log" / f"{commits.open(ROWS).version():020}.json").read_text()
    added = [json.loads(line)["add"] for line in log.splitlines() if "add" in json.loads(line)]
    theirs = {json.dumps(each["partitionValues"]): json.loads(each["stats"]) for each in added}
    assert ours.keys() == theirs.keys()
    assert len(ours) == 6
    for partition, found in ours.items():
        expected = theirs[partition]
        assert found["numRecords"] == expected["numRecords"]
        # Spark also counts the nulls of a list.
        assert found["nullCount"] == {name: expected["nullCount"][name] for name in found["nullCount"]}
        for bound in ("minValues", "maxValues"):
            assert {name: reported(value) for name, value in found[bound].items()} == {
                name: reported(value) for name, value in expected[bound].items()
            }


def reported(value: Any) -> Any:
    """A bound as far as both writers write it."""
    return value[:23].rstrip("Z") if isinstance(value, str) and value[10:11] == "T" else value


def in_one_partition(rows: pa.RecordBatch) -> pa.RecordBatch:
    rows = rows.set_column(7, "seen_date", pa.nulls(rows.num_rows, pa.date32()))
    return rows.set_column(8, "is_open", pa.repeat(pa.scalar(1, pa.int32()), rows.num_rows))


def test_row_groups(commits: Commits, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the bounds and counts of a file are those of all its row groups."""
    monkeypatch.setattr("groupledger.jobs.warehouse.task_files.ROW_GROUP_BYTES", 0)
    same = [in_one_partition(rows_of([group])) for group in GROUPS]
    (file,) = written(commits, *same)
    found = json.loads(file.statistics)
    assert file.partition_values == {"cluster": "c", "seen_date": None, "is_open": "1"}
    assert file.counts == (len(INSTANTS_US) * (len(GROUPS) - 1), 0)
    assert file.rows == found["numRecords"] == len(INSTANTS_US) * len(GROUPS)
    assert found["nullCount"]["group_id"] == len(INSTANTS_US)
    assert found["nullCount"]["nothing"] == file.rows
    assert (found["minValues"]["number"], found["maxValues"]["number"]) == (0, len(INSTANTS_US) - 1)
    assert "nothing" not in found["minValues"]
    assert Path(commits.warehouse, ROWS.name, file.path).stat().st_size == file.size


@pytest.mark.parametrize("table", all_tables(), ids=lambda table: table.name)
def test_columns_are_encoded(table: Table) -> None:
    """Goal: each table's texts have a dictionary and its wide numbers are stored by their differences, however deep
    they lie in structs, lists and maps."""
    schema, reported = arrow_schema(table.schema), io.BytesIO()
    rows = pa.Table.from_arrays([some_value(field.type) for field in schema], schema=schema)
    with pq.ParquetWriter(reported, schema, **encodings(schema)) as writer:
        writer.write_table(rows)
    footer = pq.read_metadata(reported)
    for number in range(footer.num_columns):
        leaf = footer.row_group(0).column(number)
        is_text = footer.schema.column(number).logical_type.type == "STRING"
        assert is_text == ("RLE_DICTIONARY" in leaf.encodings), leaf
        assert (leaf.physical_type == "INT64") == ("DELTA_BINARY_PACKED" in leaf.encodings), leaf


def some_value(kind: pa.DataType) -> pa.Array:
    """An array of one value that is not null, nor has a null in it."""
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([some_value(field.type) for field in kind], fields=list(kind))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), *map(some_value, (kind.key_type, kind.item_type)))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), some_value(kind.value_type)).cast(kind)
    value = {pa.string(): "a", pa.binary(): b"a", pa.bool_(): True}.get(kind, 1)
    return pa.array([value], kind)


def test_lists_that_are_all_empty(commits: Commits) -> None:
    """Goal: a batch in which all lists are empty, whose offsets within Spark leaves out, does not end the process."""
    rows = in_one_partition(rows_of(GROUPS))
    kind = rows.column("topics").type
    inner = pa.Array.from_buffers(kind.value_type, 0, [None, None], children=[pa.array([], pa.string())])
    offsets = pa.array([0] * (rows.num_rows + 1), pa.int32()).buffers()[1]
    empty = pa.Array.from_buffers(kind, rows.num_rows, [None, offsets], children=[inner])
    commits.add_files(ROWS, written(commits, rows.set_column(6, "topics", empty)))
    assert by_delta_rs(commits).column("topics").to_pylist() == [[]] * rows.num_rows


def test_a_task_that_is_tried_again(commits: Commits) -> None:
    """Goal: a task that wrote and was lost, and is run again, gives each row once."""
    written(commits, rows_of(GROUPS))
    commits.add_files(ROWS, written(commits, rows_of(GROUPS)))
    assert comparable(by_delta_rs(commits)) == comparable(pa.Table.from_batches([rows_of(GROUPS)]))


def test_a_task_that_fails(spark: SparkSession, commits: Commits) -> None:
    """Goal: an error in the middle of a task's rows is the query's, and no version of the table names what the task had
    written; the next attempt gives each row once."""
    frame = spark.createDataFrame(pa.Table.from_batches([rows_of(GROUPS)]), ROWS.schema)

    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("the task is lost")

    with pytest.raises(Exception, match="the task is lost"):
        write_files(frame, ROWS, commits.warehouse, prepare=fail)
    assert commits.open(ROWS).file_uris() == []
    commits.add_files(ROWS, write_files(frame, ROWS, commits.warehouse))
    assert comparable(by_delta_rs(commits)) == comparable(pa.Table.from_batches([rows_of(GROUPS)]))


def test_vacuum(commits: Commits) -> None:
    """Goal: VACUUM keeps the files of the table and those that somebody may still commit, and removes those that nobody
    has committed within the retention, half-written ones too."""
    commits.add_files(ROWS, written(commits, rows_of(["a"])))
    folder = Path(commits.warehouse, ROWS.name)
    old, young = written(commits, rows_of(["old"])), written(commits, rows_of(["young"]))
    kept = {Path(uri).relative_to(folder) for uri in DeltaTable(str(folder)).file_uris()}
    half = folder / kept.copy().pop().parent / "part-half.parquet#1"  # delta-rs writes it before it gives it its name
    half.touch()
    young_half = half.with_name("part-half.parquet#2")
    young_half.touch()
    age(*(folder / each.path for each in old), *(folder / each for each in kept), half, *folder.glob("_delta_log/*"))
    commits.vacuum(ROWS, 48)
    found = {
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.parent.name != "_delta_log"
    }
    assert found == kept | {Path(each.path) for each in young} | {young_half.relative_to(folder)}
    commits.add_files(ROWS, young)
    assert comparable(by_delta_rs(commits)) == comparable(pa.Table.from_batches([rows_of(["a"]), rows_of(["young"])]))


def age(*paths: Path) -> None:
    """Makes files 46 days old."""
    then = time.time() - 46 * 86_400
    for path in paths:
        os.utime(path, (then, then))

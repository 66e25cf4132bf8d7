"""`groupledger sql`: any question, over temporary views of the warehouse's tables and of `offset_commits`.

All clusters are there; `cluster` is a column. Statements only read: what Spark's parser makes of the text is looked at
before it runs, and everything that is no query is refused, but for DESCRIBE, SHOW and EXPLAIN. This keeps mistakes out
and no attackers: a query can read whatever the process can, and what nobody may write the storage has to protect.

Values come into a query as parameters (`:group`), never as text.
"""

from __future__ import annotations

import base64
import csv
import json
import logging
import re
import sys
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from rich.console import Console

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import escaped, print_table, printable
from groupledger.jobs.warehouse.warehouse import read_table, tables_of
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.coverage.rules.coverage_at import iso
from groupledger.transforms.offsets.offset_commits import offset_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

# A column with less room would break its cells into single characters.
COLUMN_CHARACTERS_MIN = 12

OFFSET_COMMITS = "offset_commits"
READ_BY_OFFSET_COMMITS = (COORDINATOR_RECORDS, GENERATIONS, ASSIGNMENTS, MEMBERS, GROUPS, COVERAGE)

# Of Spark's commands, those that only tell. Everything else that is a command or a statement changes something.
TELLING = frozenset(
    {
        *("DescribeRelation", "DescribeColumn", "DescribeQueryCommand", "DescribeFunction", "ExplainCommand"),
        *("ShowTables", "ShowColumns", "ShowFunctions", "ShowViews"),
    }
)
# What writes, or runs a program, and is neither a command nor a statement to Spark.
DOING = ("InsertInto", "Compound", "ScriptTransformation", "Call")


def register_views(spark: SparkSession, warehouse: str) -> list[str]:
    """A temporary view for each table that is there; gives their names. Raises InputError if there is none."""
    found = tables_of(spark, warehouse)
    views = {table: read_table(spark, warehouse, table) for table in found}
    for table, rows in views.items():
        rows.createOrReplaceTempView(table.name)
    names = [table.name for table in found]
    if all(table in views for table in READ_BY_OFFSET_COMMITS):
        inputs = [views[table] for table in READ_BY_OFFSET_COMMITS]
        offset_commits(*inputs).createOrReplaceTempView(OFFSET_COMMITS)
        names.append(OFFSET_COMMITS)
    return names


def ask(spark: SparkSession, text: str, parameters: Mapping[str, str], rows_max: int | None = None) -> pa.Table:
    """The answer to one statement, or its first rows.

    Raises InputError for a statement that writes, is wrong, or lacks a parameter.
    """
    # pyspark logs each error with the query and a trace of its own, before it raises it.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    try:
        refuse_to_write(spark, text)
        rows = spark.sql(text, args=dict(parameters))
        answer: pa.Table = (rows if rows_max is None else rows.limit(rows_max)).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise InputError(f"The query failed: {sentence(error)}") from error
    twice = {name for name in answer.column_names if answer.column_names.count(name) > 1}
    if twice:
        raise InputError(f"Several columns are called {printable(', '.join(sorted(twice)))}: name them with AS.")
    return answer


def refuse_to_write(spark: SparkSession, text: str) -> None:
    """Raises InputError if the statement is no query, and the errors of Spark's parser if it is no statement."""
    session: Any = spark._jsparkSession  # noqa: SLF001 - the only way to Spark's parser
    plan = session.sessionState().sqlParser().parsePlan(text)
    if not all(only_reads(spark, node) for node in nodes(plan)):
        raise InputError(
            "Only queries are answered here, and DESCRIBE, SHOW and EXPLAIN: this statement changes or runs something."
        )


def nodes(plan: Any) -> Iterator[Any]:
    """A logical plan from its root down, with the plans in its WITH clause and in its expressions."""
    yield plan
    for below in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for index in range(below.size()):
            yield from nodes(below.apply(index))


def only_reads(spark: SparkSession, node: Any) -> bool:
    name = str(node.getClass().getSimpleName())
    if name in TELLING:
        return True
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
    kinds = ("Command", "ParsedStatement")
    logical = [jvm.java.lang.Class.forName(f"org.apache.spark.sql.catalyst.plans.logical.{kind}") for kind in kinds]
    return not name.startswith(DOING) and not any(kind.isInstance(node) for kind in logical)


def sentence(error: PySparkException | Py4JJavaError) -> str:
    """Spark's own words without the query, which it repeats, and without its plan."""
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    unbound = re.search(r"unbound parameter: (\w+)", text)
    if unbound is not None:
        return f"its parameter :{unbound[1]} has no value, give --param {unbound[1]}=..."
    said = re.split(r" SQLSTATE: |; line \d+ pos|\n== |\n\n", text)[0]
    return printable(" ".join(said.split())).rstrip(".") + "."


def print_rows(answer: pa.Table, form: str) -> None:
    """To standard output. JSON is exact and ASCII, with BINARY as base64; in the other two, characters that a terminal
    could obey are escapes, and what is nested is JSON."""
    rows = answer.to_pylist()
    if form == "json":
        for row in rows:
            sys.stdout.write(as_json(row) + "\n")
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([escaped(name) for name in answer.column_names])
        writer.writerows(["" if value is None else escaped(text_of(value)) for value in row.values()] for row in rows)
    else:
        print_as_table([printable(name) for name in answer.column_names], rows)


def print_as_table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    """Rows below each other where the columns find no room beside each other."""
    if len(columns) * COLUMN_CHARACTERS_MIN <= Console().width:
        print_table(f"{len(rows):,} rows", columns, ([cell(value) for value in row.values()] for row in rows))
        return
    for number, row in enumerate(rows, 1):
        cells = zip(columns, map(cell, row.values()), strict=True)
        print_table(f"row {number:,} of {len(rows):,}", ("column", "value"), cells)


def cell(value: object) -> object:
    return value if value is None or type(value) is int else text_of(value)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else as_json(value).strip('"')


def as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)

"""Runs a query with Spark, for users who need Spark's SQL or a storage that only Hadoop reads.

The plan of Spark's parser is checked before a statement runs: only nodes that read are allowed, only views of the
warehouse's tables, and no function with effects outside the query. This prevents mistakes. It does not protect against
an attacker: Spark has no locks of its own, an unknown function may reach further, and a query may take all memory and
processors of its machine. Data that a user must not read or write has to be protected by the storage; for untrusted
users there is `engine`.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from groupledger.jobs.ask.engine import LATER
from groupledger.jobs.ask.time_limit import interrupted_after, too_late
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable
from groupledger.schemas.tables.assignments import ASSIGNMENTS
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS
from groupledger.schemas.tables.coverage import COVERAGE
from groupledger.schemas.tables.generations import GENERATIONS
from groupledger.schemas.tables.groups import GROUPS
from groupledger.schemas.tables.member_epochs import MEMBER_EPOCHS
from groupledger.schemas.tables.members import MEMBERS
from groupledger.transforms.offsets.offset_commits import offset_commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from groupledger.jobs.warehouse.tables import Tables

OFFSET_COMMITS = "offset_commits"
READ_BY_OFFSET_COMMITS = (COORDINATOR_RECORDS, GENERATIONS, ASSIGNMENTS, MEMBERS, MEMBER_EPOCHS, GROUPS, COVERAGE)

# Spark's logical plans, as its parser makes them: those that only read,
READING = frozenset(
    {
        *("Project", "Filter", "Aggregate", "Distinct", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Sample"),
        *("Join", "LateralJoin", "Union", "Except", "Intersect", "SubqueryAlias", "Generate", "Pivot", "Unpivot"),
        *("RepartitionByExpression", "PipeOperator", "WithWindowDefinition", "OneRowRelation", "LocalRelation"),
        *("UnresolvedHaving", "UnresolvedHint", "UnresolvedInlineTable", "UnresolvedRelation"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedTVFAliases", "UnresolvedTableValuedFunction", "UnresolvedWith"),
    }
)
# and the commands that only describe.
DESCRIBING = frozenset(
    {
        *("DescribeColumn", "DescribeFunction", "DescribeQueryCommand", "DescribeRelation", "ExplainCommand"),
        *("ShowColumns", "ShowFunctions", "ShowTables", "ShowViews"),
        *("CurrentNamespace$", "UnresolvedFunctionName", "UnresolvedTableOrView"),
    }
)
TABLE_FUNCTIONS = frozenset(
    {"explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer", "range", "stack"}
)
# Functions that call Java, read a file, or reveal where the files lie.
OUTSIDE = re.compile(r"java_method|(try_)?reflect|input_file_\w+|(from|to)_(avro|protobuf)|read_\w+")


def register_views(tables: Tables) -> list[str]:
    """Creates a temporary view of each existing table; returns their names. Raises InputError if there is none."""
    views = {table: tables.rows(table) for table in tables.existing()}
    has_commits = all(table in views or table.name in LATER for table in READ_BY_OFFSET_COMMITS)
    if has_commits:
        views |= {table: tables.rows_if_any(table) for table in READ_BY_OFFSET_COMMITS if table not in views}
    for table, rows in views.items():
        rows.createOrReplaceTempView(table.name)
    names = [table.name for table in views]
    if has_commits:
        inputs = [views[table] for table in READ_BY_OFFSET_COMMITS]
        offset_commits(*inputs).createOrReplaceTempView(OFFSET_COMMITS)
        names.append(OFFSET_COMMITS)
    return names


def ask(
    spark: SparkSession,
    views: Collection[str],
    text: str,
    parameters: Mapping[str, str],
    *,
    rows_max: int | None = None,
    timeout_s: float,
) -> pa.Table:
    """Returns the result of one statement over the views, or its first `rows_max` rows.

    Raises InputError for a statement that does more than read, is wrong, lacks a parameter, or takes longer than
    `timeout_s` seconds.
    """
    # pyspark logs each error with the query and a trace of its own, before it raises it.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    with interrupted_after(timeout_s, spark.sparkContext.cancelAllJobs) as is_late:
        try:
            refuse_to_do(spark, views, text)
            rows = spark.sql(text, args=dict(parameters))
            answer: pa.Table = (rows if rows_max is None else rows.limit(rows_max)).toArrow()
        except (PySparkException, Py4JError, OSError, EOFError) as error:
            if is_late.is_set():
                raise too_late(timeout_s) from error  # each of them can be raised for a JVM that was ended
            if isinstance(error, (PySparkException, Py4JJavaError)):
                raise InputError(f"The query failed: {sentence(error)}") from error
            raise
    return answer


def refuse_to_do(spark: SparkSession, views: Collection[str], text: str) -> None:
    """Raises InputError if the statement does more than read the views, and the error of Spark's parser if it is
    invalid."""
    session: Any = spark._jsparkSession  # noqa: SLF001 - the only way to Spark's parser
    found = [
        (str(node.getClass().getSimpleName()), node)
        for node in nodes(session.sessionState().sqlParser().parsePlan(text))
    ]
    relations = {name.lower() for name in views}
    relations |= {name for kind, node in found if kind == "UnresolvedWith" for name in defined(node)}
    for kind, node in found:
        if kind not in READING | DESCRIBING:
            raise InputError(
                "Only queries are answered here, and DESCRIBE, SHOW TABLES and EXPLAIN of a query: this statement is"
                f" {printable(kind)}."
            )
        if kind in {"UnresolvedRelation", "UnresolvedTableOrView"}:
            refuse_unless(relations, ".".join(texts(node.multipartIdentifier())), "There is no view")
        elif kind == "UnresolvedTableValuedFunction":
            refuse_unless(TABLE_FUNCTIONS, ".".join(texts(node.name())), "Not allowed here is the table function")
        for expression in items(node.expressions()):
            refuse_outside(expression)


def nodes(plan: Any) -> Iterator[Any]:
    """Yields the nodes of a logical plan from its root down, with the plans in its WITH clause, in its expressions, and
    after EXPLAIN and DESCRIBE QUERY."""
    yield plan
    held = {"ExplainCommand": "logicalPlan", "DescribeQueryCommand": "plan"}.get(plan.getClass().getSimpleName())
    if held is not None:
        yield from nodes(getattr(plan, held)())
    for below in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for each in items(below):
            yield from nodes(each)


def refuse_outside(expression: Any) -> None:
    """Raises InputError if an expression calls a function that reaches outside the query, or one whose name is not
    known before it runs."""
    kind = expression.getClass().getSimpleName()
    if kind == "UnresolvedFunction":
        name = ".".join(texts(expression.nameParts()))
        if "." in name or OUTSIDE.fullmatch(name.lower()):
            raise InputError(f"The function {printable(name)} is not allowed here: it may reach outside the query.")
    elif kind == "ExpressionWithUnresolvedIdentifier":
        raise InputError("IDENTIFIER(...) is not allowed here: write the name itself.")
    for each in items(expression.children()):
        refuse_outside(each)


def refuse_unless(allowed: Collection[str], name: str, sentence: str) -> None:
    if name.lower() not in allowed:
        raise InputError(f"{sentence} {printable(name)}, only {', '.join(sorted(allowed))}.")


def defined(node: Any) -> Iterator[str]:
    """Yields the names that a WITH clause gives to queries."""
    for each in items(node.cteRelations()):
        yield str(each.productElement(0)).lower()


def texts(sequence: Any) -> list[str]:
    return [str(each) for each in items(sequence)]


def items(sequence: Any) -> Iterator[Any]:
    """Yields the items of one of Scala's sequences."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def sentence(error: PySparkException | Py4JJavaError) -> str:
    """Returns Spark's own error without the query, which it repeats, and without its plan."""
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    unbound = re.search(r"unbound parameter: (\w+)", text)
    if unbound is not None:
        return f"its parameter :{unbound[1]} has no value, give --param {unbound[1]}=..."
    said = re.split(r" SQLSTATE: |; line \d+ pos|\n== |\n\n", text)[0]
    return printable(" ".join(said.split())).rstrip(".") + "."

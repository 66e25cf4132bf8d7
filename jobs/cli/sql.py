"""The commands that run SQL over the tables of a warehouse."""

from __future__ import annotations

from functools import wraps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.options import FORM, NO_WAREHOUSE, WAREHOUSE
from groupledger.jobs.process.output import say

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

TABLE_ROWS = 1_000
TIMEOUT_S = 300
TIMEOUT_MAX_S = 7 * 86_400
CANCEL_WITHIN_S = 5  # then Spark has not seen it, and ends as a whole


def parameter(text: str) -> tuple[str, str]:
    name, is_given, value = text.partition("=")
    if not is_given or not name.isidentifier():
        raise click.BadParameter(f"{text!r} is no parameter: write NAME=VALUE.")
    return name, value


def list_queries(context: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    """Prints the queries before any other option is read, as `--version` does."""
    from groupledger.jobs.ask.named_queries import named_queries

    if not is_asked or context.resilient_parsing:
        return
    for query in named_queries():
        click.echo(f"{query.name}\n    {query.summary}")
        for each in query.parameters:
            click.echo(f"    :{each.name} {f'({each.value})' if each.value else '(required)'}  {each.meaning}")
    context.exit()


QUERY = click.argument("text", metavar="[QUERY]", required=False)
FILE = click.option(
    "--file", "file", type=click.Path(path_type=Path), metavar="FILE", help="Read the query from a file."
)
NAMED = click.option("--named", metavar="NAME", help="One of the queries that come with groupledger.")
LIST = click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=list_queries,
    help="Show these queries, and do nothing else.",
)
PARAM = click.option(
    "--param",
    "parameters",
    multiple=True,
    type=parameter,
    metavar="NAME=VALUE",
    help="The value of :NAME in the query, a string; may be given several times.",
)


def with_query(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the ways to name a query to a command, and passes the query's text and the values of its parameters as its
    first arguments."""

    @wraps(command)
    def run(
        *,
        text: str | None,
        file: Path | None,
        named: str | None,
        parameters: tuple[tuple[str, str], ...],
        **others: Any,
    ) -> object:
        from groupledger.jobs.ask.named_queries import query_named

        if [text, file, named].count(None) != 2:  # noqa: PLR2004 - exactly one of the three
            raise click.UsageError("Give a query, or --file, or --named; or --list.")
        arguments = dict(parameters)
        if named is not None:
            query = query_named(named)
            return command(query.text, query.arguments(arguments), **others)
        return command(read_query(file) if file is not None else text, arguments, **others)

    for option in (PARAM, LIST, NAMED, FILE, QUERY):
        run = option(run)
    return run


@click.command()
@with_query
@click.option("--warehouse", metavar="DIR", help="Where the Delta tables lie: a directory or a URI.")
@FORM(help="The form of the answer.")
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option("--limit", type=click.IntRange(min=1), help=f"At most so many rows; {TABLE_ROWS:,} as a table.")
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="The engine and its SQL dialect. DuckDB answers at once and reads nothing but the tables; Spark has to be"
    " started.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, max=TIMEOUT_MAX_S, min_open=True),
    default=TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="End a query that takes longer.",
)
def sql(
    text: str,
    arguments: dict[str, str],
    *,
    warehouse: str | None,
    form: str,
    limit: int | None,
    engine: str,
    timeout_s: float,
) -> None:
    """Ask any question in SQL, of all clusters in the warehouse. Use the tables by their names, and the view
    offset_commits. Nothing can be written."""
    if warehouse is None:
        raise click.UsageError(NO_WAREHOUSE)
    if isnan(timeout_s):
        raise click.UsageError("--timeout needs a number of seconds.")
    rows_max = limit or (TABLE_ROWS if form == "table" else None)
    answer = ask_engine(engine, warehouse, text, arguments, None if rows_max is None else rows_max + 1, timeout_s)
    if rows_max is not None and answer.num_rows > rows_max:
        say(f"only the first {rows_max:,} rows are shown: see --limit and --format")
        answer = answer.slice(0, rows_max)
    from groupledger.jobs.ask.sql import print_rows  # imports Arrow, for which the query need not wait

    print_rows(answer, form)


def ask_engine(
    engine: str, warehouse: str, text: str, arguments: dict[str, str], rows_max: int | None, timeout_s: float
) -> pa.Table:
    if engine == "duckdb":
        from groupledger.jobs.ask.query_client import ask

        return ask(warehouse, text, arguments, rows_max=rows_max, timeout_s=timeout_s)
    from groupledger.jobs.ask.spark_engine import ask as ask_spark
    from groupledger.jobs.ask.spark_engine import register_views
    from groupledger.jobs.ask.time_limit import interrupted_after
    from groupledger.jobs.process.session import end_java, spark_session
    from groupledger.jobs.warehouse.tables import Tables

    spark = spark_session("groupledger sql")
    views = register_views(Tables(spark, warehouse))
    with interrupted_after(timeout_s + CANCEL_WITHIN_S, lambda: end_java(spark)):
        return ask_spark(spark, views, text, arguments, rows_max=rows_max, timeout_s=timeout_s)


def read_query(file: Path) -> str:
    from groupledger.jobs.process.errors import InputError

    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InputError(f"The file {file} can't be read: {reason}.") from error


@click.command()
@WAREHOUSE
@click.option(
    "--database",
    default="groupledger",
    show_default=True,
    metavar="[CATALOG.]SCHEMA",
    help="Created if it does not exist.",
)
@click.option(
    "--metastore", metavar="URI", help="thrift://HOST:PORT of a Hive metastore; hive-site.xml names it unless given."
)
def register(*, warehouse: str, database: str, metastore: str | None) -> None:
    """Register the tables with a Hive metastore or a Spark catalog, so that other engines find them by name."""
    from groupledger.jobs.process.session import spark_session
    from groupledger.jobs.warehouse.register import HIVE, check_database, check_metastore, register_tables

    check_database(database)

    overrides = HIVE | ({} if metastore is None else {"spark.hadoop.hive.metastore.uris": metastore})
    spark = spark_session("groupledger register", overrides)
    check_metastore(spark, database)
    for name in register_tables(spark, warehouse, database):
        say(f"{database}.{name}")

"""Parses a statement before DuckDB runs it: finds the tables that it names, and refuses it unless it only reads.

DuckDB's own parser gives the tree of the statement. Every node, relation and table function in it has to be on a list
of allowed ones, so that features of a later DuckDB are refused until they were reviewed. The locks of `engine` protect
without this; it gives a clear message, and a second line of defence.

Parameters are written `:name` in a query, as Spark has them, and `$name` for DuckDB. Only the sign is replaced, where
DuckDB's tokenizer finds one in the code (not in a string or a comment); values never become text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

# DuckDB's parser and planner do not stop for an interrupt, and deep enough they overflow the stack.
TEXT_MAX_BYTES = 1 << 16

# The types of the tree's nodes that are no expressions.
ALLOWED = frozenset(
    {
        *("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"),
        *("BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"),
        *("DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "ORDER_MODIFIER"),
        *("ASCENDING", "DESCENDING", "ORDER_DEFAULT"),
    }
)
TYPE_INFO = re.compile(r"[A-Z]+_TYPE_INFO")
TABLE_FUNCTIONS = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
# Words that may come between EXPLAIN and the query, the second in parentheses.
ANALYZE = re.compile(rb"analy[sz]e\b", re.IGNORECASE)
OPTION = re.compile(rb"(analy[sz]e|format)\b", re.IGNORECASE)
# How the tree names the tables of SHOW TABLES, and of SHOW ALL TABLES or DESCRIBE alone.
ALL_TABLES = frozenset({"tables", "__show_tables_expanded"})

# What may stand before the colon of a parameter. After a name, a number, a quote or a bracket, a colon is that of an
# alias, of a struct's field or of a slice.
BEFORE_PARAMETER = b" \t\r\n(,=<>+-*/%|"


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """Holds one statement for DuckDB that only reads. `relations` are the names, in lower case, from which it reads;
    some of them may be `defined` by its own WITH. `lists_tables` says whether it asks which tables there are."""

    text: str
    parameters: frozenset[str]
    relations: frozenset[str]
    defined: frozenset[str]
    lists_tables: bool


def read_statement(connection: duckdb.DuckDBPyConnection, text: str) -> Statement:
    """Returns the statement. Raises InputError for a text that is not exactly one statement or does more than read, and
    DuckDB's error for an invalid statement."""
    if len(text.encode()) > TEXT_MAX_BYTES:
        raise InputError(f"The query is longer than {TEXT_MAX_BYTES >> 10} KiB: shorten it.")
    text = with_dollars(text)
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        raise InputError(f"The query has {len(statements)} statements: give exactly one.")
    (statement,) = statements
    if statement.type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise refusal(statement.type.name)
    is_explain = statement.type == duckdb.StatementType.EXPLAIN
    tree = list(nodes(tree_of(connection, explained(text) if is_explain else text)))
    for node in tree:
        refuse_to_do(node)
    shown = {shown_name(node) for node in tree if node.get("type") == "SHOW_REF" and node.get("query") is None}
    named = {table_name(node) for node in tree if node.get("type") == "BASE_TABLE"}
    return Statement(
        text=text,
        parameters=frozenset(statement.named_parameters),
        relations=frozenset(named | shown - ALL_TABLES),
        defined=frozenset(each["key"].lower() for node in tree for each in node.get("cte_map", {}).get("map", ())),
        lists_tables=not shown.isdisjoint(ALL_TABLES),
    )


def with_dollars(text: str) -> str:
    """Returns the text with `$name` in place of each `:name`."""
    data = bytearray(text.encode())
    starts = {position for position, _ in duckdb.tokenize(text)}
    for at in starts:
        is_name = at + 1 in starts and (data[at + 1 : at + 2].isalpha() or data[at + 1 : at + 2] == b"_")
        if data[at : at + 1] == b":" and is_name and data[at - 1 : at] in BEFORE_PARAMETER:
            data[at : at + 1] = b"$"
    return data.decode()


def explained(text: str) -> str:
    """Returns the statement that follows EXPLAIN and its options."""
    data = text.encode()
    comment = getattr(duckdb.token_type, "comment", None)
    starts = [position for position, kind in duckdb.tokenize(text) if kind != comment][1:]
    if ANALYZE.match(data[starts[0] :]):
        del starts[0]
    if data[starts[0] : starts[0] + 1] == b"(" and OPTION.match(data[starts[1] :]):
        del starts[: 1 + next(index for index, at in enumerate(starts) if data[at : at + 1] == b")")]
    return data[starts[0] :].decode()


def tree_of(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Returns the parser's tree of one query. Raises InputError for any other statement."""
    ((text,),) = connection.execute("SELECT json_serialize_sql($query::VARCHAR)", {"query": query}).fetchall()
    try:
        tree = json.loads(text)
    except RecursionError:
        raise InputError("The query is nested too deeply: write it with fewer levels.") from None
    if tree["error"]:
        raise refusal("this statement")
    return tree


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def refuse_to_do(node: dict[str, Any]) -> None:
    """Raises InputError for a node of the tree that may do more than read the given tables."""
    kind = node.get("type")
    # An expression has a class. What a function of the query's own can do, the locks of the connection decide.
    if not isinstance(kind, str) or "class" in node:
        return
    if kind not in ALLOWED and not TYPE_INFO.fullmatch(kind):
        raise refusal(kind.removesuffix("_QUERY_NODE"))
    if kind == "TABLE_FUNCTION":
        name = node["function"]["function_name"]
        if name.lower() not in TABLE_FUNCTIONS:
            raise InputError(
                f"The table function {printable(name)} is not allowed here, only {', '.join(sorted(TABLE_FUNCTIONS))}."
            )


def table_name(node: dict[str, Any]) -> str:
    name: str = node["table_name"]
    if node.get("schema_name") or node.get("catalog_name"):
        raise InputError(f"Give the table {printable(name)} without a schema or a database before it.")
    return name.lower()


def shown_name(node: dict[str, Any]) -> str:
    """Returns, in lower case, the table that a SHOW or DESCRIBE without a query names. Raises InputError for SHOW ...
    FROM."""
    if node["show_type"] == "SHOW_FROM":
        raise refusal("SHOW ... FROM")
    return str(node["table_name"]).strip('"').lower()


def refusal(what: str) -> InputError:
    return InputError(
        f"Only queries are answered here, and DESCRIBE, SHOW TABLES, SUMMARIZE and EXPLAIN of a query, not {what}."
    )

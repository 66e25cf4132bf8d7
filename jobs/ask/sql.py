"""`groupledger sql` prints the result of a SQL query, as a table, CSV or JSON.

All clusters are included; `cluster` is a column. `engine` uses DuckDB, `spark_engine` Spark; neither can write. Values
are passed to a query as parameters (`:group`), never as text.
"""

from __future__ import annotations

import csv
import re
import sys
from typing import TYPE_CHECKING, Any

from groupledger.jobs.process.arrow_values import rows_of
from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.output import json_text, print_json
from groupledger.jobs.process.terminal import escaped, print_table, printable

if TYPE_CHECKING:
    import pyarrow as pa

# A spreadsheet takes a cell that begins like this for a formula, unless it is a number.
FORMULA = re.compile(r"[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def print_rows(answer: pa.Table, form: str) -> None:
    """Prints rows to standard output, as a table, CSV or JSON (`form`). JSON is exact and ASCII, with BINARY as base64.
    In the other two forms, characters that control a terminal are escaped, and nested values are JSON. Raises
    InputError if two columns have one name."""
    twice = {name for name in answer.column_names if answer.column_names.count(name) > 1}
    if twice:
        raise InputError(f"Several columns are called {printable(', '.join(sorted(twice)))}: name them with AS.")
    if form == "table":
        print_as_table([printable(name) for name in answer.column_names], rows_of(answer))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if form == "csv":
        writer.writerow([csv_cell(name) for name in answer.column_names])
    for batch in answer.to_batches():
        if form == "json":
            print_json(rows_of(batch))
        else:
            writer.writerows(map(csv_cell, row.values()) for row in rows_of(batch))


def csv_cell(value: object) -> str:
    """Returns a value for a spreadsheet. Texts that it would treat as formulas get an apostrophe."""
    text = "" if value is None else text_of(value)
    is_formula = FORMULA.match(text) and not NUMBER.fullmatch(text)
    return escaped(f"'{text}" if is_formula else text)


def print_as_table(columns: list[str], rows: list[dict[str, Any]]) -> None:
    """Prints rows as a table or, if the columns do not fit side by side, below each other."""
    cells = ([cell(value) for value in row.values()] for row in rows)
    print_table(f"{len(rows):,} rows", columns, cells, is_counted=False)


def cell(value: object) -> object:
    return value if value is None or type(value) is int else text_of(value)


def text_of(value: object) -> str:
    return value if isinstance(value, str) else json_text(value).strip('"')

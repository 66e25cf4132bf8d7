"""Lists all tables: one for each file of `schemas/tables` that defines a `Table` of the file's own name.

The tables are found by their files, so that a new one is at once queried, registered, documented, checked and kept
small like the others.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from pyspark.sql import types as T

import groupledger.schemas.tables
from groupledger.schemas.tables.table import Table


@cache
def all_tables() -> tuple[Table, ...]:
    """Returns all tables, sorted by name."""
    modules = sorted(module.name for module in pkgutil.iter_modules(groupledger.schemas.tables.__path__))
    found = (getattr(import_module(f"groupledger.schemas.tables.{name}"), name.upper(), None) for name in modules)
    return tuple(table for table in found if isinstance(table, Table))


def table_named(name: str) -> Table | None:
    return next((table for table in all_tables() if table.name == name), None)


def retained_by(table: Table) -> str | None:
    """Returns the column that says how old a row is: the date column that the table is partitioned by, else a time
    column; None if the table has neither."""
    return date_column(table) or table.retention_column


def date_column(table: Table) -> str | None:
    """Returns the date column that the table is partitioned by; None if it has none."""
    dates = (name for name in table.partition_columns if isinstance(table.schema[name].dataType, T.DateType))
    return next(dates, None)

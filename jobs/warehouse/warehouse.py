"""Creates the Delta tables of a warehouse, and brings older ones to today's definition.

A table is created from its file in `schemas/tables`, with its comments, partitioning and properties. A job that writes
first brings all older tables of the warehouse to today's definition (`migrate`). A job that only reads changes nothing,
and sees nulls in the columns that an older table lacks.

A table that was partitioned in another way is written again as a whole, in one commit. All other changes are to its
metadata, and change no row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.warehouse.delta_log import open_table
from groupledger.jobs.warehouse.migrate import plan

if TYPE_CHECKING:
    from groupledger.jobs.warehouse.commits import Commits
    from groupledger.jobs.warehouse.migrate import Plan
    from groupledger.jobs.warehouse.tables import Tables
    from groupledger.schemas.tables.table import Table


def create_table(tables: Tables, commits: Commits, table: Table) -> None:
    """Creates the table, or migrates an older one to today's columns and properties.

    Raises InputError if a table can't be migrated.
    """
    if not tables.exists(table):
        commits.create(table)
    elif plan_for(tables, table).is_needed:
        migrate(tables, commits)


def migrate(tables: Tables, commits: Commits) -> None:
    """Migrates all existing tables to today's columns and properties. If one of them can't be migrated, raises
    InputError before the first is changed."""
    plans = {table: plan_for(tables, table) for table in tables.existing()}
    for table, needed in plans.items():
        if needed.refused:
            raise InputError(
                f"The table {table.name} was changed by another engine or another release of groupledger, and can't be"
                f" brought to this one: {'; '.join(needed.refused)}. Use that release, ask who changed it, or take"
                " another warehouse."
            )
    for table, needed in plans.items():
        if needed.is_repartitioned:
            commits.write_again(table)
        commits.alter(table, plan_for(tables, table) if needed.is_repartitioned else needed)


def plan_for(tables: Tables, table: Table) -> Plan:
    """Returns the plan that migrates an existing table to today's definition."""
    found = open_table(tables.warehouse, table)
    return plan(found.schema().to_json(), found.metadata(), table)

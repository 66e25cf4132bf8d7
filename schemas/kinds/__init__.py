"""Kinds of things that happen to groups, one row each: its name in the tables, and everything that follows from it.

    changes    what differs between two records of a group      triggers   what started a rebalance
    incidents  what went wrong                                  roots      what an incident probably began with

A row is a constant, and its module's last line collects them. Rules compare and create kinds by these constants; the
command line's choices, the columns' comments, `docs/tables.md`, the quality checks and the sentences derive from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

Row = TypeVar("Row")


def rows_of(module: Mapping[str, object], row_type: type[Row]) -> tuple[Row, ...]:
    """Returns the rows that a module declares, in their order, so that no second list has to name a new one."""
    return tuple(each for each in module.values() if isinstance(each, row_type))

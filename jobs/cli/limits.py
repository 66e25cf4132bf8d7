"""The option by which a command prints only the last of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from groupledger.jobs.process.output import say

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Only the last N.")

Kind = TypeVar("Kind")


def last(rows: Sequence[Kind], limit: int) -> Sequence[Kind]:
    """Returns the last `limit` rows, and reports how many earlier ones are left out."""
    if len(rows) > limit:
        say(f"{len(rows) - limit:,} before these are left out: see --limit")
    return rows[-limit:]

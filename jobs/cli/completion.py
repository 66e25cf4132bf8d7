"""Completes names of groups and topics in bash, zsh and fish, from the warehouse that the command or the environment
names. `eval "$(_GROUPLEDGER_COMPLETE=bash_source groupledger)"` turns it on.

Names come from clients, so only names are offered that a shell treats as plain words. If the warehouse can't be read,
nothing is offered, since an error message would disturb the line that the user types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from groupledger.jobs.process.errors import JobError

if TYPE_CHECKING:
    import click

PLAIN = re.compile(r"[A-Za-z0-9._/@+][A-Za-z0-9._/@+=-]*", re.ASCII)
NAMES_MAX = 500


def group_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "groups", "group_id")


def topic_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return _names(ctx, incomplete, "assignments", "topic")


def place_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Completes a place that may begin with a group: the first word is a group or a topic, the second a topic."""
    groups = [] if ctx.params.get("place") else group_names(ctx, param, incomplete)
    return [*groups, *topic_names(ctx, param, incomplete)]


def _names(ctx: click.Context, incomplete: str, table: str, column: str) -> list[str]:
    """Returns the names that begin with the typed text, in alphabetical order, up to a limit."""
    warehouse = ctx.params.get("warehouse")
    if warehouse is None:
        return []
    from groupledger.jobs.cli.options import Job

    try:
        job = Job("", warehouse, ctx.params.get("cluster"), ctx.params.get("conf"))
        tables = job.rows()
        rows = tables.query(
            f"SELECT DISTINCT {column} AS name FROM rows WHERE starts_with({column}, $typed) ORDER BY name",  # noqa: S608
            {"typed": incomplete},
            rows=tables.scan_if_any(table, columns=(column,)),
        )
    except JobError:
        return []
    return [row["name"] for row in rows if PLAIN.fullmatch(row["name"])][:NAMES_MAX]

"""The group's name as an argument, as all commands about one group take it."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.completion import group_names

if TYPE_CHECKING:
    from collections.abc import Callable


def group_name(command: Callable[..., object]) -> Callable[..., object]:
    """Gives a command the group's NAME as an argument that may be missing; `--group NAME`, the older spelling, still
    works. The command gets it as `name`."""

    @wraps(command)
    def run(*, name: str | None, old_name: str | None, **others: Any) -> object:
        if name is not None and old_name is not None:
            raise click.UsageError("Give the group once, as NAME.")
        return command(name=name if name is not None else old_name, **others)

    run = click.option("--group", "old_name", metavar="GROUP", hidden=True, shell_complete=group_names)(run)
    return click.argument("name", required=False, shell_complete=group_names)(run)

"""Names as arguments: the group's, as all commands about one group take it, and a partition's."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from groupledger.jobs.cli.completion import group_names, place_names

if TYPE_CHECKING:
    from collections.abc import Callable


PARTITION: click.ParamType[int] = click.IntRange(min=0)


def group_name(command: Callable[..., object]) -> Callable[..., object]:
    """Adds the group's NAME to a command as an optional argument; `--group NAME`, the older spelling, still works. The
    command gets it as `name`."""

    @wraps(command)
    def run(*, name: str | None, old_name: str | None, **others: Any) -> object:
        if name is not None and old_name is not None:
            raise click.UsageError("Give the group once, as NAME.")
        return command(name=name if name is not None else old_name, **others)

    run = click.option("--group", "old_name", metavar="GROUP", hidden=True, shell_complete=group_names)(run)
    return click.argument("name", required=False, shell_complete=group_names)(run)


def owned_place(command: Callable[..., object]) -> Callable[..., object]:
    """Adds `[NAME] TOPIC PARTITION` to a command as arguments. It gets them as `name`, None if missing, `topic` and
    `partition`."""

    @wraps(command)
    def run(*, place: tuple[str, ...], **others: Any) -> object:
        if len(place) not in (2, 3):
            raise click.UsageError("Give TOPIC PARTITION, or the group, too: NAME TOPIC PARTITION.")
        *names, topic, number = place
        partition = PARTITION.convert(number, None, click.get_current_context())
        return command(name=names[0] if names else None, topic=topic, partition=partition, **others)

    metavar = "[NAME] TOPIC PARTITION"
    return click.argument("place", nargs=-1, required=True, metavar=metavar, shell_complete=place_names)(run)

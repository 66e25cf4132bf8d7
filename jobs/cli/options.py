"""What the commands have in common: their options, and where they talk."""

from __future__ import annotations

from pathlib import Path

import click

WAREHOUSE = click.option(
    "--warehouse", required=True, metavar="DIR", help="Where the Delta tables lie: a directory or a URI."
)
CLUSTER = click.option("--cluster", metavar="NAME", help="The cluster's name in the tables; overrides the settings.")
CONF = click.option("--conf", type=click.Path(path_type=Path), metavar="FILE", help="Settings that differ from ours.")


def say(text: str) -> None:
    """Talk about progress goes to standard error, what was asked for to standard output."""
    click.echo(text, err=True)

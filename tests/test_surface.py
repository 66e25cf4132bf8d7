"""Goal: nothing that users rely on disappears or changes its type unseen, and new things are written down."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import click

from groupledger.jobs.cli.main import main as command_line
from groupledger.jobs.process.settings import Settings, load_settings
from groupledger.jobs.serve.answers import Warehouse
from groupledger.jobs.serve.app import questions
from tools.surface import ROOT, SURFACE, sections, surface

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel


def test_the_surface_is_as_written_down() -> None:
    written, found = set(SURFACE.read_text().splitlines()), set(surface())
    assert not written - found, "Users rely on these: docs/upgrades.md says how something may go."
    assert not found - written, "These are new: run `python -m tools.surface`."


def test_every_kind_is_there() -> None:
    """Goal: a part of the list that comes out empty is noticed."""
    kinds = Counter(line.split()[0] for line in surface())
    assert sorted(kinds) == ["command", "http", "metric", "python", "setting", "table"]
    assert min(kinds.values()) > 20


def test_what_may_go_is_announced() -> None:
    """Goal: CHANGELOG.md announces each field, command, option and setting that is marked as deprecated."""
    announced = "".join(
        re.findall(r"^### Deprecated\n(.*?)^##", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE | re.DOTALL)
    )
    may_go = {*of_commands(command_line), *of_settings(Settings), *of_json()}
    assert "owns" in may_go
    assert [name for name in may_go if f"`{name}`" not in announced] == []


def of_commands(command: click.Command) -> Iterator[str]:
    """Yields the names of deprecated commands and options."""
    if command.deprecated and command.name:
        yield command.name
    yield from (each.opts[0] for each in command.params if getattr(each, "deprecated", False))
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from of_commands(each)


def of_settings(model: type[BaseModel]) -> Iterator[str]:
    """Yields the names of deprecated settings."""
    for name, field in model.model_fields.items():
        if field.deprecated:
            yield name
        for each in sections(field.annotation):
            yield from of_settings(each)


def of_json() -> Iterator[str]:
    """Yields the names of deprecated fields of answers."""
    for schema in questions(Warehouse(".", load_settings())).openapi()["components"]["schemas"].values():
        yield from (name for name, field in schema.get("properties", {}).items() if field.get("deprecated"))

"""Goal: nothing that users rely on disappears or changes its type unseen, and what is new is written down."""

from __future__ import annotations

from collections import Counter

from tools.surface import SURFACE, surface


def test_the_surface_is_as_written_down() -> None:
    written, found = set(SURFACE.read_text().splitlines()), set(surface())
    assert not written - found, "Users rely on these: docs/upgrades.md says how something may go."
    assert not found - written, "These are new: run `python -m tools.surface`."


def test_every_kind_is_there() -> None:
    """Goal: a part of the list that comes out empty is noticed."""
    kinds = Counter(line.split()[0] for line in surface())
    assert sorted(kinds) == ["command", "http", "metric", "python", "setting", "table"]
    assert min(kinds.values()) > 20

"""Goal: no error is made its own cause, for a chain of causes that leads back to itself has no end."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("schemas", "coordinator", "transforms", "jobs", "lab", "bench", "tools")


def own_causes(source: str) -> list[int]:
    """Returns the lines of `raise X from Y` in which X may be Y itself."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Raise) and isinstance(node.cause, ast.Name) and node.exc is not None
        for each in _values(node.exc)
        if isinstance(each, ast.Name) and each.id == node.cause.id
    ]


def _values(raised: ast.expr) -> list[ast.expr]:
    return [raised.body, raised.orelse] if isinstance(raised, ast.IfExp) else [raised]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_error_is_its_own_cause(folder: str) -> None:
    sources = sorted((ROOT / folder).rglob("*.py"))
    assert sources
    assert [(str(path), line) for path in sources for line in own_causes(path.read_text())] == []


def test_the_look_itself() -> None:
    assert own_causes("try: f()\nexcept E as e: raise (e if x else F()) from e") == [2]
    assert own_causes("try: f()\nexcept E as e: raise F() from e") == []

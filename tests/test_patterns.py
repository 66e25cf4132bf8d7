"""Goal: no text can stall a job: every pattern of the product reads a text in linear time."""

from __future__ import annotations

import ast
import gc
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from groupledger.schemas.kafka.log_template import Template
from tests.pattern_cost import ANCHORED, why_not_linear

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("schemas", "coordinator", "transforms", "jobs") for path in (ROOT / folder).rglob("*.py")]
# Made of texts that ship with the product: the first by `Template`, see below; the second reads `conf/queries`.
OWN_TEXTS = {"schemas/kafka/log_template.py", "jobs/ask/named_queries.py"}
USES = {"search", "match", "fullmatch", "sub", "split", "findall", "finditer", "compile"}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def calls(path: Path) -> list[ast.Call]:
    """The calls of `re` in a file."""
    return [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in USES
    ]


@cache
def methods() -> dict[str, set[str]]:
    """What is asked of each name, anywhere: `PREFIX.match` is a match of PREFIX."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in USES:
                found.setdefault(node.value.id, set()).add(node.attr)
    return found


def constants(path: Path) -> dict[int, str]:
    """The names of a module's own patterns, by line."""
    return {node.value.lineno: node.targets[0].id
            for node in tree(path).body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip


def written(node: ast.expr) -> str | bytes:
    """Returns the text of a pattern; a value that is put into it counts as a word."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "word" for part in node.values)
    assert isinstance(node, ast.Constant), "a pattern that is made at run time: nobody can say what it costs"
    assert isinstance(node.value, (str, bytes))
    return node.value


def patterns(path: Path) -> list[tuple[str | bytes, str, int]]:
    """Returns the patterns of a file, the function that uses each (if several do, a search), and their flags."""
    names, found = constants(path), []
    for call in calls(path):
        assert isinstance(call.func, ast.Attribute)
        name = names.get(call.lineno)
        if call.func.attr == "compile" and name is not None:
            module = import_module("groupledger." + ".".join(path.relative_to(ROOT).with_suffix("").parts))
            compiled = getattr(module, name)
            asked = methods().get(name, set())
            method = min(asked) if asked and asked <= ANCHORED else "search"  # a fullmatch costs more than a match
            found.append((compiled.pattern, method, compiled.flags & ~re.UNICODE))
        else:
            found.append((written(call.args[0]), call.func.attr, 0))
    return found


WITH_PATTERNS = [str(path.relative_to(ROOT)) for path in FILES if calls(path)]


@pytest.mark.parametrize("file", sorted({*WITH_PATTERNS} - OWN_TEXTS))
def test_patterns_are_linear(file: str) -> None:
    """Goal: a line, a name or a file that is made to make a pattern go back costs no more than any other."""
    found = patterns(ROOT / file)
    assert found
    slow = {pattern: why_not_linear(pattern, method, flags) for pattern, method, flags in found}
    assert {pattern: why for pattern, why in slow.items() if why} == {}


def test_templates_are_linear() -> None:
    """Goal: the patterns that are made of the texts of Kafka's server log are linear, each of them."""
    import_module("groupledger.transforms.logs.rules.server_log")
    gc.unfreeze()  # otherwise objects that were frozen after a file of tests are left out
    templates = [each for each in gc.get_objects() if isinstance(each, Template)]
    assert len(templates) > 80
    for each in templates:
        parts = [(each._head, "match"), *((part, "search") for part in each._between), (each._tail, "search")]
        for part, method in parts:
            assert why_not_linear(part.pattern, method) is None, part.pattern


@pytest.mark.parametrize(
    ("pattern", "method", "is_linear"),
    [
        (r" \((?P<logger>[\w.$]+)\)(?: \[[^\]]*\])?\Z", "search", False),
        (r" \((?P<logger>[\w.$]+)\)(?: \[[^\]]*\])?\Z", "match", True),
        (r".+:\d+-(?P<host>.+):\d+-\d+(?:-\d+)?\Z", "match", False),
        (r"(a+)+b", "match", False),
        (r"(?:a|b|ab)*c", "match", False),
        (r"(?:x*y*)*z", "match", False),
        (r"(?:a*,)*b", "match", True),
        (r"a*b?a*c", "match", False),
        (r"a*ba*c", "match", True),
        (r" {2,}.+", "match", True),
        (r" {2,}.+", "fullmatch", False),
        (r" {2,}.+$", "match", False),
        (r"\d+\s*\d+x", "match", False),
        (r"\d+\s\d+x", "match", True),
        (r"\s+x", "search", False),
        (r"\s+x", "match", True),
        (r"\s+\Z", "search", False),
        (r"\A\s+x", "search", True),
        (r"(?<=clientHost=)[^,)]*", "sub", True),
        (r"x(?:[^b]*b)?", "sub", False),
        (r"A+b", "search", False),
        (r"(?i)b*B*c", "match", False),
        (r"b*B*c", "match", True),
    ],
)
def test_the_proof_itself(pattern: str, method: str, *, is_linear: bool) -> None:
    """Goal: the proof distinguishes slow patterns, known ones and former ones of the product, from linear ones."""
    assert (why_not_linear(pattern, method) is None) == is_linear

"""Nothing inside the coordinator may depend on anything but its arguments."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "coordinator").rglob("*.py"))
FORBIDDEN_MODULES = {
    "asyncio",
    "io",
    "logging",
    "os",
    "pathlib",
    "pyspark",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
FORBIDDEN_CALLS = {"hash", "id", "input", "open", "print"}
FORBIDDEN_METHODS = {"now", "today", "utcnow"}
ORDER_MATTERS = {"enumerate", "iter", "join", "list", "map", "next", "reversed", "tuple", "zip"}


def violations(source: str) -> list[str]:
    """Imports and calls that bring in time, chance, identity or I/O, and iterations over a set's own order."""
    tree = ast.parse(source)
    sets = set_names(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [name for name in imported(node) if name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.Call):
            found += call_violations(node, sets)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            own = {name_of(part) for each in node.generators for part in ast.walk(each.target)}
            found += ["for in set" for each in node.generators if is_set(each.iter, sets - own)]
        elif (isinstance(node, ast.For) and is_set(node.iter, sets)) or (
            isinstance(node, ast.Starred) and is_set(node.value, sets)
        ):
            found.append("for in set")
    return found


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]


def call_violations(node: ast.Call, sets: set[str]) -> list[str]:
    name = callee(node)
    found = []
    if name in (FORBIDDEN_METHODS if isinstance(node.func, ast.Attribute) else FORBIDDEN_CALLS):
        found.append(f"{name}()")
    if name in ORDER_MATTERS and any(is_set(argument, sets) for argument in node.args):
        found.append(f"{name}(set)")
    if isinstance(node.func, ast.Attribute) and name == "pop" and not node.args and is_set(node.func.value, sets):
        found.append("set.pop()")
    return found


def callee(node: ast.Call) -> str:
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def is_set(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is a set, as far as its form or its name's declaration in the module shows."""
    if isinstance(node, (ast.Set, ast.SetComp)):
        return True
    if isinstance(node, ast.Call):
        methods = {"union", "intersection", "difference", "symmetric_difference"}
        return callee(node) in {"set", "frozenset"} | methods
    if isinstance(node, ast.BinOp):
        return is_set(node.left, names) or is_set(node.right, names)
    return (isinstance(node, ast.Name) and node.id in names) or (isinstance(node, ast.Attribute) and node.attr in names)


def set_names(tree: ast.Module) -> set[str]:
    """Variables, fields and arguments that are declared as sets, or assigned one."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and is_set_annotation(node.annotation):
            names.add(name_of(node.target))
        elif isinstance(node, ast.arg) and node.annotation is not None and is_set_annotation(node.annotation):
            names.add(node.arg)
        elif isinstance(node, ast.Assign) and is_set(node.value, set()):
            names.update(name_of(target) for target in node.targets)
    return names - {""}


def is_set_annotation(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return text.startswith(("set[", "frozenset[", "AbstractSet["))


def name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_is_pure(path: Path) -> None:
    """No clock, chance, identity, I/O or set order in any file of the coordinator."""
    assert violations(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from os import path",
        "import uuid as u",
        "from random import choice",
        "h = hash(x)",
        "datetime.now()",
        "for x in {1, 2}: pass",
        "s = set(y)\nlist(s)",
        "def f(s: set[str]): return [x for x in s]",
        "s: frozenset[int] = z\nprint_all(*s)",
        "','.join({str(x) for x in y})",
        "self.ids = {1}\nself.ids.pop()",
        "for x in set(a) | b: pass",
    ],
)
def test_lint_finds(source: str) -> None:
    """The check sees what it is there for."""
    assert violations(source) != []


@pytest.mark.parametrize("source", ["s = {1}\n2 in s", "for x in sorted({1, 2}): pass", "s = set()\ns.discard(1)"])
def test_lint_allows(source: str) -> None:
    """A set may be asked and sorted."""
    assert violations(source) == []


def test_same_bytes_under_any_hash_seed() -> None:
    """Records, responses and log lines of every scenario are the same in processes that hash strings differently."""
    digests = set()
    for seed in ("0", "1", "4711"):
        command = [sys.executable, str(Path(__file__).parent / "digest.py")]
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        digests.add(run.stdout)
    (digest,) = digests
    assert len(digest) == 64

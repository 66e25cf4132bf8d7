"""Parses YAML that a user wrote: settings, a script of faults, a script of the simulation.

PyYAML bounds nothing. A few hundred bytes of aliases can expand to more values than any memory holds, as soon as they
are walked through or merged (`<<`). So the text is composed first, which keeps an alias as a reference, and its
expanded size is counted before any value is constructed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from groupledger.jobs.process.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

CHARACTERS_MAX = 1 << 18
# A cluster has some tens of settings, and a warehouse some hundreds of clusters.
VALUES_MAX = 100_000
# Numbers have forms (1:30:00) whose reading takes the square of their length.
NUMBER_CHARACTERS_MAX = 100
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def parse_yaml(text: str, name: str) -> dict[str, Any]:
    """Returns the parsed text. Raises InputError, which names the text but shows nothing of it."""
    if len(text) > CHARACTERS_MAX:
        raise InputError(f"{name} is too long: it has more than {CHARACTERS_MAX:,} characters.")
    try:
        parsed = loaded(text, name)
    except yaml.YAMLError as error:
        raise InputError(f"{name} is not valid YAML: {what_is_wrong(error)}.") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        text = "a value looks like a number or a date, but is neither; put it in quotes"
        raise InputError(f"{name} is not valid YAML: {text}.") from error
    except RecursionError as error:
        raise InputError(f"{name} is not valid YAML: it is nested too deeply.") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise InputError(f"{name} must hold settings as `key: value` lines.")
    return parsed


def loaded(text: str, name: str) -> Any:
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if count(root, {}) > VALUES_MAX:
            raise InputError(f"{name} has more than {VALUES_MAX:,} values, with those that its aliases repeat.")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def count(node: yaml.Node, counted: dict[int, float]) -> float:
    """Returns how many values a node has with its aliases expanded; infinite if it contains itself. `counted` has the
    counts of nodes that were met before."""
    if id(node) not in counted:
        counted[id(node)] = float("inf")
        counted[id(node)] = 1 + sum(count(each, counted) for each in below(node))
    return counted[id(node)]


def below(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif node.tag in NUMBERS and len(node.value) > NUMBER_CHARACTERS_MAX:
        raise ValueError(node.tag)


def what_is_wrong(error: yaml.YAMLError) -> str:
    """Returns where the text is wrong, and what is wrong if that can be said without showing the text, which may
    contain a secret."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    how = problem if isinstance(error, (yaml.scanner.ScannerError, yaml.parser.ParserError)) else "the syntax is wrong"
    return str(how) if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {how}"

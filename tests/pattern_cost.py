r"""Decides from a pattern, without a clock, whether Python's `re` reads a text in time that grows as the text does.

`re` tries one way after the other. It looks at a part of a text more than a fixed number of times if and only if the
pattern, as an automaton, has two loops, the second reached from the first, that can read the same characters, and so
can the way between them: `a*a*`, `.+:\d+-.+:\d+`. A search begins anew at each character, which is such a loop before
the pattern: `\s+x`. And a loop that can be gone round in two ways, `(a+)+`, costs twice as much with each character.
(Weideman, van der Merwe, Berglund, Watson: Analyzing matching time behavior of backtracking regular expression
matchers, 2016.) A loop after which the pattern may end does no harm: a match that comes to it has succeeded and goes
back no more, and a search goes on after the match."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_parser = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
CHARACTERS = frozenset(map(chr, range(128))) | set("é٣ \u2028")
COPIES_MAX = 300
ANCHORED = {"match", "fullmatch"}
_EMPTY: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Part:
    """A part of a pattern: whether it may be empty, and with which characters it may begin and end."""

    may_be_empty: bool = True
    first: frozenset[int] = _EMPTY
    last: frozenset[int] = _EMPTY


@dataclass
class Automaton:
    """The characters of a pattern, numbered, each with the set that it may be, and those that may come next."""

    ignores_case: bool
    is_conditional: bool = False  # it asks for more than characters: an end, a boundary, the next character
    characters: list[frozenset[str]] = field(default_factory=list)
    next: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def of(self, nodes: Iterable[Any]) -> Part:
        whole = Part()
        for op, argument in nodes:
            self.is_conditional |= bool(self.characters) and str(op) in {"AT", "ASSERT", "ASSERT_NOT"}
            whole = self._then(whole, self._part(str(op), argument))
        return whole

    def character(self, allowed: Callable[[str], bool]) -> Part:
        here = frozenset({len(self.characters)})
        both = (lambda each: allowed(each.lower()) or allowed(each.upper())) if self.ignores_case else allowed
        self.characters.append(frozenset(filter(both, CHARACTERS)))
        return Part(may_be_empty=False, first=here, last=here)

    def _then(self, before: Part, after: Part) -> Part:
        self.connect(before.last, after.first)
        return Part(
            before.may_be_empty and after.may_be_empty,
            before.first | after.first if before.may_be_empty else before.first,
            before.last | after.last if after.may_be_empty else after.last,
        )

    def connect(self, last: frozenset[int], first: frozenset[int]) -> None:
        for one, other in product(last, first):
            self.next[one][other] += 1

    def _part(self, op: str, argument: Any) -> Part:
        if op in {"LITERAL", "NOT_LITERAL", "ANY", "IN"}:
            return self.character(_allowed(op, argument))
        if op == "SUBPATTERN":
            return self.of(argument[-1])
        if op == "BRANCH":
            return self._branch([self.of(each) for each in argument[1]])
        if op in {"MAX_REPEAT", "MIN_REPEAT"}:
            return self._repeat(*argument)
        if op in {"ASSERT", "ASSERT_NOT"}:
            assert argument[1].getwidth()[1] <= COPIES_MAX, "an assertion without a limit"
            return Part()
        assert op == "AT", f"{op}: teach this module what it costs"
        return Part()

    @staticmethod
    def _branch(parts: list[Part]) -> Part:
        assert sum(each.may_be_empty for each in parts) <= 1, "several ways to read nothing"
        return Part(
            any(each.may_be_empty for each in parts),
            frozenset().union(*(each.first for each in parts)),
            frozenset().union(*(each.last for each in parts)),
        )

    def _repeat(self, least: int, most: Any, nodes: Any) -> Part:
        is_endless = str(most) == "MAXREPEAT"
        copies = max(least, 1) if is_endless else most
        assert copies <= COPIES_MAX, f"{copies} repetitions are too many to look at"
        whole = Part()
        for number in range(copies):
            each = self.of(nodes)
            if number == copies - 1 and is_endless:
                self.connect(each.last, each.first)
            optional = Part(each.may_be_empty or number >= least, each.first, each.last)
            whole = self._then(whole, optional)
        return whole


def _allowed(op: str, argument: Any) -> Callable[[str], bool]:
    if op == "LITERAL":
        return lambda each: each == chr(argument)
    if op == "NOT_LITERAL":
        return lambda each: each != chr(argument)
    if op == "ANY":
        return lambda _: True  # a line's end, too: DOTALL is the more expensive reading
    is_negated = str(argument[0][0]) == "NEGATE"
    items = [(str(kind), value) for kind, value in argument if str(kind) != "NEGATE"]
    return lambda each: is_negated != any(_is_in(each, kind, value) for kind, value in items)


def _is_in(each: str, kind: str, value: Any) -> bool:
    if kind == "LITERAL":
        return each == chr(value)
    if kind == "RANGE":
        return bool(value[0] <= ord(each) <= value[1])
    name = str(value).removeprefix("CATEGORY_")
    is_in = re.fullmatch(CATEGORIES[name.removeprefix("NOT_")], each) is not None
    return is_in != name.startswith("NOT_")


def why_not_linear(pattern: str | bytes, method: str, flags: int = 0) -> str | None:
    """Returns what makes `method` (match, fullmatch; all others search) slower than linear; None if nothing does."""
    tree = _parser.parse(pattern, flags)
    automaton = Automaton(bool(tree.state.flags & re.IGNORECASE))
    whole = automaton.of(tree)
    is_bound = method in ANCHORED or (len(tree) > 0 and str(tree[0][1]) == "AT_BEGINNING_STRING")
    anywhere = Part() if is_bound else automaton.character(lambda _: True)
    automaton.connect(anywhere.last, anywhere.first | whole.first)
    ends = _EMPTY if method == "fullmatch" or automaton.is_conditional else whole.last
    loops = {each: _loop_of(automaton, each) for each in list(automaton.next)}
    for one, loop in loops.items():
        if any(automaton.next[each][other] > 1 for each in loop for other in loop):
            return f"a loop that can be gone round in two ways: {_shown(automaton, one)}"
    for one, other in product(loops, loops):
        if one == other or not loops[one] or not loops[other] or loops[other] <= ends:
            continue
        if _read_the_same(automaton, one, other, loops):
            before = "a search" if one in anywhere.first else _shown(automaton, one)
            return f"{before} and {_shown(automaton, other)} read the same"
    return None


def _loop_of(automaton: Automaton, one: int) -> frozenset[int]:
    """Returns the characters that lie on ways from one back to itself."""
    ahead = _reached(one, lambda each: automaton.next[each])
    back = defaultdict(set)
    for each in ahead:
        for other in automaton.next[each]:
            back[other].add(each)
    return frozenset(ahead & _reached(one, lambda each: back[each]))


def _reached(one: int, following: Callable[[int], Iterable[int]]) -> set[int]:
    found: set[int] = set()
    waiting = [one]
    while waiting:
        for each in following(waiting.pop()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def _read_the_same(automaton: Automaton, one: int, other: int, loops: dict[int, frozenset[int]]) -> bool:
    """Tells whether there is a text that leads from one back to one, from one to the other, and from there back."""
    waiting: list[tuple[int, ...]] = [(one, one, other)]
    seen = set(waiting)
    while waiting:
        for after in product(*(automaton.next[each] for each in waiting.pop())):
            if after[0] not in loops[one] or after[2] not in loops[other] or after in seen:
                continue
            if frozenset.intersection(*(automaton.characters[each] for each in after)):
                if after == (one, other, other):
                    return True
                seen.add(after)
                waiting.append(after)
    return False


def _shown(automaton: Automaton, each: int) -> str:
    found = "".join(sorted(automaton.characters[each] & set(map(chr, range(32, 127)))))
    return f"the loop of {found[:20]!r}"

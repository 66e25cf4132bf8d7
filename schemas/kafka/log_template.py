"""Renders texts with names in them, such as `Member {member_id} in group {group_id} has failed.`, and splits them into
the names.

A name may contain anything, also the template's own words, so a text may be split in several ways. The leftmost split
takes the words between names at the first places where they fit. If no other split exists, it is certain. If others
exist, the template has two names, and in only one of all splits both values are plausible, that one is taken as
certain. Otherwise the leftmost split is taken as not certain. The work is linear in the length of the text, so nobody
can keep an import busy by the name of a group.

Values of placeholders that end in `:int` or `:word` can't be mistaken for other text. They are matched together with
the words around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_PLACEHOLDER = re.compile(r"\{(\w+)(?::(int|word))?\}")
_TYPED = {"int": r"-?\d+", "word": r"\w+"}
PLACES_MAX = 16
_READINGS_NAMES = 2


def read_templates(block: str) -> list[tuple[str, str]]:
    """Returns the kind and the text of each entry of a list. An entry is a line `kind: text`; indented lines after it
    continue its text."""
    found: list[tuple[str, str]] = []
    for line in block.strip().splitlines():
        if line.startswith(" "):
            kind, text = found.pop()
            found.append((kind, f"{text} {line.strip()}"))
        else:
            kind, _, text = line.partition(": ")
            found.append((kind, text))
    return found


class Format(NamedTuple):
    """A text for `str.format_map`, and the names that it needs."""

    text: str
    names: frozenset[str]


def formats_by_kind(templates: Iterable[tuple[str, str]]) -> dict[str, list[Format]]:
    """Returns, by kind, the texts of its templates as formats, in their order."""
    formats: dict[str, list[Format]] = {}
    for kind, text in templates:
        names = frozenset(found[1] for found in _PLACEHOLDER.finditer(text))
        formats.setdefault(kind, []).append(Format(_PLACEHOLDER.sub(r"{\1}", text), names))
    return formats


def current_formats(templates: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the first text of each kind, which is the newest broker's, as a format for `str.format_map`."""
    return {kind: formats[0].text for kind, formats in formats_by_kind(templates).items()}


@dataclass(frozen=True, slots=True)
class Split:
    fields: dict[str, str]
    is_certain: bool


class Template:
    """A text with placeholders by which other texts are split. `plausible` has, for some placeholders, a function that
    returns whether a value is possible."""

    def __init__(self, text: str, plausible: Mapping[str, Callable[[str], bool]]) -> None:
        self._names: list[str] = []
        patterns = [""]
        position = 0
        for found in _PLACEHOLDER.finditer(text):
            patterns[-1] += re.escape(text[position : found.start()])
            position = found.end()
            if found[2]:
                patterns[-1] += f"(?P<{found[1]}>{_TYPED[found[2]]})"
            else:
                self._names.append(found[1])
                patterns.append("")
        patterns[-1] += re.escape(text[position:])
        if not self._names:
            patterns = [patterns[0] + r"\Z", ""]
        self._head = re.compile(patterns[0])
        self._between = [re.compile(pattern) for pattern in patterns[1:-1]]
        self._tail = re.compile(patterns[-1] + r"\Z")
        self._plausible = plausible

    def fits(self, text: str) -> bool:
        """Returns whether a text matches the template, in one way or in several."""
        return self._leftmost(text) is not None

    def split(self, text: str) -> Split | None:
        """Returns the values of the placeholders, and whether they are certain; None if the text does not match the
        template."""
        places = self._leftmost(text)
        if places is None:
            return None
        leftmost = self._fields(text, places)
        head, *between, tail = places
        if not between or self._is_only(text, between, tail.start()):
            return Split(leftmost, is_certain=True)
        return self._most_plausible(text, head, tail) or Split(leftmost, is_certain=False)

    def _leftmost(self, text: str) -> list[re.Match[str]] | None:
        """Returns the places of the texts around names: the first, those between, the last."""
        head = self._head.match(text)
        tail = None if head is None else self._tail.search(text, head.end())
        if head is None or tail is None:
            return None
        places = [head]
        for pattern in self._between:
            place = pattern.search(text, places[-1].end(), tail.start())
            if place is None:
                return None
            places.append(place)
        return [*places, tail]

    def _is_only(self, text: str, places: list[re.Match[str]], end: int) -> bool:
        """Returns whether each text between names has one place only: none further right leaves room for the next."""
        for index in range(len(places) - 1, -1, -1):
            later = self._between[index].search(text, places[index].start() + 1, end)
            if later is not None:
                return False
            end = places[index].start()
        return True

    def _most_plausible(self, text: str, head: re.Match[str], tail: re.Match[str]) -> Split | None:
        """Returns the only reading in which both names are plausible; with more names there are too many to look at."""
        if len(self._names) != _READINGS_NAMES:
            return None
        found = []
        place = self._between[0].search(text, head.end(), tail.start())
        for _ in range(PLACES_MAX):
            if place is None:
                break
            fields = self._fields(text, [head, place, tail])
            if all(self._plausible[name](fields[name]) for name in self._names if name in self._plausible):
                found.append(fields)
            place = self._between[0].search(text, place.start() + 1, tail.start())
        return Split(found[0], is_certain=True) if place is None and len(found) == 1 else None

    def _fields(self, text: str, places: list[re.Match[str]]) -> dict[str, str]:
        fields = {}
        for name, before, after in zip(self._names, places, places[1:], strict=False):
            fields[name] = text[before.end() : after.start()]
        for place in places:
            fields.update(place.groupdict())
        return fields

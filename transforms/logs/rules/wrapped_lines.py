"""Removes container prefixes from a file's lines, and joins lines that a container has cut. Pure Python, a line at a
time.

The driver uses this to find where entries begin and end, and tasks use it to read them, so both must get the same
result. This is so because the state is empty wherever an entry begins, and splits begin only there.

A line that begins no entry continues one, and a name with a line break can make such a line look like anything. So only
prefixes with the same sources as those of the entry's first line are removed from it. A line with other prefixes stays
as it is. Lines of another source of the same kind belong to another entry.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from groupledger.schemas.kafka.log4j_line import begins_entry
from groupledger.transforms.logs.rules.prefixes import layer_of

LAYERS_MAX = 4
# Lines that are under way at once, of several containers in one file.
OPEN_MAX = 16
_YEARS = ("[19", "[20", "[21")
_IGNORED = "\ufeff\0"  # a byte order mark; and zeros, where a file was cut while it was written, or a machine crashed


class Taken(NamedTuple):
    """Holds a line without its prefixes. It begins on `first_line` of the file and takes `line_count` lines. If it
    `goes_on`, its rest is still to come, and `text` is its first part only. `outer_us` is the time in its prefix.
    `is_of_another`: it belongs to another source than the entry before it."""

    text: str
    first_line: int
    line_count: int = 1
    outer_us: int | None = None
    goes_on: bool = False
    is_of_another: bool = False


@dataclass(slots=True)
class _Open:
    first_line: int
    outer_us: int | None
    parts: list[str]
    characters: int

    def joined(self) -> str:
        return "".join(self.parts)


@dataclass(slots=True)
class WrappedLines:
    """Holds the state of one file: lines whose rest is still to come, by source, and the prefix layers of the last
    entry, which are empty for a line without prefix, and None before the first entry."""

    characters_max: int
    _open: dict[str, _Open] = field(default_factory=dict)
    _source: str | None = None

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def take_plain(self, text: str) -> bool:
        """Takes a line and returns True if the line begins with a time of Kafka's own form, and the entry before it had
        no prefixes either. Returns False for any other line, which must then be passed to `take`."""
        if self._source or self._open or not text.startswith(_YEARS):
            return False
        self._source = ""
        return True

    def take(self, line_number: int, text: str) -> Taken:
        """Takes the next line of the file and returns it without the prefixes of its containers.

        If a container cut a line and its rest is still to come, `goes_on` is true and the text is its first part only.
        The call with the last part returns the whole line, under the number of its first part. When the joined parts
        have more than `characters_max` characters, the call returns what is joined, and the next part begins a line.
        """
        if self.take_plain(text):
            return Taken(text, line_number)
        inner, source, outer_us, joined = text.lstrip(_IGNORED), "", None, None
        for _ in range(LAYERS_MAX):
            layer = None if begins_entry(inner) else layer_of(inner)
            if layer is None:
                break
            source, inner = f"{source}\0{layer.source}", layer.text
            outer_us = outer_us if layer.time_us is None else layer.time_us
            if layer.is_partial is not None:
                before = self._add(source, line_number, inner, outer_us, goes_on=layer.is_partial)
                if before is not None and source in self._open:
                    return Taken(before.parts[0], before.first_line, len(before.parts), outer_us, goes_on=True)
                if before is not None:
                    joined, inner, outer_us = before, before.joined(), before.outer_us
        taken = self._placed(Taken(inner, line_number, outer_us=outer_us), source, text)
        if joined is None:
            return taken
        return taken._replace(first_line=joined.first_line, line_count=len(joined.parts))

    def _add(self, source: str, line_number: int, text: str, outer_us: int | None, *, goes_on: bool) -> _Open | None:
        """Returns the line that this part belongs to; it is open still if it goes on. None for a line that is whole."""
        before = self._open.get(source)
        if before is None:
            if not goes_on or len(self._open) >= OPEN_MAX:
                return None
            before = self._open[source] = _Open(line_number, outer_us, [], 0)
        before.parts.append(text)
        before.characters += len(text)
        if not goes_on or before.characters > self.characters_max:
            del self._open[source]
        return before

    def _placed(self, taken: Taken, source: str, whole: str) -> Taken:
        """Returns the line as it belongs to the entry before it, or begins one."""
        if begins_entry(taken.text):
            self._source = source
            return taken
        if self._source is None or source == self._source:
            return taken
        if self._source and source.count("\0") == self._source.count("\0"):
            return taken._replace(is_of_another=True)
        return taken._replace(text=whole)

    def rest(self) -> list[Taken]:
        """Returns the lines whose rest did not come before the end of the file."""
        found = [Taken(each.joined(), each.first_line, len(each.parts), each.outer_us) for each in self._open.values()]
        self._open.clear()
        return found

    def copy(self) -> WrappedLines:
        opened = {source: replace(each, parts=[*each.parts]) for source, each in self._open.items()}
        return replace(self, _open=opened)

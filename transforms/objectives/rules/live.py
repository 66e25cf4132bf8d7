"""Counts a group's minutes in several windows that all end with the last whole minute, as time goes on.

Each minute is stored in one byte for as long as the longest window. When a minute is over, each window adds it and
drops its oldest one. So a minute costs the same however long the windows are, and nothing is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.schemas.words import MinuteState
from groupledger.transforms.objectives.rules.burn import MinuteCounts
from groupledger.transforms.objectives.rules.minutes import worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNKNOWN, ON_TIME, LATE = range(3)
CODES = {MinuteState.UNKNOWN: UNKNOWN, MinuteState.ON_TIME: ON_TIME, MinuteState.LATE: LATE}


class LiveWindows:
    """Holds the windows of one group, by name and length in minutes. They reach up to the minute `end`, which is not
    included; minutes are counted since 1970. `runs` are the known states of that minute and earlier ones, each as first
    minute, number of minutes, and their state."""

    def __init__(self, lengths: Mapping[str, int], end: int, runs: Iterable[tuple[int, int, str]] = ()) -> None:
        self.end = end
        self._lengths = dict(lengths)
        self._size = max(lengths.values())
        self._open: str | None = None
        self._states = bytearray(self._size)  # of a minute: at the minute's number modulo the size
        for first, minutes, state in runs:
            for minute in range(max(first, end - self._size), min(first + minutes, end)):
                self._states[minute % self._size] = CODES[state]
            if first <= end < first + minutes:
                self._open = state
        self._counts = {name: self._counted(length) for name, length in self._lengths.items()}

    def observe(self, minute: int, state: str) -> None:
        """Takes the state of a round in a minute. Rounds come in the order of time; a round of a minute that is over is
        ignored."""
        if minute >= self.end:
            self.close_before(minute)
            self._open = state if self._open is None else worst((self._open, state))

    def close_before(self, minute: int) -> None:
        """Ends all minutes before `minute`. Minutes without a round are unknown."""
        if minute - self.end > self._size:  # nothing that was known is in any window
            self._states, self._open, self.end = bytearray(self._size), None, minute
            self._counts = {name: [0, 0, 0] for name in self._lengths}
        while self.end < minute:
            self._add(CODES[self._open or MinuteState.UNKNOWN])
            self._open = None

    def counts(self) -> dict[str, MinuteCounts]:
        return {name: MinuteCounts(counts[ON_TIME], counts[LATE]) for name, counts in self._counts.items()}

    @property
    def knows_nothing(self) -> bool:
        """Returns whether all minutes of all windows are unknown, and the current one, too."""
        return self._open is None and not any(counts.known for counts in self.counts().values())

    def _add(self, code: int) -> None:
        for name, length in self._lengths.items():
            counts = self._counts[name]
            counts[self._states[(self.end - length) % self._size]] -= 1
            counts[code] += 1
        self._states[self.end % self._size] = code
        self.end += 1

    def _counted(self, length: int) -> list[int]:
        begin, end = (self.end - length) % self._size, self.end % self._size
        states = self._states
        parts = [states[begin:end]] if begin < end else [states[begin:], states[:end]]
        return [sum(part.count(code) for part in parts) for code in (UNKNOWN, ON_TIME, LATE)]

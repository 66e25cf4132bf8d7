"""Distinguishes the two passes of an hour that a clock change repeats, by the order of a file's lines.

Times in a file increase. So the second pass begins where time steps back within that hour, and the lines of the hour
before that place are of the first pass. Without a step, the file's modification time may decide: if it lies before the
second pass, all lines are of the first. If neither decides, the pass is not known. A second step back in one hour is
not a clock change, so the passes of such an hour are not known either.

A rotated file continues the one before it (`RepeatedHours.continued`). Lines whose time has a zone, or to which a
container added a time of its own, are never ambiguous, and are skipped here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from groupledger.schemas.kafka.log_time import SECOND_US, instants_us

# Threads write their lines a little out of order, and clocks are set right by seconds.
STEP_US = 60 * SECOND_US
# By how much the clock of the file system may lag that of the broker.
WRITTEN_LATE_US = 60 * SECOND_US
# A file whose clock goes to and fro is not followed for ever.
HOURS_MAX = 64


class Pass(NamedTuple):
    """The pass that a range of lines of a file belongs to; `fold` is 0 for the first pass. `to_line` is None for all
    lines to come."""

    from_line: int
    to_line: int | None
    fold: int


@dataclass(frozen=True, slots=True)
class _Hour:
    """A repeated hour that lines are in; times are those of its first pass. `passed` is the length of the step."""

    passed_us: int
    from_line: int
    highest_us: int
    second_from_line: int | None = None
    is_broken: bool = False

    def passes(self, to_line: int | None) -> tuple[Pass, ...]:
        if self.is_broken or self.second_from_line is None:
            return ()
        first = Pass(self.from_line, self.second_from_line - 1, 0)
        second = Pass(self.second_from_line, to_line, 1)
        return (second,) if self.second_from_line == self.from_line else (first, second)


@dataclass(slots=True)
class RepeatedHours:
    """Holds the state of one file: the repeated hours and the steps back that were found so far."""

    time_zone: str
    _passes: list[Pass] = field(default_factory=list)
    _hour: _Hour | None = None
    _hours: int = 0

    def see(self, line_number: int, second: str) -> bool:
        """Takes the local time of a line, and returns whether it lies in a repeated hour."""
        both = instants_us(second, self.time_zone)
        if both is None:
            return self._hour is not None
        at_us, passed_us = both[0], both[1] - both[0]
        hour = self._hour
        if hour is not None and (passed_us != hour.passed_us or abs(at_us - hour.highest_us) > passed_us):
            self._passes += hour.passes(line_number - 1) if self._hours < HOURS_MAX else ()
            self._hours += 1
            hour = None
        if passed_us > 0:
            hour = _Hour(passed_us, line_number, at_us) if hour is None else self._gone_on(hour, line_number, at_us)
        self._hour = hour
        return hour is not None

    @staticmethod
    def _gone_on(hour: _Hour, line_number: int, at_us: int) -> _Hour:
        if hour.highest_us - at_us <= STEP_US:
            return replace(hour, highest_us=max(at_us, hour.highest_us))
        if hour.second_from_line is not None:
            return replace(hour, highest_us=at_us, is_broken=True)
        return replace(hour, highest_us=at_us, second_from_line=line_number)

    def passes(self, written_us: int) -> tuple[Pass, ...]:
        """Returns the known passes, in the order of the lines; `written_us` is when the file was modified last."""
        hour = self._hour
        if hour is None or self._hours >= HOURS_MAX:
            return tuple(self._passes)
        known = hour.passes(None)
        if hour.second_from_line is None and hour.highest_us + hour.passed_us > written_us + WRITTEN_LATE_US:
            known = (Pass(hour.from_line, None, 0),)
        return (*self._passes, *known)

    def continued(self) -> RepeatedHours:
        """Returns the state at the beginning of the next file of a rotated log."""
        hour = self._hour
        if hour is not None:
            hour = replace(hour, from_line=1, second_from_line=None if hour.second_from_line is None else 1)
        return RepeatedHours(self.time_zone, _hour=hour)

    def copy(self) -> RepeatedHours:
        return replace(self, _passes=list(self._passes))

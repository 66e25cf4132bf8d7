"""Maps a window of time to the axis of a picture: positions are per cent of its width, so that a picture fits any
screen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

TICKS_MAX = 9
DATE_WIDTH = 16  # so much the first text needs
LAST_TICK = 96  # a text that begins further right is cut
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
STEPS = (
    *(timedelta(seconds=number) for number in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=number) for number in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 6, 12)),
    *(timedelta(days=number) for number in (1, 2, 7, 14, 28, 56)),
)
# How the script of the pages writes a tick, by its form.
DATED = "dated"
FORMS = {"clock": "%H:%M:%S", "minute": "%H:%M", "day": "{day} %b", DATED: "{day} %b %H:%M"}


class Tick(NamedTuple):
    x: float
    at: datetime
    form: str
    text: str


@dataclass(frozen=True, slots=True)
class Window:
    since: datetime
    until: datetime

    @property
    def lasts(self) -> timedelta:
        return self.until - self.since

    def x(self, at: datetime) -> float:
        """Returns the position of an instant, in per cent; an instant outside the window is at the edge."""
        return round(100 * min(max((at - self.since) / self.lasts, 0.0), 1.0), 2)

    def part(self, number: int, parts: int) -> datetime:
        """Returns the beginning of part `number`, counted from 0, of `parts` parts of equal length."""
        return self.since + self.lasts * number / parts


def ticks(window: Window) -> list[Tick]:
    """Returns ticks at round instants of a window. The first tick, and each at which a day begins, shows its date."""
    step = next((each for each in STEPS if window.lasts / each <= TICKS_MAX), window.lasts / TICKS_MAX)
    first = EPOCH + step * -((EPOCH - window.since) // step)
    found: list[Tick] = []
    while first <= window.until and window.x(first) <= LAST_TICK:
        tick = _tick(window, first, step, is_first=not found)
        if not (found and found[-1].form == DATED and tick.x - found[-1].x < DATE_WIDTH):
            found.append(tick)
        first += step
    return found


def _tick(window: Window, at: datetime, step: timedelta, *, is_first: bool) -> Tick:
    is_day = (at - EPOCH) % DAY == timedelta(0)
    form = "day" if is_day or step >= DAY else DATED if is_first else "clock" if step < MINUTE else "minute"
    return Tick(window.x(at), at, form, f"{at:{FORMS[form].format(day=at.day)}}")

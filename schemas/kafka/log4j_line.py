"""The frame of a log line, `[2026-02-10 09:45:00,123] INFO message (logger)`, written and read.

That is the pattern that Kafka ships. Also read are times without brackets, with `T` or a decimal point, and the thread
behind the logger, as Kubernetes operators have it. A message with line breaks has its logger on its last line, and a
stack trace comes after that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from groupledger.schemas.instants import instant_of_ms, known_ms, us_of

HEAD = re.compile(
    r"\[?(?P<second>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.](?P<fraction>\d{3,9})\]? +"
    r"(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +"
)
_LOGGER = re.compile(r"[\w.$]+")
# What an exception, its trace and Kafka's own listings of settings look like.
_TRACE = re.compile(r"\s|\Z|Caused by: |Suppressed: |[\w.$]+(?:Exception|Error|Throwable)\b")


@dataclass(frozen=True, slots=True)
class LogLine:
    logged_at_us: int
    level: str
    logger: str
    message: str


def render_log_line(logged_at_ms: int, level: str, message: str, logger: str) -> str:
    """Returns a line without its line end, the time in UTC."""
    moment = instant_of_ms(logged_at_ms)
    return f"[{moment:%Y-%m-%d %H:%M:%S},{logged_at_ms % 1_000:03d}] {level} {message} ({logger})"


def parse_log_line(text: str, time_zone: str) -> LogLine | None:
    """Returns None if a part of the frame is missing, or if its time is none that a broker can have."""
    head, tail = HEAD.match(text), find_tail(text)
    if head is None or tail is None or tail[0] < head.end():
        return None
    message_end, logger = tail
    second_us = _second_us(head["second"], time_zone)
    if second_us is None:
        return None
    logged_at_us = second_us + int(head["fraction"][:6].ljust(6, "0"))
    return LogLine(logged_at_us, head["level"], logger, text[head.end() : message_end])


def find_tail(text: str) -> tuple[int, str] | None:
    """Returns where the message ends, and the logger: ` (logger)`, or ` (logger) [thread]`, at the end of a text.

    A client decides what stands before it, so no part of the text is looked at twice; a pattern searched from the left
    takes a minute for a line of a megabyte that is made for it.
    """
    if text.endswith(")"):
        return _find_logger(text, 0, len(text) - 1)
    if not text.endswith("]"):
        return None
    # A thread's name holds no closing bracket, and a logger's no parenthesis.
    begin, end = 0, text.find(") [", max(text.rfind("]", 0, -1) - 2, 0))
    while end >= 0:
        found = _find_logger(text, begin, end)
        if found is not None:
            return found
        begin, end = end, text.find(") [", end + 1)
    return None


def _find_logger(text: str, begin: int, end: int) -> tuple[int, str] | None:
    start = text.rfind(" (", begin, end)
    is_logger = start >= 0 and _LOGGER.fullmatch(text, start + 2, end) is not None
    return (start, text[start + 2 : end]) if is_logger else None


def begins_entry(text: str) -> bool:
    return HEAD.match(text) is not None


def ends_message(text: str) -> bool:
    return find_tail(text) is not None


def is_trace(text: str) -> bool:
    return _TRACE.match(text) is not None


@lru_cache(maxsize=1024)
def _second_us(text: str, time_zone: str) -> int | None:
    try:
        local = datetime.fromisoformat(text.replace("T", " ")).replace(tzinfo=ZoneInfo(time_zone))
        second_us = us_of(local)
    except (ValueError, OverflowError):
        return None
    return None if known_ms(second_us // 1_000) is None else second_us

"""Writes and reads the frame of a log line, `[2026-02-10 09:45:00,123] INFO message (logger)`.

That is the pattern that Kafka ships. A line may also have any time of `log_time`, with or without brackets, and the
thread, before the level or after the logger, as Kubernetes operators configure it. A message with line breaks has its
logger on its last line, and a stack trace comes after that. If the logger comes before the message, the message has one
line:

    2026-02-10 09:45:00,123 INFO [thread] logger - message
    [INFO] 2026-02-10 09:45:00,123 [thread] logger method - app=kafka, server=0 - message
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from groupledger.schemas.instants import instant_of_ms, known_ms
from groupledger.schemas.kafka.log_time import NO_EVIDENCE, TIME, ZoneEvidence, log_time

_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|WARN|ERROR|FATAL)"
# It begins with no digit: that would be a time, after another one of a container.
_THREAD = r"(?:\[[^\]\d][^\]]*\] +)?"
HEAD = re.compile(rf"\[?{TIME}\]? +{_THREAD}{_LEVEL} +")
LEVEL_FIRST = re.compile(rf"\[?{_LEVEL}\]? +\[?{TIME}\]? +")
# After the head, where the logger comes first: then perhaps the method, and context values (MDC).
_LOGGER_FIRST = re.compile(
    rf"{_THREAD}(?P<logger>[A-Za-z_$][\w$]*(?:\.[\w$]+)+)(?: [\w$<>]+)? +- (?:\w+=[^,\s]*(?:, \w+=[^,\s]*)* - )?"
)
_LOGGER = re.compile(r"[\w.$]+")
# Forms of exceptions, stack traces and Kafka's own listings of settings.
_TRACE = re.compile(r"\s|\Z|Caused by: |Suppressed: |[\w.$]+(?:Exception|Error|Throwable)\b")


@dataclass(frozen=True, slots=True)
class LogLine:
    logged_at_us: int
    level: str
    logger: str
    message: str
    is_time_ambiguous: bool = False


class Frame(NamedTuple):
    """A line split into its parts. `head` is the match of the time and the level at its beginning."""

    head: re.Match[str]
    logger: str
    message: str


def render_log_line(logged_at_ms: int, level: str, message: str, logger: str) -> str:
    """Returns a line without its line end, the time in UTC."""
    moment = instant_of_ms(logged_at_ms)
    return f"[{moment:%Y-%m-%d %H:%M:%S},{logged_at_ms % 1_000:03d}] {level} {message} ({logger})"


def parse_log_line(text: str, time_zone: str, evidence: ZoneEvidence = NO_EVIDENCE) -> LogLine | None:
    """Returns the parsed line; None if a part of the frame is missing, or if no broker can have logged its time."""
    frame = frame_of(text)
    return None if frame is None else timed(frame, time_zone, evidence)


def timed(frame: Frame, time_zone: str, evidence: ZoneEvidence) -> LogLine | None:
    time = log_time(frame.head.groupdict(), time_zone, evidence)
    if time is None or known_ms(time.at_us // 1_000) is None:
        return None
    return LogLine(time.at_us, frame.head["level"], frame.logger, frame.message, time.is_ambiguous)


def frame_of(text: str) -> Frame | None:
    """Returns a line split into head, logger and message; None if one of them is missing."""
    head = head_of(text)
    if head is None:
        return None
    tail = find_tail(text)
    framed = Frame(head, tail[1], text[head.end() : tail[0]]) if tail is not None and tail[0] >= head.end() else None
    if framed is not None and head.re is HEAD:
        return framed  # as Kafka ships it
    found = _LOGGER_FIRST.match(text, head.end())
    return framed if found is None else Frame(head, found["logger"], text[found.end() :])


def head_of(text: str) -> re.Match[str] | None:
    """Returns the match of the time and the level with which a line begins; None if it begins otherwise."""
    return HEAD.match(text) or LEVEL_FIRST.match(text)


def find_tail(text: str) -> tuple[int, str] | None:
    """Returns the index at which the message ends, and the name of the logger, if a text ends with ` (logger)` or
    ` (logger) [thread]`; otherwise None.

    The message comes from clients, so no part of it is searched twice: a pattern searched from the left could take a
    minute for a crafted line of a megabyte.
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
    return head_of(text) is not None


def ends_message(text: str) -> bool:
    return find_tail(text) is not None or frame_of(text) is not None


def is_trace(text: str) -> bool:
    return _TRACE.match(text) is not None

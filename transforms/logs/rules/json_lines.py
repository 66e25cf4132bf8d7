r"""Reads a log line that is a JSON object, written by a logging library, or by a container or a service around each
line.

    {"@timestamp":"..","log.level":"INFO","message":"..","log.logger":".."}      ECS, by log4j's JsonTemplateLayout
    {"@timestamp":"..","level":"INFO","message":"..","logger_name":".."}         logstash's encoder for logback
    {"instant":{"epochSecond":1,"nanoOfSecond":2},"level":..,"loggerName":..}    log4j's JsonLayout; older: timeMillis
    {"log":"..\n","stream":"stdout","time":".."}                                docker's json-file, Fluent Bit
    {"timestamp":1792888200123,"message":".."}                                   CloudWatch, as managed services export
    {"textPayload":"..","timestamp":".."}, {"jsonPayload":{"message":".."}}      Google's LogEntry
    {"__REALTIME_TIMESTAMP":"..","MESSAGE":".."}                                 journalctl -o json

An object with a level and a logger is a whole entry, and is converted to the layout of Kafka's own pattern. Otherwise
the object's message is a line, or a part of one. A line that is not such an object stays as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from groupledger.schemas.instants import instant_of_us
from groupledger.schemas.kafka.log4j_line import begins_entry
from groupledger.schemas.kafka.log_time import NO_EVIDENCE, TIME, is_plausible, log_time

MESSAGES = ("message", "log", "msg", "textPayload", "MESSAGE", "line", "short_message")
LEVELS = ("level", "log.level", "severity", "levelname")
LOGGERS = ("loggerName", "logger_name", "log.logger", "logger", "_logger")
TIMES = ("@timestamp", "timestamp", "time", "timeMillis", "instant", "ts", "date", "__REALTIME_TIMESTAMP")
INSIDE = ("jsonPayload", "_source")
STREAM = "stream"
# Of syslog, as GELF has them; and of java.util.logging and Google, where they differ from log4j's.
_LEVELS_BY_NUMBER = {0: "FATAL", 1: "FATAL", 2: "FATAL", 3: "ERROR", 4: "WARN", 5: "INFO", 6: "INFO", 7: "DEBUG"}
_LEVEL_NAMES = {"WARNING": "WARN", "SEVERE": "ERROR", "CRITICAL": "FATAL", "NOTICE": "INFO", "FINE": "DEBUG"}
_IS_LEVEL = re.compile(r"TRACE|DEBUG|INFO|WARN|ERROR|FATAL")
_IS_LOGGER = re.compile(r"[\w.$]+")
_TIME = re.compile(TIME)
_NUMBER = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?")
# A number is of the largest unit in which it is no later than this century.
_UNITS_US = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))
_NANOSECONDS = 1_000
NO_TIME = "[0000-00-00 00:00:00]"


class FromJson(NamedTuple):
    """Holds a line taken out of a JSON object. If the object names a stream (stdout, stderr), a container wrote it, and
    `text` still has the line break if it is the end of a line. `time_us` is the object's own time; None if it has no
    time, or one without a zone."""

    text: str
    time_us: int | None
    stream: str


def line_of_json(text: str) -> FromJson | None:
    """Returns the line in a JSON object; None if the text is not JSON, or not of a known form."""
    try:
        node = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(node, dict):
        return None
    inner: dict[str, Any] = next((node[name] for name in INSIDE if isinstance(node.get(name), dict)), {})
    message = _text(inner, MESSAGES) if inner else None
    message = _text(node, MESSAGES) if message is None else message
    if message is None or not _is_storable(message):
        return None
    value = _first({**node, **inner}, TIMES)
    time_us = _time_us(value)
    level, logger = _level(_field({**node, **inner}, LEVELS)), _field({**node, **inner}, LOGGERS)
    if level is None or not isinstance(logger, str) or not _IS_LOGGER.fullmatch(logger) or begins_entry(message):
        stream = node.get(STREAM)
        return FromJson(message, time_us, stream if isinstance(stream, str) else "")
    return FromJson(f"{_shown(value, time_us)} {level} {message} ({logger})", time_us, "")


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return True


def _first(node: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((node[name] for name in names if node.get(name) is not None), None)


def _field(node: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Returns a field, also one whose dotted name is spread over objects."""
    for name in names:
        outer, _, inner = name.partition(".")
        found = node.get(name)
        if found is None and inner and isinstance(node.get(outer), dict):
            found = node[outer].get(inner)
        if found is not None and not isinstance(found, dict):
            return found
    return None


def _text(node: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((node[name] for name in names if isinstance(node.get(name), str)), None)


def _level(value: Any) -> str | None:
    if type(value) is int:
        return _LEVELS_BY_NUMBER.get(value)
    name = value.upper() if isinstance(value, str) else ""
    name = _LEVEL_NAMES.get(name, name)
    return name if _IS_LEVEL.fullmatch(name) else None


def _shown(value: Any, time_us: int | None) -> str:
    """Returns the time as a line begins with it. One without a zone stays as it is: the settings have the zone. Without
    a time it is an entry still, but one that can't be read, and is kept as such."""
    if time_us is not None:
        return f"[{instant_of_us(time_us):%Y-%m-%dT%H:%M:%S.%f}Z]"
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    return NO_TIME if found is None else f"[{value}]"


def _time_us(value: Any) -> int | None:
    """Returns an instant, in microseconds; None for a time without a zone, or none that can be."""
    if isinstance(value, dict):  # log4j's instant
        seconds, nanoseconds = value.get("epochSecond", 0), value.get("nanoOfSecond", 0)
        is_whole = isinstance(seconds, int) and isinstance(nanoseconds, int)
        at_us = int(seconds) * 10**6 + int(nanoseconds) // _NANOSECONDS if is_whole else None
    elif isinstance(value, str) and not _NUMBER.fullmatch(value):
        found = _TIME.fullmatch(value)
        is_zoned = found is not None and found["zone"] is not None
        time = log_time(found.groupdict(), "UTC", NO_EVIDENCE) if found is not None and is_zoned else None
        at_us = None if time is None else time.at_us
    else:
        at_us = _of_number(value)
    return at_us if at_us is not None and is_plausible(at_us) else None


def _of_number(value: Any) -> int | None:
    if type(value) not in {int, float, str}:
        return None
    whole, _, fraction = str(value).partition(".")
    if not _NUMBER.fullmatch(str(value)):
        return None
    for least, unit_us in _UNITS_US:
        if abs(int(whole)) < least:
            return int(whole) * unit_us + int(fraction[:6].ljust(6, "0")) * unit_us // 10**6
    return int(whole) // _NANOSECONDS

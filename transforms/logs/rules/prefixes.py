r"""Removes the prefixes that containers and collectors write before a line, one layer at a time, by the line's form.

    2026-11-20T10:00:00.123456789Z stdout F line       Kubernetes' files (CRI); P in place of F: the line goes on
    {"log":"line\n","stream":"stdout","time":".."}     docker's files, and what else is JSON: `json_lines`
    broker-1  | line                                   docker compose logs
    [pod/kafka-0/kafka] line                           kubectl logs --prefix
    2026-11-20T10:00:00.123456789Z line                kubectl logs --timestamps, docker logs -t, CloudWatch in S3
    2026-11-20T10:00:00+0100 host kafka[7]: line       journalctl -o short-iso, syslog; also Nov 20 10:00:00 host ..
    <14>1 2026-11-20T10:00:00Z host kafka 7 - - line   syslog, RFC 5424
    kafka-0 kafka line                                 stern, aws logs tail: only before a line that has a time

The time in a prefix counts if it has a zone. If the prefix names a source, lines of the same source belong together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from groupledger.schemas.kafka.log_time import NO_EVIDENCE, TIME, log_time
from groupledger.transforms.logs.rules.json_lines import line_of_json

if TYPE_CHECKING:
    from collections.abc import Callable

_ZONED = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{3,9})?(?:Z|[+-]\d\d:?\d\d)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_PROCESS = r"[\w.-]+ [\w./@-]+(?:\[\d+\])?"
CRI = re.compile(rf"(?P<time>{_ZONED}) (?P<source>stdout|stderr) (?P<tag>[FP])(?::\S*)? ")
CRI_EMPTY = re.compile(rf"(?P<time>{_ZONED}) (?P<source>stdout|stderr) (?P<tag>[FP])\Z")
SYSLOG = re.compile(rf"(?:<\d+>)?(?P<time>{_ZONED}) (?P<source>{_PROCESS}): ")
TIMESTAMP = re.compile(rf"(?P<time>{_ZONED}) (?P<source>)")
SYSLOG_5424 = re.compile(rf"<\d+>1 (?P<time>{_ZONED}) (?P<source>\S+ \S+ \S+) \S+ (?:-|\[[^\]]*\]) ")
SYSLOG_3164 = re.compile(rf"(?:<\d+>)?{_MONTH} [ \d]\d \d\d:\d\d:\d\d (?P<source>{_PROCESS}): ")
COMPOSE = re.compile(r"(?:\x1b\[[\d;]*m)?(?P<source>[\w.-]+) +\|(?:\x1b\[[\d;]*m)?(?: |\Z)")
POD = re.compile(r"\[(?P<source>pod/[\w./-]+)\] ")
WORDS = re.compile(r"(?P<source>[\w./-]+(?: [\w./-]+)?) (?=\[?\d{4}-\d\d-\d\d[ T]\d\d:)")
_TIMED = (CRI.match, CRI_EMPTY.match, SYSLOG.match, TIMESTAMP.match, WORDS.match)
_NAMED = (COMPOSE.match, SYSLOG_3164.match, WORDS.match)
_OF_SYSLOG = (SYSLOG_5424.match, SYSLOG.match, SYSLOG_3164.match)
_TIME = re.compile(TIME)


class Layer(NamedTuple):
    """Holds a line without its outermost prefix: the text inside, and the prefix's time and source. `is_partial` says
    whether the line continues in another one; None if the prefix does not say it."""

    source: str
    text: str
    time_us: int | None
    is_partial: bool | None = None


def layer_of(text: str) -> Layer | None:
    """Returns the outermost layer of a line with the text inside; None if the line has no known prefix."""
    first = text[:1]
    if first == "{":
        return _of_json(text)
    if first == "[":
        return _of(text, POD.match)
    if first == "<":
        return _of(text, *_OF_SYSLOG)
    if "0" <= first <= "9":
        return _of(text, *_TIMED)
    return _of(text, *_NAMED) if first.isalpha() or first == "\x1b" else None


def _of(text: str, *matches: Callable[[str], re.Match[str] | None]) -> Layer | None:
    for match in matches:
        found = match(text)
        if found is not None:
            named = found.groupdict()
            is_partial = None if "tag" not in named else named["tag"] == "P"
            return Layer(named["source"], text[found.end() :], _time_us(named.get("time")), is_partial)
    return None


def _of_json(text: str) -> Layer | None:
    found = line_of_json(text)
    if found is None:
        return None
    # docker cuts long lines, and leaves the line break out but at the end; others leave it out always.
    is_partial = not found.text.endswith("\n") if found.stream else None
    return Layer("{}" + found.stream, found.text.rstrip("\r\n"), found.time_us, is_partial)


def _time_us(text: str | None) -> int | None:
    found = None if text is None else _TIME.fullmatch(text)
    time = None if found is None else log_time(found.groupdict(), "UTC", NO_EVIDENCE)
    return None if time is None else time.at_us

"""Goal: a line gives the same row whatever wraps it and however a logging library lays it out, in both logs; and lines
that a container has cut are joined again."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupledger.schemas.instants import us_of
from groupledger.schemas.kafka.request_line import LOGGER
from groupledger.transforms.logs.coordinator_events import parse_events
from groupledger.transforms.logs.imported_lines import QUARANTINED, ROW, Line
from groupledger.transforms.logs.requests import parse_requests
from groupledger.transforms.logs.rules.prefixes import layer_of
from groupledger.transforms.logs.unwrapped_lines import unwrapped
from groupledger.transforms.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# In the second pass of the hour that Vienna's clocks repeat.
AT = datetime(2026, 10, 25, 1, 30, 0, 123_000, tzinfo=timezone.utc)
AT_US = us_of(AT)
LOCAL = AT.astimezone(ZoneInfo("Europe/Vienna"))
EPOCH_MS = AT_US // 1_000
CHARACTERS_MAX = 10_000
EVENT = "[GroupCoordinator id=1 topic=__consumer_offsets partition=1] Stabilized group g generation 4 with 2 members."
EVENT_LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"
_HEADER = {"requestApiKey": 12, "requestApiVersion": 4, "correlationId": 1, "clientId": 'a "client"'}
_BODY = {"groupId": "g", "generationId": 4, "memberId": "m", "groupInstanceId": None}
_REQUEST = {
    "isForwarded": False,
    "requestHeader": _HEADER,
    "request": _BODY,
    "response": {"throttleTimeMs": 0, "errorCode": 22},
    "totalTimeMs": 0.5,
}
REQUEST = "Completed request:" + json.dumps(_REQUEST, separators=(",", ":"))
SAID = {"server": ("INFO", EVENT, EVENT_LOGGER), "request": ("DEBUG", REQUEST, LOGGER)}
Z, OFFSET = f"{AT:%Y-%m-%dT%H:%M:%S}.123Z", f"{LOCAL:%Y-%m-%dT%H:%M:%S}.123+01:00"
NANOS = f"{AT:%Y-%m-%dT%H:%M:%S}.223456789Z"  # of the container, a moment later
TEXT_LAYOUTS: dict[str, Callable[[str, str, str], str]] = {
    "kafka": lambda level, text, logger: f"[{LOCAL:%Y-%m-%d %H:%M:%S},123] {level} {text} ({logger})",
    "strimzi": lambda level, text, logger: f"{LOCAL:%Y-%m-%d %H:%M:%S},123 {level} {text} ({logger}) [a-thread]",
    "thread before the level": lambda level, text, logger: (
        f"{LOCAL:%Y-%m-%d %H:%M:%S},123 [a thread] {level}  {text} ({logger})"
    ),
    "logger first": lambda level, text, logger: f"{LOCAL:%Y-%m-%d %H:%M:%S}.123 {level} [t-1] {logger} - {text}",
    "level first": lambda level, text, logger: (
        f"[{level}] {LOCAL:%Y-%m-%d %H:%M:%S},123 [t-1] {logger} method - app=kafka, server=0 - {text}"
    ),
}
ZONED_LAYOUTS: dict[str, Callable[[str, str, str], str]] = {
    "zulu": lambda level, text, logger: f"[{Z}] {level} {text} ({logger})",
    "zulu apart": lambda level, text, logger: f"{AT:%Y-%m-%d %H:%M:%S},123 Z {level} {text} ({logger})",
    "offset": lambda level, text, logger: f"{OFFSET} {level} {text} ({logger})",
    "offset of four digits": lambda level, text, logger: (
        f"[{LOCAL:%Y-%m-%d %H:%M:%S},123+0100] {level} {text} ({logger})"
    ),
    "name of the zone": lambda level, text, logger: f"[{LOCAL:%Y-%m-%d %H:%M:%S},123 CET] {level} {text} ({logger})",
    "milliseconds": lambda level, text, logger: f"{EPOCH_MS} {level} {text} ({logger})",
    "JsonLayout": lambda level, text, logger: json.dumps(
        {
            "instant": {"epochSecond": EPOCH_MS // 1_000, "nanoOfSecond": 123_000_000},
            "level": level,
            "loggerName": logger,
            "message": text,
        }
    ),
    "JsonLayout of log4j 1": lambda level, text, logger: json.dumps(
        {"timeMillis": EPOCH_MS, "thread": "t", "level": level, "loggerName": logger, "message": text}
    ),
    "ECS": lambda level, text, logger: json.dumps(
        {"@timestamp": Z, "ecs.version": "1.2.0", "log.level": level, "message": text, "log.logger": logger}
    ),
    "ECS in objects": lambda level, text, logger: json.dumps(
        {"@timestamp": Z, "log": {"level": level, "logger": logger}, "message": text}
    ),
    "logstash": lambda level, text, logger: json.dumps(
        {"@timestamp": OFFSET, "@version": "1", "message": text, "logger_name": logger, "level": level}
    ),
    "GELF": lambda level, text, logger: json.dumps(
        {
            "timestamp": EPOCH_MS / 1_000,
            "level": {"INFO": 6, "DEBUG": 7}[level],
            "_logger": logger,
            "short_message": text,
        }
    ),
}
# Each with a time of its own that has a zone, but for those that only name a source.
WRAPPERS: dict[str, Callable[[str], list[str]]] = {
    "cri": lambda line: [f"{NANOS} stdout F {line}"],
    "cri, cut": lambda line: [
        f"{NANOS} stdout P {line[:90]}",
        f"{NANOS} stderr F a word",
        f"{NANOS} stdout P {line[90:95]}",
        f"{NANOS} stdout F {line[95:]}",
    ],
    "docker": lambda line: [json.dumps({"log": line + "\n", "stream": "stdout", "time": NANOS})],
    "docker, cut": lambda line: [
        json.dumps({"log": part, "stream": "stdout", "time": NANOS}) for part in (line[:100], line[100:] + "\n")
    ],
    "docker logs -t": lambda line: [f"{NANOS} {line}"],
    "compose -t": lambda line: [f"broker-1  | {NANOS} {line}"],
    "kubectl logs --prefix --timestamps": lambda line: [f"[pod/kafka-0/kafka] {NANOS} {line}"],
    "journalctl -o short-iso": lambda line: [f"{LOCAL:%Y-%m-%dT%H:%M:%S}+0100 host-1 kafka[77]: {line}"],
    "syslog": lambda line: [f"<14>1 {NANOS} host-1 kafka 77 - - {line}"],
    "cloudwatch": lambda line: [json.dumps({"timestamp": EPOCH_MS, "message": line, "ingestionTime": EPOCH_MS + 9})],
    "google": lambda line: [json.dumps({"insertId": "x", "severity": "INFO", "textPayload": line, "timestamp": NANOS})],
    "google, as JSON": lambda line: [json.dumps({"jsonPayload": {"message": line}, "timestamp": NANOS})],
    "journalctl -o json": lambda line: [json.dumps({"__REALTIME_TIMESTAMP": str(AT_US + 9_000), "MESSAGE": line})],
    "kubernetes beside docker": lambda line: [
        f"{NANOS} stdout F " + json.dumps({"log": line + "\n", "stream": "stdout", "time": NANOS})
    ],
}
SOURCES_ONLY: dict[str, Callable[[str], list[str]]] = {
    "nothing": lambda line: [line],
    "byte order mark": lambda line: ["\ufeff" + line],
    "zeros": lambda line: ["\0" * 100 + line],
    "compose": lambda line: [f"\x1b[36mbroker-1  |\x1b[0m {line}"],
    "kubectl logs --prefix": lambda line: [f"[pod/kafka-0/kafka] {line}"],
    "old syslog": lambda line: [f"Oct 25 02:30:00 host-1 kafka[77]: {line}"],
}


def numbered(texts: Sequence[str]) -> list[Line]:
    return [Line("f", number, text, len(text), is_whole=True) for number, text in enumerate(texts, 1)]


def rows(log: str, texts: Sequence[str], passes: Sequence[Sequence[int | None]] = ()) -> list[dict[str, Any]]:
    lines = unwrapped(numbered(texts), passes, CHARACTERS_MAX)
    zone, privacy = "Europe/Vienna", Privacy()
    found = (
        parse_requests(lines, zone, privacy) if log == "request" else parse_events(lines, zone, privacy, CHARACTERS_MAX)
    )
    return list(found)


def reported(log: str, texts: Sequence[str], **how: Any) -> list[tuple[Any, ...]]:
    """Returns the instant of each row, whether it is ambiguous, its line, and the facts about the group."""
    what = ("group_id", "generation", "error" if log == "request" else "kind")
    found = [row[ROW] for row in rows(log, texts, **how) if row[ROW] is not None]
    return [
        (each["logged_at"], each["is_time_ambiguous"], each["line_number"], *(each[name] for name in what))
        for each in found
    ]


def expected(log: str, at_us: int = AT_US, *, is_ambiguous: bool = False) -> list[tuple[Any, ...]]:
    return [(at_us, is_ambiguous, 1, "g", 4, "ILLEGAL_GENERATION" if log == "request" else "stabilized")]


@pytest.mark.parametrize("log", SAID)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("layout", [*TEXT_LAYOUTS, *ZONED_LAYOUTS])
def test_every_layout_in_every_container(log: str, wrapper: str, layout: str) -> None:
    """Goal: one row, with its instant: where the line has no zone, the container's time shows which of two it is."""
    line = {**TEXT_LAYOUTS, **ZONED_LAYOUTS}[layout](*SAID[log])
    assert reported(log, WRAPPERS[wrapper](line)) == expected(log)


@pytest.mark.parametrize("log", SAID)
@pytest.mark.parametrize("wrapper", SOURCES_ONLY)
@pytest.mark.parametrize("layout", [*TEXT_LAYOUTS, *ZONED_LAYOUTS])
def test_every_layout_without_a_container_time(log: str, wrapper: str, layout: str) -> None:
    """Goal: one row; its time is ambiguous where neither the line nor the order shows its zone."""
    lines = SOURCES_ONLY[wrapper]({**TEXT_LAYOUTS, **ZONED_LAYOUTS}[layout](*SAID[log]))
    if layout in ZONED_LAYOUTS:
        assert reported(log, lines) == expected(log)
        return
    assert reported(log, lines) == expected(log, AT_US - 3_600_000_000, is_ambiguous=True)
    assert reported(log, lines, passes=[[1, None, 1]]) == expected(log)


def test_a_container_that_keeps_another_zone() -> None:
    """Goal: brokers that log UTC while the settings say Vienna: the container's time decides, and in summer, too."""
    for at in (AT, datetime(2026, 7, 1, 12, 0, 0, 123_000, tzinfo=timezone.utc)):
        line = f"{at:%Y-%m-%dT%H:%M:%S}.323Z stdout F [{at:%Y-%m-%d %H:%M:%S},123] INFO {EVENT} ({EVENT_LOGGER})"
        assert reported("server", [line]) == expected("server", us_of(at))


@pytest.mark.parametrize("value", [-1, 0, "-1", 10**30, "9999-12-31T00:00:00Z", "1969-12-31T23:59:59Z", None])
def test_a_time_that_nobody_logged(value: Any) -> None:
    """Goal: a line whose time is unknown is kept, with its reason, and the others have theirs; a container's time
    counts in its place."""
    good = TEXT_LAYOUTS["kafka"](*SAID["server"])
    bad = json.dumps({"@timestamp": value, "level": "INFO", "logger_name": EVENT_LOGGER, "message": EVENT})
    found = rows("server", [bad, good], passes=[[2, 2, 1]])
    assert [row[QUARANTINED] is not None for row in found] == [True, False]
    assert found[1][ROW]["logged_at"] == AT_US
    (corrected,) = reported("server", [f"{NANOS} stdout F {bad}"])
    assert corrected[0] == AT_US + 100_456


def test_names_with_line_breaks_in_a_container() -> None:
    """Goal: a message over lines is joined without their prefixes, and lines of another container are not in it."""
    first, second = EVENT.replace("group g ", "group a\nb ").split("\n")
    time = f"[{AT:%Y-%m-%d %H:%M:%S},123Z] INFO "
    lines = [
        f"one  | {time}{first}",
        "two  | a trace of another broker",
        f"one  | {second} ({EVENT_LOGGER})",
        "one  | \tat a.B(B.java:1)",
    ]
    (found,) = (row[ROW] for row in rows("server", lines))
    assert (found["group_id"], found["kind"]) == ("a\nb", "stabilized")
    plain = [f"{time}{first}", f"2026-10-25T01:30:00Z stdout F {second} ({EVENT_LOGGER})"]
    (found,) = (row[ROW] for row in rows("server", plain))
    assert "\n2026-10-25T01:30:00Z stdout F b" in found["message"]


def test_a_line_that_is_cut_for_ever() -> None:
    """Attack: a container's line never ends, in parts of a byte; a line that is too long is joined no further, and
    kept."""
    whole = TEXT_LAYOUTS["kafka"](*SAID["request"])
    parts = [f"{NANOS} stdout P {part}" for part in [whole[:100], *"x" * 30_000]]
    found = rows("request", [*parts, f"{NANOS} stdout F ", f"{NANOS} stdout F {whole}"])
    assert all(row[QUARANTINED] is not None for row in found[:-1])
    assert 2 <= len(found[:-1]) <= 5
    assert found[-1][ROW]["group_id"] == "g"
    (rest,) = rows("request", parts[:50])
    assert (rest[QUARANTINED]["line_number"], rest[QUARANTINED]["line"][:20]) == (1, whole[:20])


def test_requests_of_other_apis_are_passed_over_in_json() -> None:
    """Goal: a Fetch is known by its number also where its quotes are escaped, once or twice."""
    other = TEXT_LAYOUTS["kafka"]("DEBUG", REQUEST.replace('Key":12', 'Key":1').replace("throttleTimeMs", "\\"), LOGGER)
    for line in (other, *WRAPPERS["docker"](other), *WRAPPERS["kubernetes beside docker"](other)):
        assert rows("request", [line]) == []


@given(st.text(max_size=60) | st.sampled_from([*WRAPPERS, *SOURCES_ONLY]).map(
    lambda name: {**WRAPPERS, **SOURCES_ONLY}[name]("{")[0]
))  # fmt: skip
def test_any_line(text: str) -> None:
    """Attack: any text of a line is taken apart, and raises nothing."""
    layer = layer_of(text)
    assert layer is None or isinstance(layer.text, str)
    for log in SAID:
        rows(log, [text, text])

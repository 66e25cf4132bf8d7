"""Goal: no number and no time in a line of a broker's logs ends an import, up to the batches that leave a task.

Every field of every request and answer, of the header and of the frame is driven through the extremes; so is every
number of every template of the server's log. A line becomes a row, or is quarantined.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.schemas.arrow import arrow_schema
from groupledger.schemas.instants import EARLIEST_MS, LATEST_MS, instant_of_ms
from groupledger.schemas.kafka import request_line
from groupledger.schemas.kafka.coordinator_log import CLASSIC, OTHERS
from groupledger.schemas.kafka.request_fields import BODIES, ListOf
from groupledger.transforms.by_group import batch_of
from groupledger.transforms.logs.coordinator_events import PARSED_EVENTS, parse_events
from groupledger.transforms.logs.imported_lines import QUARANTINED, ROW, Line
from groupledger.transforms.logs.requests import PARSED_REQUESTS, parse_requests
from groupledger.transforms.privacy import Privacy
from lab.scenarios.extremes import EXTREMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from groupledger.schemas.kafka.request_fields import Fields

KEEP_ALL = Privacy()
VALUES: tuple[Any, ...] = (*EXTREMES.values(), 2**63, -(2**63) - 1, 10**400, 1e300, 0.5)
SECONDS = ("0001-01-01 00:00:00", "1969-12-31 23:59:59", "1970-01-01 00:00:00", "9999-12-31 23:59:59")
ZONES = ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago")  # 14 hours before UTC, and 11 behind it
COORDINATOR = "[GroupCoordinator id={broker} topic=__consumer_offsets partition={partition}] "
LOGGER = "org.apache.kafka.coordinator.group.GroupMetadataManager"


def framed(message: str, logger: str, second: str = "2026-02-10 09:45:00") -> str:
    return f"[{second},123] INFO {message} ({logger})"


def bodies(fields: Fields, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields, for each field, its path and a body in which it alone is strange."""
    for field in fields:
        if isinstance(field, ListOf):
            for path, inner in bodies(field.fields, value):
                yield f"{field.name}.{path}", {**healthy(fields), field.name: [inner]}
        else:
            yield field, {**healthy(fields), field: value}


def healthy(fields: Fields) -> dict[str, Any]:
    """Returns a body with a group, and no other value but in its lists."""
    named = {field: "g" for field in fields if field in ("groupId", "memberId", "name")}
    return named | {field.name: [healthy(field.fields)] for field in fields if isinstance(field, ListOf)}


def request_line_of(api_key: int, request: Any, response: Any, header: Any = (), **changes: Any) -> str:
    known = {request_line.API_KEY: int(api_key), request_line.API_VERSION: 9, request_line.CORRELATION_ID: 1}
    fields = {
        request_line.IS_FORWARDED: False,
        request_line.HEADER: known | dict(header),
        request_line.REQUEST: request,
        request_line.RESPONSE: response,
        request_line.CONNECTION: "127.0.0.1:9092-10.0.0.1:1-2-3",
        request_line.TOTAL_TIME_MS: 1.5,
        **changes,
    }
    return framed(request_line.COMPLETED + json.dumps(fields, separators=(",", ":")), "kafka.request.logger")


def lines_of_requests() -> Iterator[tuple[str, str]]:
    """Yields the field that is strange, and the line."""
    for value in VALUES:
        for api_key, body in BODIES.items():
            for path, request in bodies(body.request, value):
                yield f"{api_key}.request.{path}", request_line_of(api_key, request, healthy(body.response))
            for path, response in bodies(body.response, value):
                yield f"{api_key}.response.{path}", request_line_of(api_key, healthy(body.request), response)
        for name in (request_line.API_KEY, request_line.API_VERSION, request_line.CORRELATION_ID):
            yield name, request_line_of(8, {"groupId": "g"}, {}, {name: value})
        yield (
            request_line.TOTAL_TIME_MS,
            request_line_of(8, {"groupId": "g"}, {}, **{request_line.TOTAL_TIME_MS: value}),
        )


def lines_of_server() -> Iterator[tuple[str, str]]:
    for value in EXTREMES.values():
        for kind, text in (*CLASSIC, *OTHERS):
            message = text
            for name in ("generation", "previous_generation", "member_count", "kafka_partition"):
                message = message.replace(f"{{{name}:int}}", str(value))
            begin = COORDINATOR.format(broker=abs(value), partition=abs(value))  # the frame has no other
            yield kind, framed(begin + message, LOGGER)


def numbered(texts: Iterator[tuple[str, str]] | list[tuple[str, str]]) -> Iterator[Line]:
    return (Line("f", number, text, len(text), is_whole=True) for number, (_, text) in enumerate(texts, 1))


def in_arrow(rows: list[dict[str, Any]], schema: Any) -> pa.RecordBatch:
    """As rows leave a task; instants are those that a reader in Python can show."""
    batch = batch_of(rows, arrow_schema(schema))
    assert batch.num_rows == len(rows)
    batch.to_pylist()
    return batch


def test_requests() -> None:
    """Goal: each line is a row, or is about no group, or is kept with the reason: a number that Kafka does not have."""
    lines = list(lines_of_requests())
    rows = list(parse_requests(numbered(lines), "UTC", KEEP_ALL))
    in_arrow(rows, PARSED_REQUESTS)
    found = Counter(name for row in rows for name in (ROW, QUARANTINED) if row[name])
    assert (len({field for field, _ in lines}), len(VALUES)) == (175, 27)
    assert len(lines) == 175 * 27
    assert found[ROW] > len(lines) // 2
    assert found[QUARANTINED] > 200
    reasons = {row[QUARANTINED]["reason"] for row in rows if row[QUARANTINED]}
    assert {"committedOffset is no integer of Kafka's", "memberEpoch is no integer of Kafka's"} <= reasons


def test_server_log() -> None:
    """Goal: each entry is a row; a number that Kafka can't have written is null, and stays in the message."""
    lines = list(lines_of_server())
    rows = list(parse_events(numbered(lines), "UTC", KEEP_ALL, 10_000))
    in_arrow(rows, PARSED_EVENTS)
    assert len(rows) == len(lines) == len(EXTREMES) * len((*CLASSIC, *OTHERS))
    held = {value for value in EXTREMES.values() if abs(value) < 2**31}
    assert {row[ROW]["broker_id"] for row in rows} == {None, *map(abs, held)}
    assert {row[ROW]["generation"] for row in rows} == {None, *held}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("second", SECONDS)
def test_times(second: str, zone: str) -> None:
    """Goal: an instant that no record can have is no time of a line either."""
    request = request_line_of(8, {"groupId": "g"}, {}).replace("2026-02-10 09:45:00", second)
    longest = request_line_of(8, {"groupId": "g"}, {}, totalTimeMs=2**43).replace("2026-02-10 09:45:00", second)
    event = framed(COORDINATOR.format(broker=1, partition=1) + "Group g is empty", LOGGER, second)
    requests = list(parse_requests(numbered([("", request), ("", longest)]), zone, KEEP_ALL))
    events = list(parse_events(numbered([("", event)]), zone, KEEP_ALL, 10_000))
    rows = [*in_arrow(requests, PARSED_REQUESTS).to_pylist(), *in_arrow(events, PARSED_EVENTS).to_pylist()]
    assert len(rows) == 3
    for row in rows:
        for name in ("happened_at", "logged_at"):
            at = (row[ROW] or {}).get(name)
            assert at is None or instant_of_ms(EARLIEST_MS) <= at <= instant_of_ms(LATEST_MS)

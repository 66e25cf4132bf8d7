"""Makes a row of `requests` out of a line of a broker's request log.

    [time] DEBUG Completed request:{"isForwarded":..,"requestHeader":{..},"request":{..},"response":{..},...} (logger)

The body is JSON since 2.8 (KIP-673). The line is written when the response has been sent, and has the total time of the
request: the time of the line minus the total time is the time of the request's arrival. Most lines are about Fetch and
Produce. They are recognized by the API key, which comes first, and are not parsed; except fetches that the broker
throttled, because only these show that a quota slows a consumer. From responses to Metadata only the names of topic ids
are read.

Brokers before 2.8 wrote text (`Completed request:RequestHeader(...` or `{api_key=...`), before 1.1 without the
responses.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import EARLIEST_MS
from groupledger.schemas.kafka import request_line as names
from groupledger.schemas.kafka.api_keys import APIS_WITH_HOSTS, FETCH_APIS, GROUP_APIS, ApiKey, api_name
from groupledger.schemas.kafka.log4j_line import frame_of, is_trace, timed
from groupledger.schemas.kafka.log_time import NO_EVIDENCE, NO_TIME
from groupledger.schemas.kafka.request_fields import THROTTLE_TIME_MS
from groupledger.transforms.logs.rules.request_columns import (
    Damage,
    as_node,
    columns_of,
    int_of,
    text_of,
    topic_names,
)

if TYPE_CHECKING:
    from groupledger.schemas.kafka.log4j_line import Frame, LogLine
    from groupledger.schemas.kafka.log_time import ZoneEvidence
    from groupledger.transforms.privacy import Privacy

TEXT_FORMAT = "text of a broker before 2.8, whose request log was no JSON yet"
NO_FRAME = "no time, level or logger"
_IS_JSON = re.compile(r'\s*\{\s*"')
# Also where the line is a text in JSON, and its quotes are escaped.
_QUOTE = r'\\{0,7}"'
_API_KEY = re.compile(
    rf"{names.COMPLETED}\{{{_QUOTE}{names.IS_FORWARDED}{_QUOTE}:(?:true|false),{_QUOTE}{names.HEADER}{_QUOTE}:"
    rf"\{{{_QUOTE}{names.API_KEY}{_QUOTE}:(-?\d{{1,5}}),"
)
_THROTTLED = re.compile(rf"{_QUOTE}{THROTTLE_TIME_MS}{_QUOTE}:[1-9]")
# A connection id has the local address and port, the client's, the processor (since 4.0) and a running number.
_PORT_BEFORE_CLIENT = re.compile(r":\d+-")
_PORT_AND_NUMBERS = re.compile(r"\d+-\d+(?:-\d+)?")
_TIME_US_MAX = 1 << 53
REASON_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Parsed:
    """Holds the result of a line: a row without cluster and file, or a reason for quarantine, or names of topics by
    topic id. All are None if the line is about something else."""

    row: dict[str, Any] | None = None
    quarantine_reason: str | None = None
    topic_names: dict[str, str] | None = None


ABOUT_SOMETHING_ELSE = Parsed()


def parse_request_line(text: str, time_zone: str, privacy: Privacy, evidence: ZoneEvidence = NO_EVIDENCE) -> Parsed:
    if is_of_another_api(text):
        return ABOUT_SOMETHING_ELSE
    frame = frame_of(text)
    if frame is None:
        # A stack trace in a log that several loggers share, or a line that was cut off.
        is_other = names.COMPLETED not in text and is_trace(text)
        return ABOUT_SOMETHING_ELSE if is_other else Parsed(quarantine_reason=NO_FRAME)
    if not frame.message.startswith(names.COMPLETED):
        return ABOUT_SOMETHING_ELSE
    try:
        return _parse(_timed(frame, time_zone, evidence), privacy)
    except Damage as damage:
        return Parsed(quarantine_reason=str(damage))
    except (ValueError, RecursionError) as error:
        return Parsed(quarantine_reason=f"no JSON: {str(error)[:REASON_CHARACTERS_MAX]}")


def _timed(frame: Frame, time_zone: str, evidence: ZoneEvidence) -> LogLine:
    line = timed(frame, time_zone, evidence)
    if line is None:
        raise Damage(NO_TIME)
    return line


def is_of_another_api(text: str) -> bool:
    """Returns whether a line is about a request that is not needed here. For most lines their beginning is enough."""
    at = text.find(names.COMPLETED)
    known = _API_KEY.match(text, at) if at >= 0 else None
    if known is None or _is_wanted(int(known[1])):
        return False
    return int(known[1]) not in FETCH_APIS or _THROTTLED.search(text, known.end()) is None


def _is_wanted(api_key: int) -> bool:
    return api_key in GROUP_APIS or api_key == ApiKey.METADATA


def _parse(line: LogLine, privacy: Privacy) -> Parsed:
    body = line.message[len(names.COMPLETED) :]
    if not _IS_JSON.match(body):
        raise Damage(TEXT_FORMAT)
    fields = as_node(json.loads(body), "the line")
    _refuse_surrogates(body, fields)
    header = as_node(fields.get(names.HEADER), names.HEADER)
    api_key = int_of(header, names.API_KEY)
    if api_key is None:
        raise Damage(f"{names.API_KEY} is absent")
    if not _is_wanted(api_key) and api_key not in FETCH_APIS:
        return ABOUT_SOMETHING_ELSE
    request = _body(fields, names.REQUEST)
    response = _body(fields, names.RESPONSE)
    if api_key == ApiKey.METADATA:
        return Parsed(topic_names=topic_names(response) or None) if response else ABOUT_SOMETHING_ELSE
    if request is None:
        raise Damage("request is absent")
    columns = columns_of(api_key, request, response)
    if columns is None:
        return ABOUT_SOMETHING_ELSE
    if api_key in APIS_WITH_HOSTS and not privacy.keeps_hosts:
        request, response = privacy.hosts_in_json(request), privacy.hosts_in_json(response)
    return Parsed(
        {
            **_envelope(fields, header, api_key, line, privacy),
            **columns,
            "request_json": _dump(request),
            "response_json": None if response is None else _dump(response),
        }
    )


def _body(fields: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Returns a body; None where the broker has none, which stands as an empty text."""
    value = fields.get(name)
    return None if value is None or value == "" else as_node(value, name)


def _envelope(
    fields: dict[str, Any], header: dict[str, Any], api_key: int, line: LogLine, privacy: Privacy
) -> dict[str, Any]:
    total_time_us = _microseconds(fields.get(names.TOTAL_TIME_MS))
    client = as_node(fields.get(names.CLIENT_INFORMATION) or {}, names.CLIENT_INFORMATION)
    connection = text_of(fields, names.CONNECTION)
    return {
        # A duration may be absurd, too.
        "happened_at": max(line.logged_at_us - total_time_us, EARLIEST_MS * 1_000),
        "logged_at": line.logged_at_us,
        "is_time_ambiguous": line.is_time_ambiguous,
        "total_time_us": total_time_us,
        "api_key": api_key,
        "api_version": int_of(header, names.API_VERSION),
        "api": api_name(api_key),
        "client_id": text_of(header, names.CLIENT_ID),
        "client_host": privacy.host(None if connection is None else client_host(connection)),
        "client_software_name": text_of(client, names.SOFTWARE_NAME),
        "client_software_version": text_of(client, names.SOFTWARE_VERSION),
        "principal": privacy.principal(text_of(fields, names.PRINCIPAL)),
        "connection_id": privacy.host(connection),
        "security_protocol": text_of(fields, names.SECURITY_PROTOCOL),
        "listener": text_of(fields, names.LISTENER),
        "correlation_id": int_of(header, names.CORRELATION_ID),
        "is_forwarded": fields.get(names.IS_FORWARDED) is True,
    }


def client_host(connection: str) -> str | None:
    """Returns the client's address from a connection id; None if the id has another form. The form is
    `server:port-client:port-number`. The address lies between the last port that has an address after it and the
    client's own port, and may contain colons. The id is read from the right, so that no part is read twice."""
    addresses, _, numbers = connection.rpartition(":")
    if _PORT_AND_NUMBERS.fullmatch(numbers) is None:
        return None
    at = addresses.rfind(":")
    while at > 0:
        port = _PORT_BEFORE_CLIENT.match(addresses, at)
        if port is not None and port.end() < len(addresses):
            return addresses[port.end() :]
        at = addresses.rfind(":", 0, at)
    return None


def _microseconds(milliseconds: Any) -> int:
    if isinstance(milliseconds, (int, float)) and 0 <= milliseconds * 1_000 < _TIME_US_MAX:
        return round(milliseconds * 1_000)
    raise Damage(f"{names.TOTAL_TIME_MS} is no duration")


def _dump(node: Any) -> str:
    return json.dumps(node, separators=(",", ":"), ensure_ascii=False)


def _refuse_surrogates(body: str, fields: dict[str, Any]) -> None:
    """Raises Damage for half a character: it can't be stored, and no broker writes one."""
    if "\\ud" in body or "\\uD" in body:
        try:
            _dump(fields).encode()
        except UnicodeEncodeError as error:
            raise Damage("half a character: a lone surrogate") from error

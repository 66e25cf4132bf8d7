"""Makes hostile texts for `bench.fuzz_inputs`: lines of both logs, JSON, settings and HTTP requests, and damages them.

The texts are made from facts of the product: the templates of Kafka's log, the fields of its requests, the shipped
settings. A reader gets further into a text that is nearly right than into a random one."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from groupledger.schemas.kafka import request_fields, request_line
from groupledger.schemas.kafka.api_keys import GROUP_APIS, ApiKey
from groupledger.schemas.kafka.coordinator_log import CLASSIC, OTHERS
from groupledger.schemas.kafka.rebalance_reasons import REASONS
from lab.scenarios.extremes import EXTREMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

TEMPLATES = [text for _, text in (*CLASSIC, *OTHERS)]
REASON_TEXTS = [text for _, text in REASONS]
PLACEHOLDER = re.compile(r"\{\w+(?::(?:int|word))?\}")
UUID = "0b6e3f5e-8f0b-4a55-9a41-3a1f2d9c7e10"
WORDS_BETWEEN = sorted(
    {part for text in (*TEMPLATES, *REASON_TEXTS) for part in PLACEHOLDER.sub("\0", text).split("\0")}
)
FIELDS = sorted({value for value in vars(request_fields).values() if isinstance(value, str) and value.isalpha()})
BROKEN = (
    *(" ", "  ", "\t", "\n", "\r", "\x00", "\x1b[2J", "\u2028", "\ud7ff", "é", "消", "😀", "\ufffd", "٣"),
    *("(", ")", " (", ") [", "[", "]", " (a)", " (a) [x]", "{", "}", '{"', '"', "\\", '\\"', ":", ",", ", ", "-", "."),
    *(":1-", "1-", "a", "0", "9" * 30, "-1", "1e999", "NaN", "null", "true", "[[", "]]", "\\ud800", "\\u0000"),
    *(
        "2026-02-10T09:45:00.1Z stdout P ",
        "2026-02-10T09:45:00.123Z stdout F ",
        "broker-1  | ",
        "[pod/k-0/k] ",
        "<14>1 ",
    ),
    *(
        '{"log":"',
        '","stream":"stdout","time":"2026-02-10T09:45:00Z"}',
        '{"level":"INFO","logger":"a.B","message":"',
        "T",
    ),
    *("Set(", "Some(", "None", "clientHost=", "Completed request:", "[2026-02-10 09:45:00,123] INFO ", "DEBUG "),
    *(UUID, f"consumer-1-{UUID}", "[GroupCoordinator id=1] ", "=HYPERLINK(1)", "'; DROP TABLE x; --", "../.."),
)
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 22, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**400, 0.5, 1e300, "", "x"),
    *EXTREMES.values(),
    *([], {}, [[]], [None], [{}], [1], ["x"], {"x": 1}, "AAAAAAAAAAAAAAAAAAAAAA", "\u2028", "\x00"),
)
SHIPPED_SETTINGS = resources.files("groupledger.conf").joinpath("groupledger.yaml").read_text()
SETTINGS = [line for line in SHIPPED_SETTINGS.splitlines() if line.strip() and not line.lstrip().startswith("#")]
YAML_VALUES = (
    *(
        "",
        "~",
        "[]",
        "{}",
        "[",
        "{a: [b",
        "&a [*a]",
        "*a",
        "!!python/object/apply:os.system [id]",
        "!!binary x",
        "? [a]",
    ),
    *(
        "2026-13-45",
        "2026-01-01 99:99:99",
        "1:99:99",
        "0x",
        "0b",
        "0o9",
        ".inf",
        ".nan",
        "1e400",
        "9" * 400,
        "yes",
        "on",
    ),
    *('!!int ""', '!!float ""', "!!timestamp x", "!!bool x", "*hunter2", "!hunter2 x", "? [a]", "hunter2: [", "\udcff"),
    *("'", '"', "|", ">-", "%", "@", "`", "\t", "\x00", "\x85", "\ufeff", "- a", "{<<: 1}", "<<: {a: 1}", "!!set {a}"),
    *("{env: }", "{env: HOME}", "{file: /dev/null}", "{file: [1]}", "(?!a)", "(a", "[[" * 300, "{a: " * 300),
)
HTTP_PIECES = (
    *("GET ", "HEAD ", "POST ", "get ", "/metrics", "/livez", "/", "//", "/..%2f", "?a=<b>", "<b>", " HTTP/1.1"),
    *(" HTTP/1.0", " HTTP/9.9", " HTTP/1", " HTTP/1.1.1", " HTTP/-1.0", " HTTP/\xb2", "\r\n", "\n", "\r", "\r\n\r\n"),
    *("Host: x", ": ", "Content-Length: 99", "Transfer-Encoding: chunked", "Expect: 100-continue", "\x00", "\xff", " "),
    *("Connection: keep-alive", "a" * 70_000, "X: y\r\n" * 150, "\x16\x03\x01\x02", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
)
SECONDS = ("2026-02-10 09:45:00", "0001-01-01 00:00:00", "1969-12-31 23:59:59", "9999-12-31 23:59:59")
DEPTH_MAX = 4


def chance(random: Random, share: float) -> bool:
    return random.random() < share


def a_name(random: Random) -> str:
    """Returns a possible name of a group, a member or a client."""
    kinds = (("orders", "g-1", f"consumer-orders-1-{UUID}", ""), BROKEN, WORDS_BETWEEN)
    return "".join(random.choice(random.choice(kinds)) for _ in range(random.choice((1, 1, 1, 2, 5))))


def rendered(random: Random, template: str) -> str:
    """Returns a text of Kafka's log with names in it."""

    def value(match: re.Match[str]) -> str:
        if ":" in match[0]:
            return random.choice(("1", "-1", "0", "9" * 20)) if match[0].endswith(":int}") else "Stable"
        is_reason = match[0] == "{reason}" and chance(random, 0.7)
        return rendered(random, random.choice(REASON_TEXTS)) if is_reason else a_name(random)

    return PLACEHOLDER.sub(value, template)


def a_second(random: Random) -> str:
    return random.choice(SECONDS) if chance(random, 0.05) else SECONDS[0]


def framed(message: str, logger: str, level: str = "INFO", second: str = SECONDS[0]) -> str:
    return f"[{second},123] {level} {message} ({logger})"


def server_text(random: Random) -> str:
    message = rendered(random, random.choice(TEMPLATES))
    begin = "[GroupCoordinator id=1 topic=__consumer_offsets partition=12] " if chance(random, 0.8) else ""
    logger = random.choice(("org.apache.kafka.coordinator.group.GroupMetadataManager", "kafka.Other", "java.lang"))
    return framed(begin + message, logger, second=a_second(random))


def a_node(random: Random, depth: int = 0) -> Any:
    """Returns JSON with the fields of Kafka's requests, and anything in them."""
    if depth > DEPTH_MAX or chance(random, 0.3):
        return a_name(random) if chance(random, 0.3) else random.choice(SCALARS)
    if chance(random, 0.35):
        return [a_node(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(FIELDS): a_node(random, depth + 1) for _ in range(random.randrange(6))}


def request_text(random: Random) -> str:
    api_key = random.choice([*sorted(GROUP_APIS), ApiKey.METADATA, ApiKey.FETCH])
    header = {request_line.API_KEY: int(api_key), request_line.API_VERSION: 9, request_line.CLIENT_ID: a_name(random)}
    if chance(random, 0.1):
        header[random.choice(sorted(header))] = random.choice(SCALARS)
    body = {
        request_line.IS_FORWARDED: False,
        request_line.HEADER: header,
        request_line.REQUEST: {request_fields.GROUP_ID: a_name(random), **dict_of(a_node(random))},
        request_line.RESPONSE: dict_of(a_node(random)) if chance(random, 0.9) else a_node(random),
        request_line.CONNECTION: random.choice(("127.0.0.1:9092-10.0.0.1:1-2-3", a_name(random))),
        request_line.TOTAL_TIME_MS: random.choice((1.5, 0, 1e300, *SCALARS)) if chance(random, 0.1) else 1.5,
        request_line.PRINCIPAL: a_name(random),
        request_line.CLIENT_INFORMATION: a_node(random) if chance(random, 0.1) else {},
    }
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=chance(random, 0.5))
    return framed(request_line.COMPLETED + text, "kafka.request.logger", "DEBUG", a_second(random))


def dict_of(node: Any) -> dict[str, Any]:
    return node if isinstance(node, dict) else {}


def damaged(random: Random, text: str, pieces: tuple[str, ...] = BROKEN) -> str:
    """Returns the text with one to four parts taken out, put in, repeated or cut off; often as it is."""
    for _ in range(random.choice((0, 0, 1, 1, 2, 4))):
        at, size = random.randrange(len(text) + 1), random.choice((1, 1, 2, 8, 64))
        text = random.choice(
            (
                text[:at] + random.choice(pieces) + text[at:],
                text[:at] + random.choice(pieces) * 30 + text[at + size :],
                text[:at] + text[at + size :],
                text[:at] + text[at : at + size] * 3 + text[at + size :],
                text[:at],
            )
        )
    return text


def log_text(random: Random, text: Callable[[Random], str], count: int) -> list[str]:
    """Returns lines of a log, damaged; a name with line breaks makes several of one."""
    lines = "\n".join(damaged(random, text(random)) for _ in range(count)).split("\n")
    return [line.rstrip("\r") for line in lines]


def a_unit(random: Random) -> str:
    """Returns a text to be repeated, to make a pattern backtrack: words between names, names, brackets."""
    return "".join(random.choice((*BROKEN, *WORDS_BETWEEN)) for _ in range(random.choice((1, 1, 2, 3)))) or "a"


def settings_text(random: Random) -> str:
    """Returns a section of the settings with some values replaced."""
    lines = random.sample(SETTINGS, random.randrange(1, 6))
    sections = [line for line in SETTINGS if not line.startswith(" ")]
    chosen = [random.choice(sections)] if lines[0].startswith(" ") else []
    changed = [
        line.split(":")[0] + ": " + random.choice(YAML_VALUES) if chance(random, 0.5) else line for line in lines
    ]
    return damaged(random, "\n".join([*chosen, *changed]) + "\n", (*BROKEN, *YAML_VALUES))


def http_bytes(random: Random) -> bytes:
    if chance(random, 0.3):
        return random.randbytes(random.randrange(200))
    text = random.choice(("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /livez HTTP/1.0\r\n\r\n"))
    if chance(random, 0.5):
        text = "".join(random.choice(HTTP_PIECES) for _ in range(random.randrange(1, 9)))
    return damaged(random, text, HTTP_PIECES).encode("latin-1", errors="replace")

"""Goal: no name, however bad, does anything to a page; what is left out is counted; and it asks for nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.jobs.process.terminal import escaped
from groupledger.jobs.report.page import own_script
from groupledger.jobs.report.page.embed import code_for_script, content_security_policy, json_for_script
from groupledger.jobs.report.page.group_data import group_data
from groupledger.jobs.report.page.names import NAME_CHARACTERS_MAX, shown, whole
from groupledger.jobs.report.page.times import duration
from groupledger.schemas.tables.lag import LAG
from lab.truth.histories import Log, member
from tests.jobs.report.report_pages import (
    HOSTILE,
    HOSTILE_NAME,
    HOUR,
    START,
    START_MS,
    group_rows,
    moving_group,
    page,
    rows_of,
)

# Of the elements of the page that a variable of the same name holds.
SCRIPT_METHODS = {"classList"}


class Parsed(HTMLParser):
    """What a browser would make of the page: its elements, and the texts of its data blocks."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: list[str] = []
        self.is_in_block = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.is_in_block = dict(attrs).get("type") == "application/json"

    def handle_data(self, data: str) -> None:
        if self.is_in_block:
            self.blocks.append(data)
            self.is_in_block = False


@pytest.fixture(scope="module")
def hostile_page() -> str:
    """A group, its members, topics and incidents, all with the worst of names."""
    named = {"client_id": HOSTILE, "client_host": HOSTILE, "group_instance_id": HOSTILE}
    owner = member(HOSTILE, units=[(HOSTILE, 0)], **named)
    log = Log().wait(START_MS).record(1, owner).record(2, owner, member("b"))
    incident: dict[str, Any] = {"kind": HOSTILE, "severity": HOSTILE, "evidence": HOSTILE, "member_id": HOSTILE}
    incident |= {"explanation": HOSTILE, "first_seen_at": START, "last_seen_at": START, "occurrences": 1}
    rows = group_rows(HOSTILE_NAME, log.entries, incidents=[incident])
    return page([rows], START, START + HOUR, cluster=HOSTILE)


def test_hostile_names_make_no_markup(hostile_page: str) -> None:
    """Goal: the elements of a page with hostile names are those of one with harmless names."""
    log = Log().wait(START_MS).record(1, member("a", 0)).record(2, member("a", 0), member("b"))
    incident: dict[str, Any] = {"kind": "k", "severity": "other", "evidence": "e", "explanation": "e", "occurrences": 1}
    incident |= {"first_seen_at": START, "last_seen_at": START}
    harmless = page([group_rows("g", log.entries, incidents=[incident])], START, START + HOUR)
    tags = [[tag for tag, _ in Parsed(text).tags] for text in (hostile_page, harmless)]
    assert tags[0] == tags[1]


def test_hostile_names_stay_readable(hostile_page: str) -> None:
    """Goal: nothing invisible reaches the page, a name is cut where it is long, and the whole of it is kept once."""
    text = hostile_page.split("</style>")[1].split("<script>", 1)[0]
    assert all(char.isprintable() or char == "\n" for char in text)
    _, block = Parsed(hostile_page).blocks
    group = json.loads(block)
    assert len(group["name"]) == NAME_CHARACTERS_MAX
    assert group["characters"] == len(HOSTILE_NAME)
    assert len(HOSTILE_NAME.encode()) == 32_767
    assert "\\n\\x00\\u202egnp.exe\\u2028" in group["whole"]
    assert block.isascii()
    assert not set(block) & set("<>&")


def test_policy(hostile_page: str) -> None:
    """Goal: the policy allows two scripts by their hashes, and no address; outside of scripts the page names none."""
    parsed = Parsed(hostile_page)
    policy = next(attrs["content"] for tag, attrs in parsed.tags if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == 2
    assert "http" not in policy
    addresses = [attrs[name] for _, attrs in parsed.tags for name in ("src", "href", "action", "data") if name in attrs]
    assert addresses
    assert all(address is not None and address.startswith("#") for address in addresses)
    assert not re.search(r"url\(|@import", hostile_page.split("<style>")[1].split("</style>", 1)[0])


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=60, deadline=None)
def test_json_for_script(value: str) -> None:
    """Goal: any text, lone surrogates and U+2028 included, comes through a script element as it was."""
    text = json_for_script(value)
    assert text.isascii()
    assert not set(text) & set("<>&")
    assert json.loads(text) == value


def test_rows_cost_each_name_once() -> None:
    """Goal: rows come to the script with their names, and the page holds each name of a list of rows once."""
    data = group_data(moving_group("orders", 30), START, START + HOUR)
    text = json_for_script(data)
    assert rows_of(text) == data
    assert len(data["bars"]) > 50
    assert text.count('"length"') == text.count('"pause_upper_ms"') == 1


def test_the_script_reads_what_the_data_holds() -> None:
    """Goal: every name of a row that the script reads is a name that the data has."""
    log = Log().wait(START_MS).record(1, member("a", 0)).record(2, member("a", 0), member("b"))
    incident = {"kind": "k", "severity": "error", "first_seen_at": START, "last_seen_at": START}
    lag = dict.fromkeys(("lag", "lag_seconds", "lag_seconds_lower_bound", "lag_partitions", "lag_unknown_partitions"))
    place = {**dict.fromkeys(field.name for field in LAG.schema), "of_group": 1}
    rows = group_rows(
        "g", log.entries, incidents=[incident], lag=[{**lag, "sampled_at": START}], lag_partitions=[place]
    )
    data = group_data(rows, START, START + HOUR)
    named = {"member": "members", "record": "records", "incident": "incidents", "point": "lag", "row": "lag_partitions"}
    for variable, rows_name in {**named, "bar": "bars"}.items():
        read = set(re.findall(rf"\b{variable}\.(\w+)", own_script().split("// The list of groups")[0]))
        assert read
        assert read - SCRIPT_METHODS <= data[rows_name][0].keys(), variable


@pytest.mark.parametrize("value", [[], [{}], [{"a": 1}, {"b": 2}], [{"a": 1}, 2], {"a": [[{"b": [{"c": None}]}]]}])
def test_lists_that_are_no_rows(value: Any) -> None:
    """Goal: what is no list of rows with the same names comes through as it was, at every depth."""
    assert rows_of(json_for_script(value)) == value


@pytest.mark.parametrize("code", ["'</ScRiPt>'", "a <!-- b", "a\rb", "a\0b"])
def test_code_for_script_refuses(code: str) -> None:
    """Goal: code that a browser would not take as it stands is refused."""
    with pytest.raises(ValueError, match="ends a script element"):
        code_for_script(code)


def test_hash() -> None:
    """Goal: the hash is the one that the standard gives as its example for this script."""
    assert "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='" in content_security_policy(
        ["alert('Hello, world.');"]
    )


@given(st.text(st.characters(), max_size=150))
@settings(max_examples=40, deadline=None)
def test_shown(name: str) -> None:
    """Goal: what is shown is short and has a picture; what is cut is there in whole."""
    text = shown(name)
    assert text.isprintable()
    assert len(text) <= NAME_CHARACTERS_MAX
    assert whole(name) in {None, escaped(name)}
    assert (whole(name) is None) == (text == escaped(name))


def test_left_out_is_counted() -> None:
    """Goal: each limit that is met says so with its number, and what is shown begins where it is complete."""
    rows = moving_group("g", 12)
    newest = sorted(rows.intervals, key=lambda row: row["valid_to"] or START + HOUR)[-6:]
    kept = [{**row, "of_group": len(rows.intervals), "partitions_left_out": 7} for row in newest]
    data = group_data(replace(rows, intervals=kept), START, START + HOUR)
    begin = min(row["valid_to"] for row in kept if row["valid_to"])
    assert data["from"] == round(begin.timestamp() * 1_000)
    first, second = data["notes"]
    assert f"from {begin:%Y-%m-%d %H:%M:%S} on: {len(rows.intervals) - 6} intervals of ownership" in first
    assert second.startswith("7 partitions are not drawn")
    assert all(record["at"] >= data["from"] for record in data["records"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 s"),
        (0.25, "250 ms"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (3_725, "1 h 2 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    """Goal: a length of time in at most two units."""
    assert duration(seconds) == text


def test_data_is_small() -> None:
    """Goal: a group with ten rebalances of three partitions costs a page less than 8 kB."""
    data = group_data(moving_group("orders", 10), START, START + HOUR)
    assert len(json_for_script(data)) < 8_000

"""Goal: no value in a path or a query makes the server fail, groups of any name have all their pages, and errors are
words for readers."""

from __future__ import annotations

import base64
import json
import re
import shutil
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest

from bench.fuzz_http import CURSORS, INSTANTS, questions_of, routes
from groupledger.jobs.gate import troubles
from groupledger.jobs.gate.troubles import Troubles
from groupledger.jobs.process.path_names import part
from groupledger.jobs.serve.readers import for_readers
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, Client, fill, served, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = ("", ".", "..", "~", "owners", "why", "a/owners", "//")
ONE_IN = 8
SERVED = "pay"
API, PAGES = f"/api/v1/clusters/{CLUSTER}", f"/clusters/{CLUSTER}"
OF_A_GROUP = (
    *("", "/owners", "/members", "/timeline", "/rebalances", "/incidents", "/what-if", "/lag", "/lag/total"),
    *("/why?since=2026-01-01", "/diff?from=2026-01-01T12:01:00Z", "/offsets?at=2026-01-01T12:06:00Z"),
)
PAGES_OF_A_GROUP = ("?at=2026-01-01T12:01:00Z", "/why?since=2026-01-01", "/diff?from=2026-01-01T12:01:00Z")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    for name in (SERVED, *NAMES):
        fill(folder, name, "orders", "pod-b")
    commit = {"topic": "orders", "partition": 0, "offset": 5, "leader_epoch": 1}
    record = {"kafka_partition": 7, "kafka_timestamp": AT + MINUTE, "is_tombstone": False, "offset_commit": commit}
    record |= {"record_type": "offset_commit", "ingest_date": AT.date()}
    records = ({**record, "kafka_offset": number + 10, "group_id": name} for number, name in enumerate(NAMES))
    write(folder, "coordinator_records", *records)
    return folder


@pytest.fixture(scope="module")
def client(warehouse: Path) -> Iterator[Client]:
    with served(warehouse) as found:
        yield found


@pytest.mark.parametrize("number", range(len(routes())))
def test_no_value_makes_it_fail(client: Client, number: int) -> None:
    """Attack: every path, and some of the hostile values for each of its parameters and parts: other ones for each
    path. bench.fuzz_http asks all."""
    names = {
        "cluster": CLUSTER,
        "group": SERVED,
        "topic": "orders",
        "name": "page.css",
        "table": "incidents",
        "query": "lag-now",
    }
    asked = questions_of(*routes()[number], names)[number % ONE_IN :: ONE_IN]
    failed = {each[:200]: answer.status for each in asked if (answer := client.get(each)).status >= 500}
    assert failed == {}


@pytest.mark.parametrize("text", INSTANTS[:7])
def test_no_log_has_such_an_instant(client: Client, text: str) -> None:
    """Goal: an instant that can't be computed with is refused in one sentence, wherever it is given."""
    for path in (f"{API}/groups/{SERVED}?at=", f"{PAGES}/groups/{SERVED}?until=", f"{PAGES}/groups/{SERVED}/diff?to="):
        answer = client.get(path + quote(text))
        assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")


@pytest.mark.parametrize("asked", CURSORS)
def test_a_cursor_that_nobody_gave(client: Client, asked: str) -> None:
    """Goal: a cursor is taken only in the form that it is given in."""
    answer = client.get(f"{API}/groups?{urlencode({'cursor': asked})}")
    decoded = base64.urlsafe_b64decode(asked)
    assert answer.status == (200 if decoded.startswith((b'[1,1,1,1,"', b"[9")) else 400)


@pytest.mark.parametrize("name", NAMES)
def test_a_group_has_all_its_pages(client: Client, name: str) -> None:
    """Goal: each page and each answer about a group of any name is about that group, by the links of the pages."""
    for rest in OF_A_GROUP if not name else ("/owners",):
        answer = client.get(f"{API}/groups/{part(name)}{rest}")
        assert answer.status == 200, (rest, answer.text)
    assert client.get(f"{API}/groups/{part(name)}").json["group"]["group_id"] == name
    assert client.get(f"/v3/kafka/{CLUSTER}/consumer/{part(name)}/lag").json["status"]["group"] == name
    overview = client.get(PAGES).text
    assert f'href="{PAGES}/groups/{part(name)}"' in overview
    for rest in PAGES_OF_A_GROUP:
        page = client.get(f"{PAGES}/groups/{part(name)}{rest}")
        assert page.status == 200
        assert f"{PAGES}/groups/{part(name)}" in page.text
    # A link needs something to press.
    assert not re.search(r"<a [^>]*></a>", overview + page.text)


def test_the_empty_name_as_it_is(client: Client) -> None:
    """Goal: the empty name between two slashes gets its answers, too."""
    assert (
        client.get(f"{API}/groups//why?since=2026-01-01").json
        == client.get(f"{API}/groups/~/why?since=2026-01-01").json
    )
    assert client.get(f"{PAGES}/groups//diff?from=2026-01-01T12:01:00Z").status == 200


def test_errors_are_for_readers(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Goal: whichever table is not there or damaged, no answer names a path or a command; the log has the sentence."""
    monkeypatch.setattr(troubles, "EVERY", Troubles())
    reported: dict[str, Any] = {}
    asked = [f"{API}/groups/{SERVED}{rest}" for rest in ("", "/lag", "/offsets?at=2027-01-01", "/diff?from=2027-01-01")]
    asked += [f"{PAGES}/groups/{SERVED}?at=2027-01-01", f"{API}/groups/nobody", PAGES, "/readyz"]
    for table in ("coverage", "groups", "lag"):
        for is_damaged in (False, True):
            place = tmp_path / f"{table}-{is_damaged}"
            shutil.copytree(warehouse, place)
            if is_damaged:
                for file in place.glob(f"{table}/**/*.parquet"):
                    file.write_bytes(b"PAR1")
            else:
                shutil.rmtree(place / table)
            with served(place) as client:
                reported |= {f"{table} {is_damaged} {path}": client.get(path) for path in asked}
    wrong = {name: answer.text for name, answer in reported.items() if re.search(f"{tmp_path}|`|--[a-z]", answer.text)}
    assert wrong == {}
    assert {answer.status for answer in reported.values()} <= {200, 400, 404, 503}
    assert {answer.status for answer in reported.values()} >= {200, 400, 503}
    said = capfd.readouterr().err
    assert "run `groupledger " in said
    assert str(tmp_path) in said


def test_names_make_no_lines(
    client: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Attack: names that nobody has, each another one, and instants likewise: a line for each kind of question."""
    monkeypatch.setattr(troubles, "EVERY", Troubles())
    for number in range(20):
        assert client.get(f"{API}/groups/{'x' * 50}{number}").status == 404
        assert client.get(f"{API}/groups/{SERVED}/diff?from={2030 + number}-01-01").status == 400
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("run `groupledger " in line for line in lines)


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (
            "The warehouse /data/w has no table lag yet: run `groupledger pipeline` first.",
            "The warehouse has no table lag yet: ask whoever runs groupledger.",
        ),
        (
            "No sampling round is computed yet: run `groupledger pipeline`, or `groupledger monitor`.",
            "No sampling round is computed yet: ask whoever runs groupledger.",
        ),
        (
            "The ledger knows nothing of the group a: check the name, or run `groupledger ingest` and `history`.",
            "The ledger knows nothing of the group a: check the name, or ask whoever runs groupledger.",
        ),
        ("soon is not a valid time: write one as 14:03.", "soon is not a valid time: write one as 14:03."),
        ("The group `a --b` is not known.", "The group `a --b` is not known."),
        (
            "It took too long: run `groupledger maintain`, and give --timeout.",
            "The ledger can't answer this now: ask whoever runs groupledger; its log says why.",
        ),
    ],
)
def test_sentences(sentence: str, shown: str) -> None:
    """Goal: a remedy that is a command becomes one for a reader of pages; a sentence about the question stays as it
    is."""
    assert for_readers(sentence, "/data/w") == shown


def test_json_is_whole(client: Client) -> None:
    """Goal: a refusal is problem details, also for a value that JSON does not have."""
    answer = client.get(f"{API}/groups?limit=NaN")
    assert json.loads(answer.text)["status"] == 400

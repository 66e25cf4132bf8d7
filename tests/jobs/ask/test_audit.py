"""Goal: the command, the JSON and the page name who reset offsets, and give the file that undoes it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from groupledger.jobs.cli.main import main
from groupledger.schemas.kafka.api_keys import ApiKey
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, served, write

if TYPE_CHECKING:
    from pathlib import Path

CLOSE = timedelta(milliseconds=5)
HOSTILE = "<b>admin"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Returns a group whose offsets were reset by a request, then by one that no log has, and then deleted."""
    fill(tmp_path, "pay", "orders", "m")
    fill(tmp_path, "audit", "orders", "m")
    event = {"group_id": "pay", "topic": "orders", "kafka_partition": 7, "kind": "rewound", "cause": "no_member"}
    event |= {"happened_at": AT, "offset_before": 900, "offset_after": 100, "records_repeated": 800}
    skipped = {**event, "partition": 1, "kafka_offset": 41, "kind": "skipped", "records_repeated": None}
    later = {**event, "partition": 3, "kafka_offset": 60, "happened_at": AT + 9 * MINUTE}
    gone = {**event, "partition": 2, "kafka_offset": 70, "kind": "group_deleted", "cause": None}
    gone |= dict.fromkeys(("offset_before", "offset_after", "records_repeated"))
    write(
        tmp_path,
        "offset_events",
        {**event, "partition": 0, "kafka_offset": 40},
        {**skipped, "offset_after": 950, "records_skipped": 50},
        later,
        {**gone, "happened_at": AT + 9.5 * MINUTE},
        {**gone, "kind": "expired", "happened_at": AT + 9.6 * MINUTE},
    )
    standing = {"group_id": "pay", "topic": "orders", "is_removed": False}
    stands = {0: 300, 3: 950}
    write(
        tmp_path,
        "committed_offsets",
        *({**standing, "partition": partition, "committed_offset": offset} for partition, offset in stands.items()),
    )
    place = {"group_id": "pay", "topic": "orders", "error_code": 0}
    request = {"source_file": "f", "happened_at": AT - CLOSE, "logged_at": AT + CLOSE, "happened_date": AT.date()}
    request |= {"api_key": ApiKey.OFFSET_COMMIT, "api": "OFFSET_COMMIT", "groups": [{"group_id": "pay"}]}
    request |= {"principal": "User:ops", "client_id": HOSTILE, "client_host": "10.0.0.9", "group_id": "pay"}
    places = [{**place, "partition": 0, "committed_offset": 100}, {**place, "partition": 1, "committed_offset": 950}]
    unlike = [{**place, "partition": 0, "committed_offset": 101}]
    write(
        tmp_path,
        "requests",
        {**request, "line_number": 1, "partitions": places},
        {**request, "line_number": 2, "partitions": unlike, "principal": "User:other"},
    )
    write(tmp_path, "log_files", {"log": "request_log", "source_file": "f"} | SPAN)
    return tmp_path


SPAN = {"first_logged_at": AT - MINUTE, "last_logged_at": AT + MINUTE}


def run(warehouse: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--warehouse", str(warehouse)])


def rows(warehouse: Path, *words: str) -> list[dict[str, Any]]:
    done = run(warehouse, "audit", *words, "--json")
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_who_did_it(warehouse: Path) -> None:
    """Goal: one row for each time, the first with its author, the others with the reason why he is unknown."""
    reset, later, gone = rows(warehouse, "pay")
    assert [by["principal"] for by in reset["authors"]] == ["User:ops"]
    assert (reset["kinds"], reset["records_repeated"], reset["records_skipped"]) == (["rewound", "skipped"], 800, 50)
    end = "the imported request logs end at 2026-01-01T12:01:00.000Z"
    assert [(row["known_by"], row["reason"]) for row in (later, gone)] == [("unknown", end)] * 2
    assert reset["known_until"]["request_log"] == "2026-01-01T12:01:00.000Z"
    assert rows(warehouse, "pay", "--since", "2026-01-01T12:09:10Z")[0]["record"] == "7/70"
    assert (len(rows(warehouse)), rows(warehouse, "audit")) == (3, [])
    table = run(warehouse, "audit", "pay", "--limit", "2")
    assert "unknown: the imported" in table.stdout
    assert "1 before these are left out" in table.stderr


def test_undo(warehouse: Path) -> None:
    """Goal: the file has the offsets before, without those that are not known or have been passed again."""
    assert run(warehouse, "audit", "pay", "--undo", "7/40").stdout == "orders,0,900\norders,1,900\n"
    gone = run(warehouse, "audit", "pay", "--undo", "7/70")
    assert (gone.stdout, "1 partitions are left out" in gone.stderr) == ("", True)
    assert run(warehouse, "audit", "pay", "--undo", "7/60").stdout == ""
    refused = run(warehouse, "audit", "pay", "--undo", "1/1")
    assert (refused.exit_code, "1/1" in refused.stderr) == (2, True)
    assert run(warehouse, "audit", "nobody").exit_code == 2


def test_pages(warehouse: Path) -> None:
    """Goal: the page and its JSON say the same, the group's page leads there, and a client's name stays text."""
    with served(warehouse) as client:
        path = f"/clusters/{CLUSTER}/groups/pay"
        assert f'href="{path}/audit"' in client.get(f"{path}?at=2026-01-01T12:01:00Z").text
        page = client.get(f"{path}/audit")
        assert (page.status, "User:ops &lt;b&gt;admin at 10.0.0.9" in page.text, HOSTILE in page.text) == (
            200,
            True,
            False,
        )
        assert page.text.count("unknown: the imported request logs end at") == 2
        found = client.get(f"/api/v1{path}/audit?limit=2").json
        assert (found["left_out"], [act["record"] for act in found["acts"]]) == (1, ["7/60", "7/70"])
        assert len(client.get(f"/api/v1/clusters/{CLUSTER}/audit").json["acts"]) == 3
        undo = client.get(f"/api/v1{path}/audit/undo?record=7/40")
        assert (undo.text, undo.headers["content-type"]) == ("orders,0,900\norders,1,900\n", "text/csv; charset=utf-8")
        assert client.get(f"/api/v1{path}/audit/undo?record=no").status == 400
        assert ">pay</a>" in client.get(f"/clusters/{CLUSTER}/audit").text
        later = client.get(f"{path}/audit?since=2026-01-01T12:30:00Z").text
        assert "Nothing is known." in later


def test_without_a_request_log(tmp_path: Path) -> None:
    """Goal: a warehouse without request logs says that they are missing."""
    fill(tmp_path, "pay", "orders", "m")
    event = {"group_id": "pay", "topic": "orders", "partition": 0, "kind": "rewound", "cause": "member"}
    write(tmp_path, "offset_events", event | {"happened_at": AT, "kafka_partition": 7, "kafka_offset": 3})
    (row,) = rows(tmp_path, "pay")
    assert (row["known_by"], row["reason"]) == ("inferred", "no request log was imported")
    assert [(by["member_id"], by["client_host"]) for by in row["authors"]] == [("m", "/h")]
    with served(tmp_path) as client:
        assert "No request log was imported" in client.get(f"/clusters/{CLUSTER}/groups/pay/audit").text

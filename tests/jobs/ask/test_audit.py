"""Goal: the command, the JSON and the page name who reset offsets, and give the file that undoes it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from groupledger.jobs.ask.undo import NOT_KNOWN, READ_UP_TO, WENT_BACK
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
    assert "at most 50" in run(warehouse, "audit", "pay").stdout
    table = run(warehouse, "audit", "pay", "--limit", "2")
    assert "unknown: the imported" in table.stdout
    assert "1 before these are left out" in table.stderr


def test_why_names_who_it_was(warehouse: Path) -> None:
    """Goal: the diagnosis names the same as the audit, from the request log."""
    done = run(warehouse, "why", "pay", "--since", "2026-01-01T11:55:00Z", "--until", "2026-01-01T12:05:00Z")
    assert f"it was User:ops {HOSTILE} at 10.0.0.9." in " ".join(done.stdout.split())
    assert "known: by request log and topic, observed" in done.stdout


def test_undo(warehouse: Path) -> None:
    """Goal: the file has the offsets before, without those that are not known or have been passed again, and it says
    which of the two for each partition."""
    plain = run(warehouse, "audit", "pay", "--undo", "7/40")
    assert (plain.stdout, "Careful" in plain.stderr) == ("orders,0,900\norders,1,900\n", False)
    gone = run(warehouse, "audit", "pay", "--undo", "7/70")
    assert (gone.stdout, gone.stderr.splitlines()[0]) == ("", f"left out: orders 2: {NOT_KNOWN}")
    passed = run(warehouse, "audit", "pay", "--undo", "7/60")
    assert (passed.stdout, passed.stderr.splitlines()[0]) == ("", f"left out: orders 3: {READ_UP_TO}")
    refused = run(warehouse, "audit", "pay", "--undo", "1/1")
    assert (refused.exit_code, "1/1" in refused.stderr) == (2, True)
    assert run(warehouse, "audit", "nobody").exit_code == 2


@pytest.fixture
def moved_forward(tmp_path: Path) -> Path:
    """Returns a group that was moved forward over 80 records: in one partition it has gone on, in one it stands, in one
    it has gone back, and in one its offset was deleted as well, at 300."""
    fill(tmp_path, "pay", "orders", "m")
    event = {"group_id": "pay", "topic": "orders", "happened_at": AT, "kafka_partition": 7, "kind": "skipped"}
    event |= {"cause": "no_member", "offset_before": 25, "offset_after": 45, "records_skipped": 20}
    deleted = {**event, "partition": 4, "kafka_offset": 50, "kind": "deleted", "happened_at": AT + MINUTE}
    deleted |= {"offset_before": 300, "offset_after": None, "records_skipped": None, "cause": None}
    skips = ({**event, "partition": partition, "kafka_offset": 40 + partition} for partition in range(4))
    write(tmp_path, "offset_events", *skips, deleted)
    stands = {0: 281, 1: 45, 2: 10, 4: 1_000}
    standing = {"group_id": "pay", "topic": "orders", "is_removed": False}
    write(
        tmp_path,
        "committed_offsets",
        *({**standing, "partition": partition, "committed_offset": offset} for partition, offset in stands.items()),
    )
    return tmp_path


def test_undoing_a_move_forward(moved_forward: Path) -> None:
    """Goal: whoever undoes a move forward sees first that the group would read again what it has read since, how much,
    and for how many lost records, and gets the ranges to read by another group; all of it beside the file."""
    plan = run(moved_forward, "audit", "pay", "--undo", "7/40")
    assert plan.stdout == "orders,0,25\norders,1,25\norders,3,25\n"
    left_out, careful, *ranges, known = plan.stderr.splitlines()
    assert left_out == f"left out: orders 2: {WENT_BACK}"
    assert "moves pay back by 296 records, for at most 60 that it never read: the other 236 it has read" in careful
    assert "with another group" in careful
    assert [line.strip() for line in ranges] == [f"orders {partition}: offsets 25 to 44" for partition in (0, 1, 3)]
    assert known.startswith("known until")
    deletion = run(moved_forward, "audit", "pay", "--undo", "7/50")
    assert deletion.stdout == "orders,4,300\n"
    assert "back by 700 records that lie below its present offsets" in deletion.stderr


@pytest.mark.parametrize(("reached", "file"), [(950, ""), (500, "orders,0,900\n")])
def test_undoing_a_reset_of_a_group_that_is_gone(tmp_path: Path, reached: int, file: str) -> None:
    """Goal: whoever undoes a reset of a group that was deleted later sees that, and the group had read up to its former
    offset again before, or had not."""
    fill(tmp_path, "pay", "orders", "m")
    event = {"group_id": "pay", "topic": "orders", "partition": 0, "happened_at": AT, "kafka_partition": 7}
    event |= {"kafka_offset": 40, "kind": "rewound", "cause": "no_member", "records_repeated": 800}
    gone = {**event, "kafka_offset": 70, "kind": "group_deleted", "happened_at": AT + MINUTE, "cause": None}
    gone |= {"offset_before": reached, "offset_after": None, "records_repeated": None}
    write(tmp_path, "offset_events", {**event, "offset_before": 900, "offset_after": 100}, gone)
    plan = run(tmp_path, "audit", "pay", "--undo", "7/40")
    assert plan.stdout == file
    assert "offsets of pay were removed later, at 2026-01-01T12:01:00.000Z" in plan.stderr
    assert (READ_UP_TO in plan.stderr) == (not file)
    assert "removed later" not in run(tmp_path, "audit", "pay", "--undo", "7/70").stderr


def test_past_offsets_of_a_group_that_went_on(moved_forward: Path) -> None:
    """Goal: a file of past offsets comes with a warning if it would move the group back, by how many records; the file
    itself has no word of it, and a look at the past has no warning."""
    commit = {"topic": "orders", "partition": 0, "offset": 200}
    record = {"group_id": "pay", "kafka_partition": 7, "kafka_offset": 3, "kafka_timestamp": AT - MINUTE}
    record |= {"record_type": "offset_commit", "is_tombstone": False, "ingest_date": AT.date()}
    ahead = {**record, "kafka_offset": 4, "offset_commit": {**commit, "partition": 1, "offset": 60}}
    write(moved_forward, "coordinator_records", {**record, "offset_commit": commit}, ahead)
    asked = ("offsets", "pay", "--at", "2026-01-01T12:01:00Z")
    csv = run(moved_forward, *asked, "--format", "csv")
    assert csv.stdout == "orders,0,200\norders,1,60\n"
    assert "Careful: pay committed beyond" in csv.stderr
    assert "moves back by 81 records in 1 partition," in csv.stderr
    assert "audit NAME --undo RECORD" in csv.stderr
    assert "Careful" not in run(moved_forward, *asked).stderr


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
        assert "at most 50" in page.text
        assert page.text.count("<code>groupledger audit --undo 7/40</code>") == 1
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

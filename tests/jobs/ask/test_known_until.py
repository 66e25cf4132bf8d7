"""Goal: each answer about the log says until when the ledger knows it."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from groupledger.jobs.ask.answers import last_known
from groupledger.jobs.ask.cluster_rows import ClusterRows
from groupledger.jobs.cli.main import main
from groupledger.jobs.warehouse.first_fold import FirstFold, first_fold_is_done, note_first_fold
from groupledger.jobs.warehouse.known_until import note_until
from groupledger.jobs.warehouse.lease import Lease
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.words import Source, words_of
from tests.jobs.serve.serving import AT, CLUSTER, MINUTE, fill, write

if TYPE_CHECKING:
    from pathlib import Path

# The other partition of the log is known until an hour later.
OF_GROUP, OF_ALL = "2026-01-01T12:10:00", "2026-01-01T13:10:00"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    fill(folder, "pay", "orders", "pod-b")
    stretch = {"completeness": "complete", "from_offset": 0, "to_offset": 100, "from_time": AT}
    write(folder, "coverage", {"kafka_partition": 8, **stretch, "to_time": AT + 70 * MINUTE})
    record = {"kafka_partition": 7, "kafka_offset": 3, "kafka_timestamp": AT, "group_id": "pay"}
    record |= {"record_type": "offset_commit", "is_tombstone": False, "ingest_date": AT.date()}
    write(folder, "coordinator_records", record | {"offset_commit": {"topic": "orders", "partition": 0, "offset": 5}})
    return folder


def test_a_log_that_goes_further(tmp_path: Path, warehouse: Path) -> None:
    """Goal: where incidents can come from a log that was read further than the topic, the answer names it."""
    shutil.copytree(warehouse, tmp_path, dirs_exist_ok=True)
    for log, minutes in (("request_log", 11), ("server_log", 9)):
        write(tmp_path, "log_files", {"log": log, "last_logged_at": AT + minutes * MINUTE})

    def known(words: str) -> list[str]:
        found = CliRunner().invoke(main, [*words.split(), "--warehouse", str(tmp_path)])
        return [line for line in found.stderr.splitlines() if line.startswith("known")]

    of_topic = "known until 2026-01-01T12:10:00.000Z"
    assert known("why pay --since 2026-01-01") == [f"{of_topic}, request log until 2026-01-01T12:11:00.000Z"]
    assert known("rebalances pay") == [of_topic]


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("owner pay orders 0 --at 2026-01-01T12:01:00Z", OF_GROUP),
        ("group pay --json", OF_GROUP),
        ("why pay --since 2026-01-01", OF_GROUP),
        ("rebalances --group pay", OF_GROUP),
        ("rebalances --group pay --json", OF_GROUP),
        ("incidents --group pay --json", OF_GROUP),
        ("rebalances", OF_ALL),
        ("incidents --json", OF_ALL),
        ("groups", OF_ALL),
        ("readers orders", OF_ALL),
        ("committers", OF_ALL),
    ],
)
def test_commands(warehouse: Path, words: str, until: str) -> None:
    """Goal: a command says it beside its answer, which stays as it was."""
    found = CliRunner().invoke(main, [*words.split(), "--warehouse", str(warehouse)])
    assert found.exit_code == 0, found.output
    assert [line[:31] for line in found.stderr.splitlines() if line.startswith("known")] == [f"known until {until}"]
    assert "known until" not in found.stdout


@pytest.mark.parametrize(
    ("words", "has_answer"),
    [
        ("why pay --since 2026-01-01T12:10:00Z", False),
        ("why pay --since 2026-01-01 --until 2026-01-01T12:11:00Z", True),
        ("incidents --since 2026-01-01T13:10:00Z", False),
        ("rebalances --since 2026-01-01T13:10:00Z", False),
        ("rebalances --until 2026-01-01T13:11:00Z", True),
        ("committers --since 2h", False),
        ("group pay --since 2h", False),
        ("owner pay orders 0 --at 2026-01-01T12:10:00Z", True),
        ("offsets pay --at 2026-01-01T12:10:00Z", False),
        ("diff pay --from 2026-01-01T12:01:00Z --to now", False),
        ("lag --at 2026-01-01T12:01:01Z", True),
        ("what-if pay --since 2h --setting static", False),
    ],
)
def test_a_question_beyond(warehouse: Path, words: str, *, has_answer: bool) -> None:
    """Goal: no answer says that something happened, or did not happen, in time that nobody has read; programs see it by
    the exit code and by a line of its own."""
    place = ("--warehouse", str(warehouse))
    found = CliRunner().invoke(main, [*words.split(), *place])
    assert found.exit_code == 4, found.output
    assert (bool(found.stdout), "Traceback" in found.stderr) == (has_answer, False)
    assert not any(none in found.output for none in ("nothing happened", "no incidents", "No trouble"))
    asked = CliRunner().invoke(main, [*words.split(), *place, "--json"])
    *rows, last = map(json.loads, asked.stdout.splitlines())
    assert (asked.exit_code, bool(rows)) == (4, has_answer)
    assert last["not_known"] in asked.stderr
    assert [*last["known_until"]] == [*words_of(Source)]
    assert all(row["known_until"] == last["known_until"] for row in rows)


def test_an_age_on_a_ledger_that_ended(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an age counts back from now, and where nobody has read that far, the sentence names the --since that has an
    answer: as long before what is known. That one works."""
    monkeypatch.setattr("groupledger.jobs.cli.instants.now_ms", lambda: round((AT + 720 * MINUTE).timestamp() * 1_000))
    asked = ["why", "pay", "--warehouse", str(warehouse)]
    found = CliRunner().invoke(main, [*asked, "--since", "2h"])
    assert (found.exit_code, found.stderr.strip()[-40:]) == (4, "a time before, as --since 2026-01-01T10:10:00Z."[-40:])
    assert CliRunner().invoke(main, [*asked, "--since", "2026-01-01T10:10:00Z"]).exit_code == 0
    partly = CliRunner().invoke(main, [*asked, "--since", "12h", "--until", "2026-01-01T12:11:00Z"])
    assert (partly.exit_code, partly.stderr.strip()[-22:]) == (4, "ask for a time before.")


def test_a_group_that_is_not_known(warehouse: Path) -> None:
    """Goal: a wrong name is reported as wrong, whatever time was asked for."""
    found = CliRunner().invoke(main, ["why", "pey", "--since", "2h", "--warehouse", str(warehouse)])
    assert (found.exit_code, "did you mean pay?" in found.stderr) == (2, True)


def test_a_window_without_times(warehouse: Path) -> None:
    """Goal: a window without times counts back from the last known instant, so that a ledger of the past has an
    answer."""
    found = CliRunner().invoke(main, ["why", "pay", "--json", "--warehouse", str(warehouse)])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout.splitlines()[-1])["known_until"]["topic"].startswith(OF_GROUP)


@pytest.mark.parametrize("words", ["incidents", "why pay"])
def test_before_incidents_are_looked_for(tmp_path: Path, words: str) -> None:
    """Goal: before a search for incidents, no answer says that there are none; after a search that found none, the
    answer says until when."""
    fill(tmp_path, "pay", "orders", "pod-b")
    shutil.rmtree(tmp_path / "incidents")
    asked = [*words.split(), "--warehouse", str(tmp_path)]
    for code, message in ((2, "no table incidents yet"), (4, "nobody has looked for incidents yet")):
        found = CliRunner().invoke(main, asked)
        expected = (code, message) if words == "incidents" else (4, "nobody has looked for incidents yet")
        assert (found.exit_code, expected[1] in found.stderr) == (expected[0], True), found.output
        assert "no incidents" not in found.output
        write(tmp_path, "incidents")  # as while the first search runs
    at_ms = round((AT + 5 * MINUTE).timestamp() * 1_000)
    note_until(LocalStorage(tmp_path), CLUSTER, Source.INCIDENTS, at_ms)
    found = CliRunner().invoke(main, asked)
    assert (found.exit_code, "incidents until 2026-01-01T12:05:00.000Z" in found.stderr) == (0, True), found.output


def test_before_the_first_history_is_made(tmp_path: Path, warehouse: Path) -> None:
    """Goal: while the first fold of the history is under way, no answer takes its tables for the present."""
    shutil.copytree(warehouse, tmp_path, dirs_exist_ok=True)
    storage = LocalStorage(tmp_path)
    with Lease(storage, CLUSTER, "pytest", 60) as lease:
        note_first_fold(storage, lease, FirstFold("an id", {7: 50}))
        for words in ("group pay --json", "owner pay orders 0", "rebalances", "why pay --since 2026-01-01"):
            found = CliRunner().invoke(main, [*words.split(), "--warehouse", str(tmp_path)])
            assert (found.exit_code, "the history is not made yet" in found.stderr) == (4, True), found.output
        first_fold_is_done(storage, lease)
    assert CliRunner().invoke(main, ["group", "pay", "--json", "--warehouse", str(tmp_path)]).exit_code == 0


def test_a_topic_that_is_not_known(warehouse: Path) -> None:
    """Goal: a question about the readers of an unknown topic gets a known topic with a similar name; a question about a
    known topic does not."""
    found = CliRunner().invoke(main, ["readers", "order", "--warehouse", str(warehouse)])
    assert (found.exit_code, "did you mean orders?" in found.stderr) == (0, True)
    assert "mean" not in CliRunner().invoke(main, ["readers", "orders", "--warehouse", str(warehouse)]).stderr


def test_what_is_not_known(tmp_path: Path) -> None:
    """Goal: without a known end of the log, or without the group, there is no instant."""
    assert last_known(ClusterRows(str(tmp_path), CLUSTER)) is None
    write(tmp_path, "coverage", {"kafka_partition": 7})
    assert last_known(ClusterRows(str(tmp_path), CLUSTER)) is None
    fill(tmp_path, "pay", "orders", "pod-b")
    tables = ClusterRows(str(tmp_path), CLUSTER)
    assert last_known(tables, "nobody") is None
    assert last_known(tables, "pay") == last_known(tables) == AT + 10 * MINUTE

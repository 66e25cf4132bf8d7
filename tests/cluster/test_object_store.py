"""Goal: a warehouse in an S3 bucket holds and answers what one on a disk does, also when writers race or die."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

from groupledger.jobs.process.errors import InputError
from groupledger.jobs.process.session import SHORT_LIVED, spark_session
from groupledger.jobs.warehouse.s3_create import NO_CONDITIONAL_WRITES
from groupledger.jobs.warehouse.storage import open_storage
from groupledger.schemas.tables.topic_names import TOPIC_NAMES
from lab.faults.contents import contents, differences
from tests.cluster.conftest import CLUSTER, groupledger, sources
from tests.cluster.s3 import BUCKET, S3Server
from tests.fault.topic import LedgerProcess, wait_until
from tests.jobs.warehouse.test_commits import WAYS, lease, names, writer
from tests.jobs.warehouse.test_storage import keeps_its_promises

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

GROUP = "zombie-commits-0000"
QUESTIONS = (
    ("groups", "--json"),
    ("why", GROUP, "--since", "2026-01-05T00:00:00Z", "--json"),
    ("lag", "--json"),
    ("incidents", "--json"),
    ("records", "--group", GROUP, "--json"),
    ("sql", "SELECT record_type, count(*) AS records FROM coordinator_records GROUP BY ALL ORDER BY ALL"),
)
WRITERS = 4
RACES = 20
# Behind the table's own creation and the writer's fence: the first that brings rows.
FIRST_ROWS = "coordinator_records/_delta_log/0{19}2.json"
# Of two rows, by the way of committing.
ROWS_AFTER = {"append": 3, "batch": 3, "merge": 3, "delete": 1, "replace": 0}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def spark(s3: S3Server) -> Iterator[SparkSession]:
    """Returns a session that knows the server."""
    session = spark_session("groupledger tests", java_options=SHORT_LIVED)
    yield session
    session.stop()


@pytest.fixture
def warehouse(s3: S3Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A folder of its own in the bucket; after the test nothing is broken any more."""
    yield f"s3a://{BUCKET}/{request.node.originalname}"
    s3.breaks()


@pytest.fixture(scope="module")
def filled(s3: S3Server, simulated: Path) -> str:
    """A warehouse with all that a pipeline writes."""
    warehouse = f"s3a://{BUCKET}/filled"
    groupledger("pipeline", *sources(simulated), "--cluster", CLUSTER, "--warehouse", warehouse)
    return warehouse


def only_records(expected: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    """Returns the tables that an ingest writes."""
    return {name: expected[name] for name in ("coordinator_records", "coverage", "topic_names") if name in expected}


def test_tables_are_equal(filled: str, expected: dict[str, Counter[str]]) -> None:
    """Goal: ingest, history, lag and incidents give the rows of a local run, and so they stay after a maintenance and
    another pass."""
    assert expected["lag"]
    assert expected["incidents"]
    assert differences(contents(filled), expected) == []
    groupledger("maintain", "--warehouse", filled)
    groupledger("history", "--cluster", CLUSTER, "--warehouse", filled)
    assert differences(contents(filled), expected) == []


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: str(question[0]))
def test_answers_are_equal(filled: str, local: Path, question: tuple[str, ...]) -> None:
    """Goal: questions get the answers of a local warehouse, without Java."""
    found = groupledger(*question, "--warehouse", filled)
    assert found
    assert found == groupledger(*question, "--warehouse", local)


def test_serve(filled: str) -> None:
    """Goal: the pages are served from the bucket."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = ("serve", "--warehouse", filled, "--listen", address)
    with subprocess.Popen([sys.executable, "-m", "groupledger.jobs.cli.main", *command], stderr=subprocess.PIPE) as run:
        try:
            assert run.stderr is not None
            assert b"read only" in run.stderr.readline()
            with urllib.request.urlopen(f"http://{address}/") as page:
                assert GROUP in page.read().decode()
        finally:
            run.send_signal(signal.SIGTERM)


def test_small_files(spark: SparkSession, warehouse: str) -> None:
    """Goal: small files are kept as on a disk, and of several that create one name at once exactly one succeeds."""
    keeps_its_promises(open_storage(spark, warehouse))
    stores = [open_storage(spark, f"{warehouse}/race") for _ in range(WRITERS)]
    for race in range(RACES):
        won: list[bool] = []
        start = threading.Barrier(WRITERS)

        def create(number: int, won: list[bool] = won, start: threading.Barrier = start, race: int = race) -> None:
            start.wait()
            won.append(stores[number].create(str(race), str(number)))

        threads = [threading.Thread(target=create, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == [False] * (WRITERS - 1) + [True]


def test_a_name_that_is_under_way(spark: SparkSession, s3: S3Server, warehouse: str) -> None:
    """Goal: a store that answers that another request for the name is under way is asked again."""
    s3.breaks(refused="/a$", status="409 Conflict", times=2)
    storage = open_storage(spark, warehouse)
    assert storage.create("a", "one")
    assert not storage.create("a", "two")
    assert storage.read("a") == "one"


@pytest.mark.parametrize(
    "broken",
    [{"ignores_conditions": True}, {"refused": ".", "status": "501 Not Implemented", "times": 100}],
    ids=["overwrites", "refuses"],
)
def test_a_store_without_conditional_writes(
    spark: SparkSession, s3: S3Server, warehouse: str, broken: dict[str, object]
) -> None:
    """Goal: on a store that can't keep two writers apart, nothing is written, and the error says why."""
    s3.breaks(**broken)
    storage = open_storage(spark, warehouse)
    with pytest.raises(InputError) as refused:
        storage.create("_groupledger/test/lease/1.json", "")
    assert str(refused.value) == NO_CONDITIONAL_WRITES
    assert storage.names("_groupledger/test/lease") == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_held_after", [False, True], ids=["before", "after"])
def test_a_commit_without_an_answer(
    s3: S3Server, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, *, is_held_after: bool
) -> None:
    """Goal: a writer that waits in vain for the answer to a commit goes on, whether the store has the commit or takes
    it up only when the next attempt is through, and its rows are there once."""
    monkeypatch.setenv("AWS_TIMEOUT", "2s")
    warehouse = f"{warehouse}/{is_held_after}/{way.replace(' ', '-')}"
    with lease(tmp_path) as held:
        commits = writer(warehouse, held)
        commits.append(TOPIC_NAMES, names("first"))
        commits.append(TOPIC_NAMES, names("second"))
        before = commits.open(TOPIC_NAMES)
        s3.breaks(held=f"/{before.version() + 1:020}.json", is_held_after=is_held_after)
        count = s3.held()
        WAYS[way](commits)
        assert s3.held() == count + 1
        s3.breaks()  # the store takes up what it held
        time.sleep(1)
        found = commits.open(TOPIC_NAMES)
        assert found.version() == before.version() + 1
        assert found.to_pyarrow_table().num_rows == ROWS_AFTER.get(way, 2)


@pytest.mark.parametrize("is_held_after", [False, True], ids=["before", "after"])
def test_killed_in_a_commit(
    s3: S3Server, simulated: Path, expected: dict[str, Counter[str]], warehouse: str, *, is_held_after: bool
) -> None:
    """Goal: a writer that is killed while it commits, before the store has the commit or after that, is followed by
    another one, and each row is there once."""
    warehouse = f"{warehouse}/{is_held_after}"
    arguments = ("--capture", str(simulated / "capture"))
    s3.breaks(held=FIRST_ROWS, is_held_after=is_held_after, is_dropped=not is_held_after)
    before = s3.held()
    with LedgerProcess("ingest", warehouse, *arguments) as killed:
        wait_until(lambda: s3.held() > before or killed.process.poll() is not None, "the commit")
        killed.kill(with_java=True)
    s3.breaks()
    code, said = LedgerProcess("ingest", warehouse, *arguments).finish()
    assert code == 0, said
    assert differences(contents(warehouse), only_records(expected)) == []


def test_a_writer_that_slept(
    s3: S3Server, simulated: Path, expected: dict[str, Counter[str]], warehouse: str, tmp_path: Path
) -> None:
    """Goal: while one writes, another is refused and names it. A writer that sleeps in the middle of its commit until
    another has taken its lease and done its work is refused when it wakes, and each row is there once."""
    (tmp_path / "settings.yaml").write_text("lease: {duration_s: 10}\n")
    arguments = ("--capture", str(simulated / "capture"), "--conf", str(tmp_path / "settings.yaml"))
    s3.breaks(held=FIRST_ROWS)
    before = s3.held()
    # It would give a request up after 30 s, and sleeps for longer.
    patient = {"AWS_TIMEOUT": "3600s"}
    with LedgerProcess("ingest", warehouse, *arguments, environment=patient) as sleeper:
        wait_until(lambda: s3.held() > before or sleeper.process.poll() is not None, "the commit")
        held = f"Another writer holds this warehouse: `groupledger ingest`, process {sleeper.process.pid}"
        code, said = LedgerProcess("ingest", warehouse, *arguments).finish()
        assert code == 3
        assert held in said
        os.killpg(sleeper.process.pid, signal.SIGSTOP)
        while held in said:  # until the lease has run out
            code, said = LedgerProcess("ingest", warehouse, *arguments).finish()
        assert code == 0, said
        s3.breaks()  # the store takes up the commit only now
        os.killpg(sleeper.process.pid, signal.SIGCONT)
        code, said = sleeper.finish()
    assert code == 3
    assert "Another writer took over this warehouse" in said
    assert differences(contents(warehouse), only_records(expected)) == []

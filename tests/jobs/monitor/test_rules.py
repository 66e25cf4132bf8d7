"""The monitor decides without brokers, tables or clocks here, and shows its state over HTTP."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from groupledger.jobs.monitor import http
from groupledger.jobs.monitor.commits import unread_offsets
from groupledger.jobs.monitor.exposition import OPEN_METRICS, Exposition
from groupledger.jobs.monitor.families import Counter, Gauge, family
from groupledger.jobs.monitor.http import serve
from groupledger.jobs.monitor.monitor import HISTORY_REST
from groupledger.jobs.monitor.rules import (
    Shedding,
    Stalls,
    Vitals,
    WorkPace,
    await_none_missing,
    behind_ms,
    interval_seconds,
    lag_age_max_ms,
    next_round_at,
    troubles,
    wait_s,
)
from groupledger.jobs.process import worker
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.worker import Worker, working
from groupledger.jobs.warehouse.delta_log import added_by
from groupledger.jobs.warehouse.storage import LocalStorage
from groupledger.schemas.tables.coordinator_records import COORDINATOR_RECORDS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("2m", 120), ("0s", None), ("15", None), ("1.5s", None), ("-1s", None), ("1h", None)],
)
def test_intervals(text: str, seconds: int | None) -> None:
    """Goal: whole seconds and minutes, and nothing else."""
    assert interval_seconds(text) == seconds


@pytest.mark.parametrize(
    ("now_s", "ends_took_s", "at_s"),
    [
        (100.0, 0.0, 104.75),  # before the batch of 105
        (104.8, 0.0, 109.75),  # too late for that one
        (104.75, 0.0, 109.75),  # a round that began just now does not begin again
        (100.0, 1.0, 103.0),  # slow ends are read sooner
        (100.0, 60.0, 102.5),  # but never more than half an interval before
    ],
)
def test_a_round_begins_before_a_batch(now_s: float, ends_took_s: float, at_s: float) -> None:
    """Goal: the ends are read when a batch that reads beyond them is about to begin."""
    assert next_round_at(now_s, 5, ends_took_s) == pytest.approx(at_s)
    assert wait_s(now_s, 5, ends_took_s) == pytest.approx(at_s - now_s)


def test_a_clock_that_is_read_once() -> None:
    """Goal: a monitor never waits longer than an interval, whenever its host's clock is set."""
    assert all(0 <= wait_s(now_s, 5, 60.0) <= 5 for now_s in (-1e9, 0, 104.76, 1e12))


def test_an_open_transaction_is_timed() -> None:
    """Goal: a reader that is held up is seen from its first round on, and let go when the transaction ends; a log that
    stands still as a whole holds up no reader."""
    stalls = Stalls()
    for at_ms, ends in [
        (1_000, [(0, 50, 50), (1, 7, 7)]),
        (2_000, [(0, 60, 55), (1, 7, 7)]),
        (3_000, [(0, 70, 55), (1, 7, 7)]),
    ]:
        stalls.look(ends, at_ms)
    assert stalls.hidden() == {0: 15}
    assert stalls.stalled_ms(9_000) == {0: 7_000}
    stalls.look([(0, 80, 78)], 4_000)  # another transaction is open now
    assert stalls.stalled_ms(9_000) == {0: 5_000}
    stalls.look([(0, 80, 80)], 5_000)
    assert stalls.stalled_ms(9_000) == {}


def vitals(
    *,
    is_ingesting: bool = True,
    round_age_ms: int | None = 5_000,
    lag_offsets: int = 0,
    stalled_ms: int = 0,
    ahead_ms: int = 0,
    is_loaded: bool = True,
) -> Vitals:
    return Vitals(is_ingesting, round_age_ms, lag_offsets, {3: stalled_ms}, ahead_ms=ahead_ms, is_loaded=is_loaded)


FIRST: dict[str, Any] = {"round_age_ms": None}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (vitals(), None),
        (vitals(is_ingesting=False), "The ingest has ended."),
        (vitals(**FIRST, lag_offsets=1_200, is_loaded=False), "No round is done yet: first the topic is read, 1,200 "),
        (vitals(**FIRST, is_loaded=False), "No round is done yet: the commits in the tables are read."),
        (
            vitals(**FIRST, lag_offsets=7),
            "No round is done yet: the first one waits until the ingest has read 7 offsets",
        ),
        (vitals(**FIRST), "No round is done yet: the first one is taken."),
        (vitals(ahead_ms=15_000), None),
        (vitals(ahead_ms=86_400_000), "This host's clock is 86,400 s earlier than the last round"),
        (vitals(round_age_ms=15_001), "The last round was 15 s ago."),
        (vitals(lag_offsets=1_200), "1,200 offsets of the topic still to read"),
        (vitals(stalled_ms=59_999), None),
        (vitals(stalled_ms=60_000), "partitions 3 of __consumer_offsets, for 60 s"),
    ],
)
def test_health(state: Vitals, sentence: str | None) -> None:
    """Goal: each way not to be well has a sentence, and nothing else has."""
    found = troubles(state, now_ms=105_000, interval_s=5, stalled_after_s=60, lag_age_max_ms=60_000)
    assert len(found) == (0 if sentence is None else 1)
    assert sentence is None or sentence in found[0]


def test_how_far_the_commits_are_behind() -> None:
    """Goal: the wait of the ingest is published in seconds, too; commits that are too old are a reason by themselves,
    since the lag is unknown then, even if nothing is known to wait."""
    late = Vitals(is_ingesting=True, round_age_ms=5_000, lag_offsets=7, stalled_ms={}, commits_known_ms=15_000)
    found = troubles(late, now_ms=105_000, interval_s=5, stalled_after_s=60, lag_age_max_ms=60_000)
    assert [sentence.partition(":")[0] for sentence in found] == [
        "The ingest has 7 offsets of the topic still to read",
        "Commits are 90 s behind, more than 60 s",
    ]
    assert "90 s ago" in found[0]
    in_time = replace(late, lag_offsets=0, commits_known_ms=50_000)
    assert troubles(in_time, now_ms=105_000, interval_s=5, stalled_after_s=60, lag_age_max_ms=60_000) == []
    assert (lag_age_max_ms(60, 15), lag_age_max_ms(60, 30)) == (60_000, 90_000)
    assert behind_ms({"topic": 100, "history": 90}, 95) == {"topic": 0, "history": 5}


def test_work_is_shed() -> None:
    """Goal: if the ingest is in time, work is done when it is due; if the ingest is behind, once in a while, so that it
    is done at all."""
    shedding = Shedding(300)
    assert shedding.may_work(0, is_behind=False)
    behind = [now_s for now_s in range(10, 1_000, 10) if shedding.may_work(now_s, is_behind=True)]
    assert behind == [310, 610, 910]
    assert shedding.may_work(1_000, is_behind=False)
    assert not shedding.may_work(1_001, is_behind=True)


def test_added_files(tmp_path: Path) -> None:
    """Goal: files that brought rows, by their real names; not those that only moved rows, nor those removed."""
    add = {
        "path": "ingest_date=2026-01-01/part%201.parquet",
        "dataChange": True,
        "stats": json.dumps({"numRecords": 3}),
    }
    actions = [
        {"commitInfo": {"timestamp": 1_767_225_600_000, "operation": "WRITE"}},
        {"txn": {"appId": "query", "version": 3}},
        {"add": add},
        {"add": {"path": "b.parquet", "dataChange": True}},
        {"add": {"path": "compacted.parquet", "dataChange": False}},
        {"remove": {"path": "c.parquet", "dataChange": False}},
    ]
    storage = LocalStorage(tmp_path)
    storage.write(f"{COORDINATOR_RECORDS.name}/_delta_log/{7:020}.json", "\n".join(map(json.dumps, actions)))
    found = added_by(storage, COORDINATOR_RECORDS, 7)
    assert found is not None
    assert found.files == {"ingest_date=2026-01-01/part 1.parquet": 3, "b.parquet": 0}
    assert found.at == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert added_by(storage, COORDINATOR_RECORDS, 8) is None


def test_behind() -> None:
    """Goal: only partitions that are not read up to their end, also those that the ingest has not begun."""
    assert unread_offsets({0: 10, 1: 9}, {0: 10, 1: 12, 2: 0, 3: 4}) == {1: 3, 3: 4}


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body, reported = answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    return answer.status, (gzip.decompress(body) if "content-encoding" in reported else body).decode(), reported


def test_what_is_served() -> None:
    """Goal: metrics as they are now, health by its status, and nothing under other paths."""
    found: list[str] = []
    exposition = Exposition()
    exposition.publish("c", [family(Gauge, "up", "Up.", (), [((), 1.0)])])
    troubles = {"/readyz": lambda: found, "/livez": list}
    with serve("127.0.0.1", 0, exposition.answer, troubles) as port:
        status, body, _ = get(port, "/metrics?name=up")
        assert (status, [each.name for each in text_string_to_metric_families(body)]) == (200, ["up"])
        assert get(port, "/readyz")[:2] == (200, "ok\n")
        found.append("The ingest has ended.")
        assert get(port, "/readyz")[:2] == (503, "The ingest has ended.\n")
        assert get(port, "/livez")[:2] == (200, "ok\n")
        assert get(port, "/")[:2] == (404, "There are /metrics, /readyz, /livez.\n")


def test_how_it_is_served() -> None:
    """Goal: a client that asks for OpenMetrics or gzip gets it, HEAD gets the head alone, and a round is served once it
    is published."""
    exposition = Exposition()
    with serve("127.0.0.1", 0, exposition.answer, {}) as port:
        for value in (1.0, 2.0):
            exposition.publish("c", [family(Counter, "rounds", "Rounds.", (), [((), value)])])
            _, plain, reported = get(port, "/metrics")
            assert f"rounds_total {value}\n" in plain
            assert reported["content-type"].startswith("text/plain")
            _, packed, reported = get(port, "/metrics", Accept_Encoding="gzip")
            assert (packed, reported["content-encoding"]) == (plain, "gzip")
            _, opened, reported = get(port, "/metrics", Accept="application/openmetrics-text; version=99; q=0.5, */*")
            assert opened.endswith(f"rounds_total {value}\n# EOF\n")
            assert reported["content-type"].startswith("application/openmetrics-text; version=1.0.0")
            status, nothing, reported = get(port, "/metrics", "HEAD")
            assert (status, nothing, reported["content-length"]) == (200, "", str(len(plain)))


def test_a_crowd_keeps_no_scrape_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: silent connections, more than there may be, keep neither a scrape nor a probe from its answer."""
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 8)
    with serve("127.0.0.1", 0, Exposition().answer, {"/livez": list}) as port, ExitStack() as stack:
        for _ in range(3 * http.CONNECTIONS_MAX):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert get(port, "/metrics")[0] == 200
        assert get(port, "/livez")[:2] == (200, "ok\n")
        assert get(port, "/livez", "POST")[0] == 405


def test_health_waits_for_no_scrape() -> None:
    """Goal: while scrapes take for ever, it is answered whether the monitor lives."""
    go_on = threading.Event()

    def slow(_: str) -> tuple[str, bytes]:
        go_on.wait(60)
        return "text/plain", b""

    with serve("127.0.0.1", 0, slow, {"/livez": list}) as port:
        scrapes = [threading.Thread(target=get, args=(port, "/metrics")) for _ in range(3 * http.SCRAPED_AT_ONCE)]
        for each in scrapes:
            each.start()
        assert get(port, "/livez")[:2] == (200, "ok\n")
        go_on.set()
        for each in scrapes:
            each.join(60)


def test_several_clusters() -> None:
    """Goal: the samples of one family are together in both formats, whatever names clients have chosen."""
    exposition, evil = Exposition(), "x\n# HELP lag y\n# EOF\n"
    labels = ("cluster_name", "group")
    more = [family(Counter, "rounds", "Of\nall.", labels[:1], [(("b",), 7.0)]), family(Gauge, "none", "", (), [])]
    for cluster, others in (("a", []), ("b", more)):
        exposition.publish(cluster, [family(Gauge, "lag", "Lag.", labels, [((cluster, evil), 1.0)]), *others])
    for accept, read in (("", text_string_to_metric_families), (OPEN_METRICS, open_metrics)):
        families = [*read(exposition.answer(accept)[1].decode())]
        assert [each.name for each in families] == ["lag", "rounds", "none"]
        samples = [[(sample.labels, sample.value) for sample in each.samples] for each in families]
        lags = [({"cluster_name": cluster, "group": evil}, 1.0) for cluster in ("a", "b")]
        assert samples == [lags, [({"cluster_name": "b"}, 7.0)], []]
    exposition.publish("b", [])
    assert b"rounds" not in exposition.answer("")[1]


def test_work_in_the_pauses() -> None:
    """Goal: work is due at its interval, and takes a quarter of the time at most, however long it takes."""
    pace = WorkPace(60)
    assert pace.is_due(0)
    pace.done(100, 101)
    assert (pace.is_due(159), pace.is_due(160)) == (False, True)
    pace.done(200, 230)
    assert (pace.is_due(319), pace.is_due(320)) == (False, True)


def test_history_keeps_its_interval() -> None:
    """Goal: a pass begins an interval after the one before it began; one that took longer is followed by a short
    rest, and not by an interval on top, which would make the history late by as much."""
    pace = WorkPace(60, HISTORY_REST)
    pace.done(100, 115)
    assert pace.until_due_s(115) == 45
    pace.done(200, 290)
    assert pace.until_due_s(290) == 30
    assert pace.until_due_s(400) == 0


def test_a_port_that_is_taken() -> None:
    """Goal: one sentence that names the address and the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(OutsideError, match=f"127.0.0.1:{port} .*: choose another --metrics-port"),
            serve("127.0.0.1", port, Exposition().answer, {}),
        ):
            pass


def test_a_worker_that_fails_is_heard() -> None:
    """Goal: the failure is raised where it is watched, once the others have been asked to stop."""
    stop = threading.Event()

    def fail() -> None:
        raise OutsideError("the query failed")

    other = Worker("other", stop.wait)
    with pytest.raises(OutsideError, match="the query failed"), working(stop, other), working(stop, Worker("", fail)):
        pass
    assert stop.is_set()
    assert not other.is_alive()


def test_a_worker_that_does_not_stop_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the wait of a worker that does not stop is broken off, and the error of that is no failure."""
    monkeypatch.setattr(worker, "STOP_SECONDS_MAX", 0)
    query = threading.Event()

    def wait_for_query() -> None:
        query.wait()
        raise OutsideError("cancelled")

    late = Worker("late", wait_for_query, query.set)
    with working(threading.Event(), late):
        pass
    assert query.is_set()
    assert not late.is_alive()


class Waiting:
    """An ingest that passes the ends at some time, on a clock that goes on only by waits."""

    def __init__(self, passes_at_s: float, stops_at_s: float = 1_000) -> None:
        self.passes_at_s, self.stops_at_s = passes_at_s, stops_at_s
        self.now_s, self.looks = 0.0, 0

    def missing(self) -> dict[int, int]:
        self.looks += 1
        return {} if self.now_s >= self.passes_at_s else {3: 7}

    def wait(self, pause_s: float) -> bool:
        self.now_s += pause_s
        return self.now_s >= self.stops_at_s

    def left(self, limit_s: float) -> dict[int, int]:
        return await_none_missing(self.missing, self.wait, lambda: self.now_s, limit_s)


def test_the_checkpoint_is_looked_at_ever_more_seldom() -> None:
    """Goal: a round that waits for the ingest reads some files of the checkpoint a few times and not twenty times a
    second, and is late by at most half of what it has waited; it ends with the limit, and when it is asked to stop."""
    prompt, slow, late = Waiting(0), Waiting(4), Waiting(1_000)
    assert (prompt.left(5), prompt.looks, prompt.now_s) == ({}, 1, 0)
    assert slow.left(5) == {}
    assert 4 <= slow.now_s <= 4.5
    assert slow.looks <= 15
    assert late.left(5) == {3: 7}
    assert 5 <= late.now_s <= 5.5
    stopped = Waiting(1_000, stops_at_s=0.1)
    assert (stopped.left(5), stopped.looks) == ({3: 7}, 2)
    soon = Waiting(0.3)
    assert (soon.left(5), soon.now_s < 0.45) == ({}, True)

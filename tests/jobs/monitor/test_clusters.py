"""Goal: with several clusters in one process, the trouble of one is reported and does not touch the others."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from py4j.protocol import Py4JError

from groupledger.jobs.monitor import clusters, monitor, upkeep
from groupledger.jobs.monitor.clusters import MonitoredCluster, run_monitor
from groupledger.jobs.monitor.families import Gauge, family
from groupledger.jobs.monitor.upkeep import MaintenanceTurns, Upkeep
from groupledger.jobs.process import clock
from groupledger.jobs.process.clock import DAY_MS
from groupledger.jobs.process.errors import OutsideError
from groupledger.jobs.process.settings import load_settings, overlaid
from groupledger.jobs.process.worker import Worker
from groupledger.schemas.tables.generations import GENERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from groupledger.jobs.monitor.monitor import Common

WAIT_S = 60
HOUR_MS = 3_600_000


class Rounds:
    """What is asked of a cluster's rounds while they go on."""

    def troubles(self) -> list[str]:
        return []

    def why_dead(self) -> list[str]:
        return []


class Stage:
    """Takes the place of Spark, brokers and tables: each cluster publishes a sample, and acts as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acts: dict[str, Callable[[], None]] = {}
        self.begun: list[str] = []
        self.held: list[str] = []
        self.said: list[str] = []
        self.stop = threading.Event()
        monkeypatch.setattr(clusters, "spark_session", lambda *_: None)
        monkeypatch.setattr(clusters, "ledger_in", self.ledger_in)
        monkeypatch.setattr(clusters, "watch_cluster", self.watch_cluster)
        monkeypatch.setattr(clusters, "say", self.say)
        monkeypatch.setattr(clusters, "BEGIN_AGAIN_S", 0.01)
        monkeypatch.setattr(monitor, "OwnProcesses", lambda _: None)

    def say(self, text: str, _level: int = 0, *, cluster: str | None = None) -> None:
        self.said.append(text if cluster is None else f"{cluster}: {text}")

    @contextmanager
    def ledger_in(self, _spark: object, settings: Any, *_: object, **_more: object) -> Iterator[SimpleNamespace]:
        self.held.append(settings.cluster)
        try:
            yield SimpleNamespace(cluster=settings.cluster)
        finally:
            self.held.remove(settings.cluster)

    def watch_cluster(
        self, ledger: Any, place: str, common: Common, stop: threading.Event, begun: Callable[[Any], None]
    ) -> None:
        name = ledger.cluster
        self.begun.append(name)
        assert place == f"{name}:9092"
        sample = family(Gauge, "lag", "Lag.", ("cluster_name",), [((name,), len(self.begun))])
        common.exposition.publish(name, [sample])
        begun(Rounds())
        self.acts.get(name, lambda: None)()
        stop.wait(WAIT_S)

    def run(self, *names: str) -> Worker:
        watched = [MonitoredCluster(load_settings(cluster=name), f"{name}:9092") for name in names]
        self.worker = Worker("monitor", lambda: run_monitor("w", watched, 15, 0, self.stop))
        self.worker.start()
        wait_for(lambda: any(line.startswith("metrics at") for line in self.said))
        return self.worker

    def fetch(self, path: str) -> tuple[int, str]:
        address = next(line for line in self.said if line.startswith("metrics at")).split()[2]
        try:
            with urlopen(address.replace("/metrics,", path)) as answer:  # noqa: S310 - our own
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(monkeypatch)
    yield made
    made.stop.set()
    made.worker.join(WAIT_S)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(WAIT_S * 100):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError


def no_broker() -> None:
    raise OutsideError("No broker answers at west:9092.")


def test_one_cluster_that_cannot_go_on(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the other is watched and served all the same; the one gives its lease back, has no metrics and is reported
    by /readyz, and is watched as soon as it can be."""
    monkeypatch.setattr(clusters, "BEGIN_AGAIN_S", 3_600)
    stage.acts["west"] = no_broker
    worker = stage.run("east", "west")
    wait_for(lambda: any("Next try" in line for line in stage.said))
    assert "west: No broker answers at west:9092. Next try in 3600 s." in stage.said
    wait_for(lambda: stage.held == ["east"])
    wait_for(lambda: stage.fetch("/readyz") == (503, "west: No broker answers at west:9092.\n"))
    assert stage.fetch("/livez") == (200, "ok\n")
    status, metrics = stage.fetch("/metrics")
    assert (status, 'cluster_name="east"' in metrics, "west" in metrics) == (200, True, False)
    stage.stop.set()
    worker.join(WAIT_S)
    worker.check()
    assert (stage.held, stage.said[-1]) == ([], "stopped")


def test_it_answers_while_spark_starts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the address is there from the beginning: alive, and not ready for a reason."""
    started = threading.Event()
    monkeypatch.setattr(clusters, "spark_session", lambda *_: started.wait(WAIT_S))
    stage.run("only")
    assert stage.fetch("/livez") == (200, "ok\n")
    assert stage.fetch("/readyz") == (503, f"{clusters.NOT_BEGUN}\n")
    assert stage.begun == []
    started.set()
    wait_for(lambda: stage.fetch("/readyz") == (200, "ok\n"))


def test_brokers_that_go_away_during_the_first_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the cluster's trouble is a whole sentence with a remedy, not the beginning of Spark's own text."""
    monkeypatch.setattr(clusters, "BEGIN_AGAIN_S", 3_600)

    def fail() -> None:
        query = type("StreamingQueryException", (Py4JError,), {})
        try:
            raise query("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.")
        except Py4JError as error:
            raise OutsideError("The streaming query failed: org.apache.kafka.common.err") from error

    stage.acts["west"] = fail
    stage.run("east", "west")
    wait_for(lambda: any("Next try" in line for line in stage.said))
    (said,) = (line for line in stage.said if "Next try" in line)
    assert said.startswith("west: The brokers stopped answering while Spark read from them: check")
    assert said.endswith("stay. Next try in 3600 s.")


def test_a_cluster_that_comes_back(stage: Stage) -> None:
    """Goal: a cluster that could not go on begins again, and then has no trouble."""
    stage.acts["west"] = lambda: no_broker() if stage.begun.count("west") < 3 else None
    worker = stage.run("west", "east")
    wait_for(lambda: stage.begun.count("west") == 3)
    wait_for(lambda: stage.fetch("/readyz") == (200, "ok\n"))
    _, metrics = stage.fetch("/metrics")
    assert metrics.count("# TYPE lag gauge\n") == 1
    assert metrics.count("\nlag{cluster_name=") == 2
    stage.stop.set()
    worker.join(WAIT_S)
    worker.check()
    assert stage.begun.count("east") == 1


@pytest.mark.parametrize(
    ("names", "error"), [(["only"], OutsideError("No broker.")), (["east", "west"], ValueError("of ours"))]
)
def test_what_ends_all(stage: Stage, names: list[str], error: Exception) -> None:
    """Goal: the only cluster ends the process with its sentence, and a fault of ours ends it whatever else there is."""

    def fail() -> None:
        raise error

    stage.acts[names[-1]] = fail
    worker = stage.run(*names)
    worker.join(WAIT_S)
    with pytest.raises(type(error), match=str(error)):
        worker.check()
    assert stage.held == []


def test_all_clusters_are_gone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that watches nothing any more is to be started again."""
    monkeypatch.setattr(clusters, "BEGIN_AGAIN_S", 3_600)
    stage.acts = {"west": no_broker, "east": no_broker}
    stage.run("east", "west")
    wait_for(lambda: stage.fetch("/livez")[0] == 503)
    assert stage.fetch("/livez")[1].count("No broker answers") == 2


def test_one_maintains_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: one of two clusters maintains the warehouse with the leases of both, and the other one does not repeat
    it."""
    ran: list[tuple[object, ...]] = []
    settings = load_settings()
    ledger: Any = SimpleNamespace(
        spark=None, warehouse="w", settings=settings, exists=lambda _: False, say=lambda _: None, give_way=None
    )
    maintenance = MaintenanceTurns(settings.monitor)
    held: Any = ["lease of east", "lease of west"]
    maintenance.held += held
    works = [Upkeep(ledger, maintenance) for _ in range(2)]

    def maintain(*_: object, held: tuple[object, ...], **__: object) -> list[object]:
        works[1].work(threading.Event())  # which comes meanwhile
        ran.append(held)
        return []

    monkeypatch.setattr(upkeep, "maintain", maintain)
    for each in works:
        each.work(threading.Event())
    assert ran == []  # not at the start
    monkeypatch.setattr(maintenance.pace, "_due_s", 0)
    for each in works:
        each.work(threading.Event())
    assert ran == [("lease of east", "lease of west")]


def test_the_search_follows_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: incidents with the interval of the history are looked for after each of its passes, also if one takes a
    little less time than the one before it; with a longer interval they are looked for as often as it says."""
    now_s, ran = [0.0], []
    monkeypatch.setattr(upkeep, "time", SimpleNamespace(monotonic=lambda: now_s[0], time=lambda: now_s[0]))
    monkeypatch.setattr(upkeep, "open_troubles", lambda _: [])
    monkeypatch.setattr(Upkeep, "_look_for_incidents", lambda _: ran.append(now_s[0]))
    for interval_s, expected in ((30, [2.0, 31.5, 62.0, 91.0]), (60, [2.0, 62.0])):
        ran.clear()
        settings = overlaid(
            load_settings(), {"monitor": {"incidents_interval_s": interval_s, "maintain_interval_h": 0}}
        )
        ledger: Any = SimpleNamespace(warehouse="w", settings=settings, exists=lambda table: table is GENERATIONS)
        work = Upkeep(ledger, MaintenanceTurns(settings.monitor))
        for ended_s in (2.0, 31.5, 62.0, 91.0):
            now_s[0] = ended_s
            work.work(threading.Event())
        assert ran == expected


def test_a_clock_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: while the host's clock is a year ahead of where it was, nothing is removed for its age, and the monitor
    says so; a step of an hour, by which hosts are set, keeps nobody from removing, and neither does a clock that is
    right again."""
    ran: list[datetime] = []
    said: list[str] = []
    ledger: Any = SimpleNamespace(spark=None, warehouse="w", settings=load_settings(), give_way=None)
    ledger.exists, ledger.say, ledger.warn = lambda _: False, said.append, said.append
    maintenance = MaintenanceTurns(ledger.settings.monitor)
    work = Upkeep(ledger, maintenance)

    def maintain(_spark: object, _warehouse: object, _settings: object, now: datetime, **__: object) -> list[object]:
        ran.append(now)
        return []

    monkeypatch.setattr(upkeep, "maintain", maintain)
    right_ms = clock.began_ms()
    for set_by_ms, times in ((365 * DAY_MS + HOUR_MS, 0), (-3 * DAY_MS - HOUR_MS, 0), (HOUR_MS, 1), (0, 2)):
        monkeypatch.setattr(upkeep, "began_ms", lambda set_by_ms=set_by_ms: right_ms + set_by_ms)
        monkeypatch.setattr(maintenance.pace, "_due_s", 0)
        work.work(threading.Event())
        assert len(ran) == times
    assert [line.split(" days")[0] for line in said if "clock" in line] == [
        f"no maintenance: this host's clock was set by {days}" for days in (365, 3)
    ]


def test_what_the_command_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: one cluster that is given, all of the settings, or one of these; each with its own settings."""
    from tests.jobs.cli.test_cli import run

    found: list[tuple[str, str, str | None]] = []

    def keep(_warehouse: str, watched: list[MonitoredCluster], *_: object) -> None:
        found.clear()
        found.extend((each.settings.cluster, each.bootstrap_servers, each.settings.kafka.mechanism) for each in watched)

    monkeypatch.setattr(clusters, "run_monitor", keep)
    path = tmp_path / "settings.yaml"
    path.write_text(
        "clusters: {east: {bootstrap_servers: 'e:1'}, west: {bootstrap_servers: 'w:1', kafka: {security_protocol:"
        " SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: {env: P}}}}"
    )
    east, west = ("east", "e:1", None), ("west", "w:1", "PLAIN")
    start = ("monitor", "--warehouse", "w", "--conf", str(path))
    for more, wanted in (
        ((), [east, west]),
        (("--cluster", "west"), [west]),
        (("--bootstrap-servers", "b:1"), [("default", "b:1", None)]),
        (("--bootstrap-servers", "b:1", "--cluster", "west"), [("west", "b:1", "PLAIN")]),
    ):
        assert run(*start, *more) == (0, "")
        assert found == wanted
    for arguments in (start[:3], (*start, "--cluster", "north")):
        code, said = run(*arguments)
        assert (code, "Give --bootstrap-servers, or name the cluster" in said) == (2, True)
    path.write_text(
        "{logs: {server_logs: [/l]}, clusters: {east: {bootstrap_servers: 'e:1'}, west: {bootstrap_servers: 'w:1'}}}"
    )
    for command in (start, ("doctor", *start[3:])):
        code, said = run(*command)
        assert (code, "/l is a log of one cluster" in said) == (2, True)
    # One folder may have both logs of a cluster.
    path.write_text("{logs: {server_logs: [/l], request_logs: [/l]}, clusters: {east: {bootstrap_servers: 'e:1'}}}")
    assert run(*start) == (0, "")

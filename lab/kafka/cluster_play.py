"""Breaks the brokers of a cluster under healthy groups, with groupledger beside it, and saves everything that is to be
judged.

A seed decides what happens, to which broker, and how long the pauses are. Faults of clients are played only when the
cluster has settled after a fault of a broker. FOLDER gets

    brokers/         the brokers' own files, with their server logs
    happened.jsonl   what was done, since when and until when, to which broker (and which partitions of
                     `__consumer_offsets` it led) or to which clients
    lives.jsonl      the clients (`cluster_clients.Clients.rows`)
    reported.jsonl   what the clients reported
    truth.jsonl      what the brokers answered, each second (`cluster_observer`)
    rest.jsonl       the brokers' last answers, after which nothing happened
    live/, after/    the warehouses (`cluster_product`)
    capture/         `__consumer_offsets` as it was at the end
"""

from __future__ import annotations

import json
import random
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient

from lab.diagnosis.stage import Feed
from lab.kafka.cleaned_topic import set_topic
from lab.kafka.cluster import Cluster
from lab.kafka.cluster_clients import ALL, PARTITIONS, Clients
from lab.kafka.cluster_observer import Observer
from lab.kafka.cluster_product import INTERVAL_S, SETTINGS, make_second
from lab.kafka.local_traffic import make_offsets_topic
from lab.kafka.matrix import now_ms
from lab.kafka.monitor_process import Monitor
from lab.truth.cluster_truth import offsets_in, positions_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    Row = dict[str, Any]

KILL, FREEZE, MOVE, ELECT = "kill_broker", "freeze_broker", "move_leaders", "elect_leaders"
KILL_CLIENT, CLOSE_CLIENT = "kill_client", "close_client"
RECORDS_PER_S = 5.0
WARM_UP_S = 45.0
FROZEN_S, DOWN_S = (10.0, 20.0), (8.0, 20.0)
SETTLE_S = {KILL: (70.0, 95.0), FREEZE: (70.0, 95.0), MOVE: (25.0, 50.0), ELECT: (25.0, 50.0)}
GONE_S, BACK_S = (25.0, 35.0), (15.0, 25.0)
BAG = (KILL, KILL, FREEZE, FREEZE, MOVE, ELECT)
REST_S_MAX = 90.0
SHARE_OF_CLIENTS = 0.6
PROPERTIES = {
    "offsets.topic.num.partitions": "4",
    "log.cleaner.backoff.ms": "2000",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.heartbeat.interval.ms": "2000",
    "group.share.heartbeat.interval.ms": "2000",
    "group.streams.min.session.timeout.ms": "10000",
    "group.streams.session.timeout.ms": "10000",
    "group.streams.min.heartbeat.interval.ms": "2000",
    "group.streams.heartbeat.interval.ms": "2000",
    "group.streams.num.standby.replicas": "1",
}
OF_OFFSETS_TOPIC = {"segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The plan of a run: random faults are played, with faults of clients between them, until `seconds` have passed.
    `monitor_share` is the share of the time in which the monitor may run."""

    seed: int
    seconds: float
    jars: Path
    monitor_share: float | None = None


def play(folder: Path, plan: Plan) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        cluster = opened.enter_context(Cluster(folder / "brokers", plan.jars, PROPERTIES))
        make_offsets_topic(cluster.servers)
        set_topic(AdminClient({"bootstrap.servers": cluster.servers, "log_level": 2}), OF_OFFSETS_TOPIC)
        logs = [broker.server_log for broker in cluster.brokers]
        settings = {**SETTINGS, "logs": {"server_logs": [str(each) for each in logs]}}
        with Monitor(folder, cluster.servers, INTERVAL_S, settings, plan.monitor_share) as monitor:
            clients = opened.enter_context(Clients(cluster.servers, ALL, folder / "state"))
            show = LongShow(folder, cluster, clients, random.Random(plan.seed), plan.seconds, monitor)
            show.run()
            show.end()
        make_second(folder, cluster.servers, logs)


@dataclass
class Show:
    """The stage of a run, and what can be done on it. `latest` has the last answers of the brokers."""

    folder: Path
    cluster: Cluster
    clients: Clients
    dice: random.Random

    def __post_init__(self) -> None:
        self.happened: list[Row] = []
        types = {kind.name: kind.group_type for kind in self.clients.kinds}
        self._feed = Feed(self.cluster.servers)
        self.cluster.make_topics(types, PARTITIONS)
        for group in types:
            self._feed.set(group, dict.fromkeys(range(PARTITIONS), RECORDS_PER_S))
        self._observer = Observer(self.cluster.servers, types, PARTITIONS, self.folder / "truth.jsonl")

    def start(self) -> None:
        self._feed.start()
        self.clients.start()
        self._observer.start()

    def latest(self) -> list[Row]:
        return self._observer.latest()

    def end(self) -> None:
        self._observer.stop()
        write_lines(self.folder / "happened.jsonl", self.happened)
        write_lines(self.folder / "reported.jsonl", self.clients.events())
        write_lines(self.folder / "lives.jsonl", self.clients.rows())

    def note(self, what: str, **more: Any) -> Row:
        row = {"what": what, "at_ms": now_ms(), "until_ms": None, **more}
        self.happened.append(row)
        return row

    def doings(self) -> dict[str, Callable[[], None]]:
        return {KILL: self._kill, FREEZE: self._freeze, MOVE: self._move, ELECT: self._elect}

    def settle(self, fault: str) -> None:
        """Waits until the cluster has settled after a fault."""
        time.sleep(self.dice.uniform(*SETTLE_S[fault]))

    def rest(self, seconds_max: float) -> None:
        """Stops the producers, and waits until every group has committed what there is."""
        self._feed.stop()
        deadline_s = time.monotonic() + seconds_max
        while not is_read(self.latest()) and time.monotonic() < deadline_s:
            time.sleep(1)
        self.note("rest")

    def _coordinator(self) -> tuple[int, list[int]]:
        """Returns a broker other than the controller that leads partitions of `__consumer_offsets`, and these."""
        led = self._led()
        if not led.keys() - {1}:
            self._elect()
            self.settle(ELECT)
            led = self._led()
        number = self.dice.choice(sorted(led.keys() - {1}))
        return number, led[number]

    def _led(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for partition, leader in self.cluster.leaders().items():
            found.setdefault(leader, []).append(partition)
        return found

    def _kill(self) -> None:
        number, led = self._coordinator()
        row = self.note(KILL, broker=number, led=led)
        self.cluster.kill(number)
        time.sleep(self.dice.uniform(*DOWN_S))
        self.cluster.bring_back(number)
        row["until_ms"] = now_ms()

    def _freeze(self) -> None:
        number, led = self._coordinator()
        row = self.note(FREEZE, broker=number, led=led)
        self.cluster.freeze(number, self.dice.uniform(*FROZEN_S))
        row["until_ms"] = now_ms()

    def _move(self) -> None:
        row = self.note(MOVE, led=sorted(self.cluster.leaders()))
        self.cluster.move_leaders()
        row["until_ms"] = now_ms()

    def _elect(self) -> None:
        row = self.note(ELECT, led=sorted(self.cluster.leaders()))
        self.cluster.elect_preferred()
        row["until_ms"] = now_ms()


@dataclass
class LongShow(Show):
    seconds: float
    monitor: Monitor

    def run(self) -> None:
        self.start()
        time.sleep(WARM_UP_S)
        self.monitor.slow_down()
        self.note("begin")
        for fault in self._faults(time.monotonic() + self.seconds):
            self.monitor.check()
            self.doings()[fault]()
            self.settle(fault)
            if self.dice.random() < SHARE_OF_CLIENTS:
                self._disturb_clients()
        self.rest(REST_S_MAX)
        self.monitor.go_on()
        time.sleep(3 * INTERVAL_S + SETTINGS["monitor"]["incidents_interval_s"])  # type: ignore[index]
        write_lines(self.folder / "rest.jsonl", self.latest())

    def _faults(self, until_s: float) -> Iterator[str]:
        while time.monotonic() < until_s:
            for fault in self.dice.sample(BAG, len(BAG)):
                if time.monotonic() < until_s:
                    yield fault

    def _disturb_clients(self) -> None:
        if self.dice.random() < 0.5:
            client = self.dice.choice(sorted({kind.client for kind in self.clients.kinds}))
            row = self.note(KILL_CLIENT)
            row["clients"] = self.clients.kill(client)
        else:
            row = self.note(CLOSE_CLIENT)
            row["clients"] = [self.clients.close(self.dice)]
        row["until_ms"] = now_ms()
        time.sleep(self.dice.uniform(*GONE_S))
        self.note("replace", clients=self.clients.replace_ended())
        time.sleep(self.dice.uniform(*BACK_S))


def is_read(latest: Sequence[Row]) -> bool:
    """Returns whether, by the last answers, every group has committed the end offset of each of its partitions, and
    share groups have acknowledged all records."""
    ends = offsets_in(latest, "ends")
    is_acknowledged = all(not lag for _, lag in positions_in(latest).values())
    return bool(ends) and offsets_in(latest, "commits") == ends and is_acknowledged


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]

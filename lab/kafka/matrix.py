"""Runs consumers of three client libraries, each under several protocols, through what happens to groups: scaling, a
close, a SIGKILL, a poll loop that hangs, another subscription, more partitions, rolling restarts, an administrator.

A case is one group. The consumers of a library run in two processes, and one process is killed when every case of that
library has come to its kill. Between two steps a case waits until its consumers own all partitions between them and
report nothing for a moment. Until the next step, the partitions that they report are the truth about owners.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient, MemberToRemove

from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.local_broker import KAFKA_JARS, SHORT_LIVED_JVM, _java
from lab.kafka.topics import make_topics

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from typing_extensions import Self

FOLDER = Path(__file__).parent
JAVA, LIBRDKAFKA, KAFKA_PYTHON = "java", "librdkafka", "kafka-python"
JAVA_MODERN = "java-modern"
"""Java's share consumers and Streams applications."""
PROGRAMS = {JAVA: "Consumers.java", JAVA_MODERN: "ModernGroups.java"}
STRATEGIES = {
    JAVA: {
        "range": "org.apache.kafka.clients.consumer.RangeAssignor",
        "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    },
}
CONSUMER = "consumer"  # no strategy of the client's: the protocol of KIP-848
SESSION_MS, POLL_INTERVAL_MS, COMMIT_MS = 4_000, 5_000, 500
HEARTBEAT_MS = 300
SETTLE_S_MAX = 180
QUIET_S = 0.7
PARTITIONS, OTHER_PARTITIONS = 6, 3
PRODUCE_EVERY_S = 0.4


@dataclass(frozen=True, slots=True)
class Case:
    client: str
    strategy: str
    is_static: bool = False
    prefix: str = ""  # of the group's name, where another test has the same case on the same broker

    @property
    def group(self) -> str:
        return f"{self.prefix}{self.client}-{self.strategy}" + ("-static" if self.is_static else "")


SHORT = (
    Case(JAVA, "range"),
    Case(JAVA, "cooperative-sticky"),
    Case(JAVA, "range", is_static=True),
    Case(JAVA, "cooperative-sticky", is_static=True),
    Case(LIBRDKAFKA, "cooperative-sticky"),
    Case(LIBRDKAFKA, "range", is_static=True),
    Case(KAFKA_PYTHON, "range"),
)
LONG = (
    *SHORT,
    Case(LIBRDKAFKA, "range"),
    Case(LIBRDKAFKA, "cooperative-sticky", is_static=True),
    Case(KAFKA_PYTHON, "cooperative-sticky"),
    Case(KAFKA_PYTHON, "range", is_static=True),
)


@dataclass(frozen=True, slots=True)
class Period:
    """A period in which nothing changed. `owners` has the client id that owned each topic partition."""

    from_ms: int
    to_ms: int
    owners: dict[TopicPartition, str]


@dataclass(slots=True)
class Played:
    """The outcome of a case: the periods in which nothing changed, and in `stalled` the client ids whose poll loop was
    once stopped."""

    case: Case
    periods: list[Period] = field(default_factory=list)
    stalled: list[str] = field(default_factory=list)


def now_ms() -> int:
    return int(time.time() * 1000)


def units(text: str) -> set[TopicPartition]:
    places = (place.rpartition("-") for place in text.split(",") if place)
    return {TopicPartition(topic, int(number)) for topic, _, number in places}


def java_program(name: str) -> list[str]:
    """Returns the command that runs a program of the folder `java` with Kafka's clients of 4.2."""
    logging = "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory"
    return [*_java(KAFKA_JARS), *SHORT_LIVED_JVM, logging, str(FOLDER / "java" / name)]


class Host:
    """A process with consumers of one client library, and their reports by client id: `owned` has the partitions of
    each, and `spoke_at` when it last reported. `events` has all reports (name, event, time in ms, partitions)."""

    def __init__(self, client: str, bootstrap_servers: str) -> None:
        if client in PROGRAMS:
            program = java_program(PROGRAMS[client])
        else:
            program = [sys.executable, "-W", "ignore", "-m", "lab.kafka.consumer_host", client]
        self._process = subprocess.Popen(
            [*program, bootstrap_servers],
            cwd=FOLDER.parents[1],  # where `lab` is found
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.owned: dict[str, set[TopicPartition]] = defaultdict(set)
        self.spoke_at: dict[str, float] = {}
        self.events: list[tuple[str, str, int, set[TopicPartition]]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._sending = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, *words: str) -> None:
        assert self._process.stdin is not None
        with self._sending:
            print(*words, sep="\t", file=self._process.stdin, flush=True)

    def kill(self) -> None:
        """Kills the process with SIGKILL. Afterwards none of its consumers owns a partition."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):  # a line that it was not to read any more
                stream.close()
        self.owned.clear()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            name, event, at_ms, places = line.rstrip("\n").split("\t")
            self.events.append((name, event, int(at_ms), units(places)))
            if event == "assigned":
                self.owned[name] |= units(places)
            elif event == "revoked":
                self.owned[name] -= units(places)
            elif event == "closed":
                self.owned.pop(name, None)
            self.spoke_at[name] = time.monotonic()


class Stage:
    """The broker and the two processes with the consumers of one client library. `kill_victims` is a barrier: the
    second process is killed when all cases wait at it."""

    def __init__(self, bootstrap_servers: str, client: str, cases: int) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.stayers = Host(client, bootstrap_servers)
        self.victims = Host(client, bootstrap_servers)
        self.kill_victims = threading.Barrier(cases, action=self.victims.kill)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stayers.kill()

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)


class Group:
    """The consumers of one case, which have short names; their client ids are `GROUP-NAME`."""

    def __init__(self, stage: Stage, case: Case) -> None:
        self.stage = stage
        self.case = case
        self.topic, self.other_topic = f"{case.group}.orders", f"{case.group}.payments"
        self.played = Played(case)
        self._hosts: dict[str, Host] = {}
        self._expected = {(self.topic, number) for number in range(PARTITIONS)}
        self._settled: tuple[int, dict[TopicPartition, str]] | None = None

    def start(self, name: str, *, is_victim: bool = False) -> None:
        self._act()
        host = self._hosts[name] = self.stage.victims if is_victim else self.stage.stayers
        settings = {
            "group.id": self.case.group,
            "client.id": self._client_id(name),
            **self._protocol(),
            "max.poll.interval.ms": POLL_INTERVAL_MS,
            "auto.commit.interval.ms": COMMIT_MS,
            "auto.offset.reset": "earliest",
            "metadata.max.age.ms": 1_000,
            **({"topic.metadata.refresh.interval.ms": 1_000} if self.case.client == LIBRDKAFKA else {}),
            **({"group.instance.id": name} if self.case.is_static else {}),
        }
        words = [str(word) for pair in settings.items() for word in pair]
        host.send("start", self._client_id(name), self.topic, *words)

    def _protocol(self) -> dict[str, Any]:
        if self.case.strategy == CONSUMER:
            return {"group.protocol": "consumer"}  # the broker has the times
        strategy = STRATEGIES.get(self.case.client, {}).get(self.case.strategy, self.case.strategy)
        return {
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }

    def close(self, name: str) -> None:
        self._send(name, "close")
        host = self._hosts.pop(name)
        self._await(lambda: self._client_id(name) not in host.owned, f"{name} to close")

    def stall(self, name: str) -> None:
        """Stops a consumer's poll loop until it is resumed."""
        self._send(name, "stall")
        self.played.stalled.append(self._client_id(name))

    def resume(self, name: str) -> None:
        self._send(name, "resume")

    def subscribe_to_both(self, name: str) -> None:
        self._send(name, "subscribe", f"{self.topic},{self.other_topic}")
        self._expected |= {(self.other_topic, number) for number in range(OTHER_PARTITIONS)}

    def add_partition(self) -> None:
        self._act()
        with closing(self.stage.admin()) as admin:
            admin.create_partitions({self.topic: PARTITIONS + 1})
        self._expected.add((self.topic, PARTITIONS))

    def kill_victims(self) -> None:
        self._act()
        self.stage.kill_victims.wait(3 * SETTLE_S_MAX)
        self._hosts = {name: host for name, host in self._hosts.items() if host is self.stage.stayers}

    def remove(self, name: str) -> None:
        """Removes a static member by its instance id, as an administrator does."""
        self._act()
        with closing(self.stage.admin()) as admin:
            admin.remove_group_members(self.case.group, [MemberToRemove(group_instance_id=name)])

    def settle(self, *names: str) -> None:
        """Waits until the consumers `names` own all partitions between them, each at least one, and have reported
        nothing for a moment."""

        def is_settled() -> bool:
            owned = [set(self._owned(name)) for name in names]
            is_whole = all(owned) and sum(map(len, owned)) == len(self._expected) == len(set().union(*owned))
            spoke_at = max(self._hosts[name].spoke_at.get(self._client_id(name), 0.0) for name in names)
            return is_whole and time.monotonic() - spoke_at > QUIET_S

        self._await(is_settled, f"{', '.join(names)} to own {len(self._expected)} partitions")
        owners = {unit: self._client_id(name) for name in names for unit in self._owned(name)}
        self._settled = (now_ms(), owners)
        time.sleep(COMMIT_MS / 1000)

    def end(self) -> Played:
        self._act()
        return self.played

    def _client_id(self, name: str) -> str:
        return f"{self.case.group}-{name}"

    def _owned(self, name: str) -> set[TopicPartition]:
        return self._hosts[name].owned[self._client_id(name)]

    def _send(self, name: str, action: str, *words: str) -> None:
        self._act()
        self._hosts[name].send(action, self._client_id(name), *words)

    def _act(self) -> None:
        """Ends the period without a change, before something happens."""
        if self._settled is not None:
            since_ms, owners = self._settled
            self.played.periods.append(Period(since_ms, now_ms(), owners))
            self._settled = None

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLE_S_MAX
        while not condition():
            if time.monotonic() > deadline:
                owned = {name: sorted(self._owned(name)) for name in self._hosts}
                raise TimeoutError(f"{self.case.group}: waited {SETTLE_S_MAX} s for {what}; they own {owned}")
            time.sleep(0.05)


def play_dynamic(group: Group) -> None:
    group.start("a")
    group.settle("a")
    group.start("v", is_victim=True)
    group.settle("a", "v")
    group.start("b")
    group.settle("a", "v", "b")
    group.kill_victims()
    group.settle("a", "b")
    group.start("c")
    group.settle("a", "b", "c")
    group.close("b")
    group.settle("a", "c")
    group.stall("c")
    group.settle("a")
    group.resume("c")
    group.settle("a", "c")
    if group.case.client != KAFKA_PYTHON:  # 3.0.12 now and then stands still when its leader joins again for either
        group.subscribe_to_both("a")
        group.settle("a", "c")
        group.add_partition()
        group.settle("a", "c")
    group.close("a")
    group.close("c")


def play_static(group: Group) -> None:
    group.start("i0")
    group.settle("i0")
    group.start("i1")
    group.settle("i0", "i1")
    group.start("i2", is_victim=True)
    group.settle("i0", "i1", "i2")
    for name in ("i0", "i1"):
        group.close(name)
        group.start(name)
        group.settle("i0", "i1", "i2")
    group.kill_victims()
    if group.case.strategy == CONSUMER:
        group.settle("i0", "i1")  # whoever takes the place of an instance that is thought to live is refused
    group.start("i2")
    group.settle("i0", "i1", "i2")
    if group.case.client != KAFKA_PYTHON:  # its leader, once restarted, looks at the topic's partitions no more
        group.add_partition()
        group.settle("i0", "i1", "i2")
    group.close("i1")
    group.settle("i0", "i2")
    group.close("i2")
    group.remove("i2")
    group.settle("i0")
    group.close("i0")
    group.remove("i0")  # nothing may happen any more while log and topic are read, one after the other


def play(bootstrap_servers: str, cases: Sequence[Case]) -> list[Played]:
    """Plays all cases side by side, and returns their outcomes. Raises the error of the first case that fails."""
    groups: list[Group] = []
    with ExitStack() as stack:
        for client in dict.fromkeys(case.client for case in cases):
            of_client = [case for case in cases if case.client == client]
            stage = stack.enter_context(Stage(bootstrap_servers, client, len(of_client)))
            groups += [Group(stage, case) for case in of_client]
        topics = {group.topic: PARTITIONS for group in groups} | {
            group.other_topic: OTHER_PARTITIONS for group in groups
        }
        make_topics(bootstrap_servers, topics)
        is_over = threading.Event()
        producing = threading.Thread(target=produce, args=(bootstrap_servers, topics, is_over))
        producing.start()
        stack.callback(producing.join)
        stack.callback(is_over.set)
        with ThreadPoolExecutor(len(groups)) as pool:
            for playing in [pool.submit(play_one, group) for group in groups]:
                playing.result()
    return [group.end() for group in groups]


def play_one(group: Group) -> None:
    try:
        (play_static if group.case.is_static else play_dynamic)(group)
    except BaseException:
        group.stage.kill_victims.abort()  # nobody waits for a case that has failed
        raise
    group.end()


def produce(bootstrap_servers: str, topics: dict[str, int], is_over: threading.Event) -> None:
    """Writes records to each partition until `is_over` is set, so that the consumers have something to commit. `topics`
    has numbers of partitions."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    while not is_over.wait(PRODUCE_EVERY_S):
        for topic, count in topics.items():
            for number in range(count):
                producer.produce(topic, b"order", partition=number)
        producer.poll(0)
    producer.flush(10)


def instants(period: Period, count: int, source: random.Random) -> Iterable[int]:
    return (source.randrange(period.from_ms, period.to_ms) for _ in range(count) if period.to_ms > period.from_ms)

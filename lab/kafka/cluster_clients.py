"""Runs the consumers of a cluster's groups of all types, and reports which of them ended how.

Each member is a *life*: its client id is never used again, so that every statement about a client id is about one life.
When the play has ended a life, another one takes its place after a while; a static member then keeps its instance id.
The first two members of a group run in a process with others of the same client library. The third member runs in
another process, with the third members of other groups of that library, and that process is the one that is killed.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.schemas.words import GroupType
from lab.kafka.matrix import JAVA, JAVA_MODERN, KAFKA_PYTHON, LIBRDKAFKA, Host, now_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from random import Random

    from typing_extensions import Self

CLASSIC, CONSUMER, SHARE, STREAMS = GroupType.CLASSIC, GroupType.CONSUMER, GroupType.SHARE, GroupType.STREAMS
SIMPLE = "simple"  # commits under a group id, and joins no group
PARTITIONS = 4
MEMBERS = ("a", "b", "c")
VICTIM = "c"
START_EVERY_S = 0.2
CLOSE_S_MAX = 30.0
STRATEGIES = {
    (JAVA, "range"): "org.apache.kafka.clients.consumer.RangeAssignor",
    (JAVA, "cooperative-sticky"): "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@dataclass(frozen=True, slots=True)
class GroupKind:
    name: str
    client: str
    group_type: str = CLASSIC
    strategy: str = "range"
    is_static: bool = False
    places: Sequence[str] = MEMBERS


ALL = (
    GroupKind("java-0", JAVA),
    GroupKind("java-1", JAVA, strategy="cooperative-sticky"),
    GroupKind("java-2", JAVA, is_static=True),
    GroupKind("rd-0", LIBRDKAFKA),
    GroupKind("rd-1", LIBRDKAFKA, strategy="cooperative-sticky"),
    GroupKind("rd-2", LIBRDKAFKA),
    GroupKind("rd-3", LIBRDKAFKA, strategy="cooperative-sticky"),
    GroupKind("python-0", KAFKA_PYTHON),
    GroupKind("new-0", JAVA, CONSUMER),
    GroupKind("new-1", JAVA, CONSUMER),
    GroupKind("new-2", JAVA, CONSUMER),
    GroupKind("new-3", LIBRDKAFKA, CONSUMER),
    GroupKind("share-0", JAVA_MODERN, SHARE),
    GroupKind("share-1", JAVA_MODERN, SHARE),
    GroupKind("streams-0", JAVA_MODERN, STREAMS),
    GroupKind("streams-1", JAVA_MODERN, STREAMS),
    GroupKind("simple-0", LIBRDKAFKA, SIMPLE, places=("a",)),
)


def settings(kind: GroupKind, client_id: str, place: str, state: Path) -> dict[str, str]:
    """Returns the settings of a client. A Streams application gets a folder of its own in `state`."""
    if kind.group_type == SHARE:
        return {"group.protocol": SHARE, "group.id": kind.name, "client.id": client_id}
    if kind.group_type == STREAMS:
        return {
            "group.protocol": STREAMS,
            "application.id": kind.name,
            "client.id": client_id,
            "state.dir": str(state / client_id),
            "commit.interval.ms": "2000",
        }
    found = {
        "group.id": kind.name,
        "client.id": client_id,
        "max.poll.interval.ms": "60000",
        "auto.commit.interval.ms": "2000",
        "auto.offset.reset": "earliest",
    }
    if kind.group_type == SIMPLE:
        return {**found, "assigned.partitions": str(PARTITIONS)}
    if kind.client != KAFKA_PYTHON:
        found["group.protocol"] = kind.group_type
    if kind.group_type == CLASSIC:
        found |= {"session.timeout.ms": "10000", "heartbeat.interval.ms": "2000"}
        found["partition.assignment.strategy"] = STRATEGIES.get((kind.client, kind.strategy), kind.strategy)
    if kind.is_static:
        found["group.instance.id"] = f"{kind.name}-{place}"
    return found


@dataclass(slots=True)
class Life:
    """One consumer from its start to its end. `ended` has how the play ended it (`killed` or `closed`) and when, in
    milliseconds; it is None while the consumer runs. `place` is the name of its place in the group."""

    kind: GroupKind
    place: str
    client_id: str
    host: Host
    ended: tuple[str, int] | None = None


@dataclass(slots=True)
class Clients:
    """All consumers that were started, including those that have ended. `kinds` are the groups, and `state` is a folder
    for what Streams applications store. Without victims, all members of a library run in one process."""

    servers: str
    kinds: Sequence[GroupKind]
    state: Path
    has_victims: bool = True
    lives: list[Life] = field(default_factory=list)
    _steady: dict[str, Host] = field(default_factory=dict)
    _asides: dict[str, Host] = field(default_factory=dict)
    _hosts: list[Host] = field(default_factory=list)
    _opened: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def start(self) -> None:
        for kind in self.kinds:
            for place in kind.places:
                self._begin(kind, place)
                time.sleep(START_EVERY_S)

    def kill(self, client: str) -> list[str]:
        """Kills the process with the third members of the groups of a client library, and returns their client ids."""
        host = self._asides.pop(client)
        gone = [life for life in self.lives if life.host is host and life.ended is None]
        at_ms = now_ms()
        host.kill()
        for life in gone:
            life.ended = ("killed", at_ms)
        return [life.client_id for life in gone]

    def close(self, dice: Random) -> str:
        """Closes one random consumer, as an application does at its end, and returns its client id."""
        life = dice.choice([each for each in self.living() if each.host is self._steady.get(each.kind.client)])
        life.ended = ("closed", now_ms())
        life.host.send("close", life.client_id)
        deadline = time.monotonic() + CLOSE_S_MAX
        while not any(event == "closed" and name == life.client_id for name, event, *_ in list(life.host.events)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{life.client_id} was not closed after {CLOSE_S_MAX:.0f} s")
            time.sleep(0.1)
        return life.client_id

    def replace_ended(self) -> list[str]:
        """Starts a new life in each place whose life has ended, and returns the new client ids."""
        begun = []
        for kind in self.kinds:
            living = {life.place for life in self.living() if life.kind is kind}
            begun += [self._begin(kind, place).client_id for place in kind.places if place not in living]
        return begun

    def living(self) -> Iterator[Life]:
        return (life for life in self.lives if life.ended is None)

    def events(self) -> list[dict[str, Any]]:
        """Returns all events that the clients reported, in the order of time: name, event, time and partitions."""
        found = [
            {"name": name, "event": event, "at_ms": at_ms, "partitions": sorted(map(list, places))}
            for host in self._hosts
            for name, event, at_ms, places in list(host.events)
        ]
        return sorted(found, key=lambda each: each["at_ms"])

    def rows(self) -> Iterable[dict[str, Any]]:
        """Yields a row for each life: its group, whether it is static, and how and when the play ended it."""
        for life in self.lives:
            how, at_ms = life.ended or (None, None)
            yield {
                "client_id": life.client_id,
                "group_id": life.kind.name,
                "group_type": life.kind.group_type,
                "is_static": life.kind.is_static,
                "ended": how,
                "ended_ms": at_ms,
            }

    def _begin(self, kind: GroupKind, place: str) -> Life:
        number = sum(life.kind is kind and life.place == place for life in self.lives)
        client_id = f"{kind.name}-{place}{number}"
        life = Life(kind, place, client_id, self._host(kind.client, is_aside=self.has_victims and place == VICTIM))
        words = [word for pair in settings(kind, client_id, place, self.state).items() for word in pair]
        life.host.send("start", client_id, kind.name, *words)
        self.lives.append(life)
        return life

    def _host(self, client: str, *, is_aside: bool) -> Host:
        hosts = self._asides if is_aside else self._steady
        if client not in hosts:
            hosts[client] = host = Host(client, self.servers)
            self._hosts.append(host)
            self._opened.callback(host.kill)
        return hosts[client]

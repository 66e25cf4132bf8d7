"""Runs consumers of librdkafka or kafka-python in one process, which obeys the same lines as java/Consumers.java.

    python -m lab.kafka.consumer_host (librdkafka | kafka-python) BOOTSTRAP_SERVERS

Lines in, their words parted by tabs; settings have Kafka's names:
    start NAME TOPICS SETTING VALUE SETTING VALUE ... | subscribe NAME TOPICS | stall NAME | resume NAME | close NAME
Lines out:
    NAME (assigned | revoked | closed) EPOCH_MS PARTITIONS
"""

from __future__ import annotations

import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Consumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from lab.kafka.group_member import GroupMember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

POLL_S = 0.1
ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
SAYING = threading.Lock()


def say(name: str, event: str, partitions: Iterable[Any] = ()) -> None:
    units = ",".join(sorted(f"{each.topic}-{each.partition}" for each in partitions))
    with SAYING:
        sys.stdout.write("\t".join([name, event, str(int(time.time() * 1000)), units]) + "\n")
        sys.stdout.flush()


class Client(Protocol):
    def subscribe(self, topics: Sequence[str]) -> None: ...
    def poll(self) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self._name = name
        self._consumer = Consumer({"log_level": 2, **settings})

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: say(self._name, "assigned", partitions),
            on_revoke=lambda _, partitions: say(self._name, "revoked", partitions),
        )

    def poll(self) -> None:
        self._consumer.poll(POLL_S)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(ConsumerRebalanceListener):  # type: ignore[misc]  # no types are published
    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self._name = name
        strategies = settings.pop("partition.assignment.strategy").split(",")
        named = {key.replace(".", "_"): int(text) if text.isdigit() else text for key, text in settings.items()}
        assignors = [ASSIGNORS[strategy] for strategy in strategies]
        self._consumer = GroupMember(partition_assignment_strategy=assignors, **named)

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(topics, listener=self)

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        say(self._name, "assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        say(self._name, "revoked", revoked)

    def poll(self) -> None:
        self._consumer.poll(timeout_ms=int(POLL_S * 1000))

    def close(self) -> None:
        self._consumer.close()


CLIENTS: dict[str, Callable[[str, dict[str, str]], Client]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}


class Application(threading.Thread):
    """A consumer and its poll loop, which obeys commands between two polls."""

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.client = client
        self.asked: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.resumed = threading.Semaphore(0)
        self._is_closed = False

    def close(self) -> None:
        self.client.close()
        self._is_closed = True
        say(self.name, "closed")

    def run(self) -> None:
        while not self._is_closed:
            if self.asked.empty():
                self.client.poll()
            else:
                self.asked.get()()


def start(kind: str, bootstrap_servers: str, name: str, topics: str, *settings: str) -> Application:
    chosen = {"bootstrap.servers": bootstrap_servers, **dict(zip(settings[::2], settings[1::2], strict=True))}
    application = Application(CLIENTS[kind](name, chosen), name)
    application.client.subscribe(topics.split(","))
    application.start()
    return application


def main(kind: str, bootstrap_servers: str) -> None:
    applications: dict[str, Application] = {}
    for line in sys.stdin:
        action, name, *words = line.rstrip("\n").split("\t")
        if action == "start":
            applications[name] = start(kind, bootstrap_servers, name, *words)
            continue
        one = applications[name]
        if action == "subscribe":
            topics = words[0].split(",")
            one.asked.put(lambda one=one, topics=topics: one.client.subscribe(topics))  # type: ignore[misc]
        elif action == "stall":
            one.asked.put(one.resumed.acquire)
        elif action == "resume":
            one.resumed.release()
        else:
            one.asked.put(one.close)


if __name__ == "__main__":
    main(*sys.argv[1:])

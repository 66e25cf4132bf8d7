"""Runs consumers of librdkafka or kafka-python in one process, which obeys the same lines as java/Consumers.java.

    python -m lab.kafka.consumer_host (librdkafka | kafka-python) BOOTSTRAP_SERVERS

Lines in, whose words are separated by tabs; settings have Kafka's names, except that librdkafka may be given
`assigned.partitions`, their number in each topic, and then takes these itself and joins no group:
    start NAME TOPICS SETTING VALUE SETTING VALUE ... | subscribe NAME TOPICS | stall NAME | resume NAME | close NAME
and, for what goes wrong in an application itself:
    pace NAME MS                      from now on it takes this long for each record
    stop NAME PARTITION OFFSET WAY    at this record it closes (WAY is `close`) or tries again for ever (`retry`)
    pause NAME                        it goes on polling, and gets no records of the partitions that it has now
    rewind NAME RECORDS               it seeks back by this many records in all its partitions
    commit NAME SHIFT METADATA_BYTES  once a second it commits its position plus SHIFT, with metadata of this size
Lines out:
    NAME (assigned | revoked | closed | failed) EPOCH_MS PARTITIONS
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import structs
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError

from lab.kafka.group_member import GroupMember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

POLL_S = 0.1
COMMIT_EVERY_S = 1.0


class NothingAssignor(RangePartitionAssignor):  # type: ignore[misc]  # no types are published
    """A faulty range assignor: it gives no member any partition."""

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        given = super().assign(cluster, members)
        return {member_id: type(each)(cls.version, [], b"") for member_id, each in given.items()}


class FailingAssignor(RangePartitionAssignor):  # type: ignore[misc]
    """A faulty range assignor: it raises, so that a leader with it sends no assignment."""

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:  # noqa: ARG003  # it is called so
        raise RuntimeError("this assignor fails")


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "nothing": NothingAssignor,
    "failing": FailingAssignor,
}
SAYING = threading.Lock()


def say(name: str, event: str, partitions: Iterable[Any] = ()) -> None:
    units = ",".join(sorted(f"{each.topic}-{each.partition}" for each in partitions))
    with SAYING:
        sys.stdout.write("\t".join([name, event, str(int(time.time() * 1000)), units]) + "\n")
        sys.stdout.flush()


@dataclass(frozen=True, slots=True)
class Stop:
    topic: str
    partition: int
    offset: int
    closes: bool

    @classmethod
    def of(cls, place: str, offset: str, way: str) -> Stop:
        topic, _, number = place.rpartition("-")
        return cls(topic, int(number), int(offset), way == "close")


class Client(Protocol):
    """A consumer of either library. `poll` yields the places of records. The application passes each place to `done`
    when it has processed the record, and only then librdkafka may commit it; kafka-python commits whatever `poll` has
    returned."""

    def subscribe(self, topics: Sequence[str]) -> None: ...
    def poll(self) -> Iterable[Place]: ...
    def done(self, place: Place) -> None: ...
    def seek(self, place: Place) -> None: ...
    def pause(self) -> None: ...
    def positions(self) -> Iterable[Place]: ...
    def commit(self, places: Iterable[Place], metadata: str) -> None: ...
    def close(self) -> None: ...


class Place(NamedTuple):
    topic: str
    partition: int
    offset: int


def value_of(text: str) -> Any:
    """Returns the text of a setting as the value that kafka-python expects: a bool, an int or a string."""
    return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)


class Librdkafka:
    """A consumer of librdkafka. It stores the offset for the next commit when a record is done, not when `poll` returns
    the record."""

    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self._name = name
        self._assigned = int(settings.pop("assigned.partitions", "0"))
        self._consumer = Consumer({"log_level": 2, **settings, "enable.auto.offset.store": "false"})

    def subscribe(self, topics: Sequence[str]) -> None:
        if self._assigned:
            places = [TopicPartition(topic, number) for topic in topics for number in range(self._assigned)]
            self._consumer.assign(places)
            return
        self._consumer.subscribe(
            list(topics),
            on_assign=lambda _, partitions: say(self._name, "assigned", partitions),
            on_revoke=lambda _, partitions: say(self._name, "revoked", partitions),
        )

    def poll(self) -> Iterable[Place]:
        message = self._consumer.poll(POLL_S)
        if message is not None and message.error() is None:
            place: Any = (message.topic(), message.partition(), message.offset())
            yield Place(*place)

    def done(self, place: Place) -> None:
        with suppress(KafkaException):  # it was taken away meanwhile
            self._consumer.store_offsets(offsets=[TopicPartition(place.topic, place.partition, place.offset + 1)])

    def seek(self, place: Place) -> None:
        with suppress(KafkaException):
            self._consumer.seek(TopicPartition(*place))

    def pause(self) -> None:
        self._consumer.pause(self._consumer.assignment())

    def positions(self) -> Iterable[Place]:
        found = self._consumer.position(self._consumer.assignment())
        return [Place(each.topic, each.partition, each.offset) for each in found if each.offset >= 0]

    def commit(self, places: Iterable[Place], metadata: str) -> None:
        offsets = [TopicPartition(*place, metadata=metadata) for place in places]
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(ConsumerRebalanceListener):  # type: ignore[misc]  # no types are published
    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self._name = name
        strategies = settings.pop("partition.assignment.strategy").split(",")
        named = {key.replace(".", "_"): value_of(text) for key, text in settings.items()}
        assignors = [ASSIGNORS[strategy] for strategy in strategies]
        self._consumer = GroupMember(partition_assignment_strategy=assignors, **named)

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(topics, listener=self)

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        say(self._name, "assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        say(self._name, "revoked", revoked)

    def poll(self) -> Iterable[Place]:
        for records in self._consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
            yield from (Place(each.topic, each.partition, each.offset) for each in records)

    def done(self, place: Place) -> None:
        """Does nothing, because kafka-python commits its position by itself."""

    def seek(self, place: Place) -> None:
        with suppress(AssertionError):  # it was taken away meanwhile
            self._consumer.seek(structs.TopicPartition(place.topic, place.partition), place.offset)

    def pause(self) -> None:
        self._consumer.pause(*self._consumer.assignment())

    def positions(self) -> Iterable[Place]:
        found = {each: self._consumer.position(each, timeout_ms=1_000) for each in self._consumer.assignment()}
        return [Place(each.topic, each.partition, offset) for each, offset in found.items() if offset is not None]

    def commit(self, places: Iterable[Place], metadata: str) -> None:
        offsets = {
            structs.TopicPartition(place.topic, place.partition): structs.OffsetAndMetadata(place.offset, metadata, -1)
            for place in places
        }
        if offsets:
            self._consumer.commit_async(offsets)

    def close(self) -> None:
        self._consumer.close()


CLIENTS: dict[str, Callable[[str, dict[str, str]], Client]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}


class Application(threading.Thread):
    """A thread with a consumer and its poll loop, which takes commands between two polls."""

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.client = client
        self.asked: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.resumed = threading.Semaphore(0)
        self.pace_s = 0.0
        self.stop_at: Stop | None = None
        self.commits: tuple[int, int] | None = None
        self._committed_at = 0.0
        self._is_closed = False

    def close(self) -> None:
        self.client.close()
        self._is_closed = True
        say(self.name, "closed")

    def rewind(self, records: int) -> None:
        for place in self.client.positions():
            self.client.seek(place._replace(offset=max(0, place.offset - records)))

    def run(self) -> None:
        while not self._is_closed:
            if self.asked.empty():
                try:
                    self._poll()
                except (KafkaException, KafkaError, RuntimeError):  # an application that logs it, and polls again
                    say(self.name, "failed")
                    time.sleep(COMMIT_EVERY_S)
            else:
                self.asked.get()()

    def _poll(self) -> None:
        for place in self.client.poll():
            stop = self.stop_at
            if stop is not None and place[:2] == (stop.topic, stop.partition) and place.offset >= stop.offset:
                self._stop(stop)
                return
            time.sleep(self.pace_s)
            self.client.done(place)
        if self.commits is not None and time.monotonic() > self._committed_at + COMMIT_EVERY_S:
            shift, size = self.commits
            self._committed_at = time.monotonic()
            moved = [place._replace(offset=place.offset + shift) for place in self.client.positions()]
            self.client.commit([place for place in moved if place.offset >= 0], "x" * size)

    def _stop(self, stop: Stop) -> None:
        self.client.seek(Place(stop.topic, stop.partition, stop.offset))
        say(self.name, "failed")
        if stop.closes:
            self.close()
        else:
            time.sleep(POLL_S)


def start(kind: str, bootstrap_servers: str, name: str, topics: str, *settings: str) -> Application:
    chosen = {"bootstrap.servers": bootstrap_servers, **dict(zip(settings[::2], settings[1::2], strict=True))}
    application = Application(CLIENTS[kind](name, chosen), name)
    application.client.subscribe(topics.split(","))
    application.start()
    return application


def obey(one: Application, action: str, words: Sequence[str]) -> None:
    if action == "subscribe":
        topics = words[0].split(",")
        one.asked.put(lambda: one.client.subscribe(topics))
    elif action == "stall":
        one.asked.put(one.resumed.acquire)
    elif action == "resume":
        one.resumed.release()
    elif action == "pace":
        one.pace_s = int(words[0]) / 1000
    elif action == "stop":
        one.stop_at = Stop.of(*words)
    elif action == "pause":
        one.asked.put(one.client.pause)
    elif action == "rewind":
        one.asked.put(lambda: one.rewind(int(words[0])))
    elif action == "commit":
        one.commits = (int(words[0]), int(words[1]))
    else:
        one.asked.put(one.close)


def main(kind: str, bootstrap_servers: str) -> None:
    applications: dict[str, Application] = {}
    for line in sys.stdin:
        action, name, *words = line.rstrip("\n").split("\t")
        if action == "start":
            try:
                applications[name] = start(kind, bootstrap_servers, name, *words)
            except (KafkaException, KafkaError):  # the others of this process go on
                say(name, "failed")
        else:
            obey(applications[name], action, words)


if __name__ == "__main__":
    main(*sys.argv[1:])

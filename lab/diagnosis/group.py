"""Defines one group of a play: its members, which have short names, its topic, and the causes that are recorded as they
begin."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from groupledger.schemas.kinds.causes import CAUSE_NAMED
from lab.diagnosis.clients import LIBRDKAFKA, settings
from lab.diagnosis.stage import STAYERS
from lab.diagnosis.truth import Cause, Played
from lab.kafka.matrix import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

    from lab.diagnosis.stage import Stage
    from lab.kafka.matrix import Host

CLOSE_S_MAX = 30.0
RECORDS_MAX = 500


class Group:
    def __init__(self, stage: Stage, number: int, play: str, client: str) -> None:
        self.stage, self.client = stage, client
        self.id, self.topic = f"g{number:04}", f"t{number:04}"
        self.played = Played(self.id, play, client, now_ms())
        self.partitions = 0
        self._hosts: dict[str, Host] = {}
        self._started: Counter[str] = Counter()
        self._kept: list[object] = []

    # Actions of its members

    def start(self, *names: str, host: str = STAYERS, topics: str | None = None, **changed: Any) -> None:
        for name in names:
            client_id = self.client_id(name)
            chosen = settings(self.client, self.id, client_id, **changed)
            self._hosts[name] = self.stage.host(self.client, host)
            words = [word for pair in chosen.items() for word in pair]
            self._hosts[name].send("start", client_id, topics or self.topic, *words)
            self._started[name] += 1
            if client_id not in self.played.clients:
                self.played.clients.append(client_id)

    def send(self, name: str, action: str, *words: object) -> None:
        self._hosts[name].send(action, self.client_id(name), *map(str, words))

    def close(self, *names: str) -> None:
        """Closes members. Returns when all are closed, or when the wait for one has lasted `CLOSE_S_MAX` seconds."""
        for name in names:
            self.send(name, "close")
        for name in names:
            self.await_closed(name)

    def await_closed(self, name: str, seconds: float = CLOSE_S_MAX) -> bool:
        """Waits at most `seconds` until a member is closed, even if nobody asked for that. Returns whether it is
        closed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.heard(name).count("closed") >= self._started[name]:
                return True
            time.sleep(0.2)
        return False

    def heard(self, name: str) -> list[str]:
        """Returns the events that a member's process has reported about it, in order."""
        client_id = self.client_id(name)
        return [event for who, event, *_ in list(self._hosts[name].events) if who == client_id]

    def settings_of(self, name: str) -> dict[str, Any]:
        """Returns the settings for a member that the play runs in its own process, as a librdkafka consumer."""
        chosen = settings(LIBRDKAFKA, self.id, self.client_id(name))
        return {"bootstrap.servers": self.stage.servers, "log_level": 2, **chosen}

    def outsider(self, name: str) -> str:
        """Returns a client id for a client that is not a member, and records it in the truth."""
        client_id = self.client_id(name)
        self.played.clients.append(client_id)
        return client_id

    def keep(self, client: object) -> None:
        """Keeps a reference to a client, so that Python does not close it before the end of the run."""
        self._kept.append(client)

    def keep_polling(self, consumer: Consumer) -> None:
        """Polls a consumer in a thread until the process ends."""

        def poll() -> None:
            while True:
                consumer.consume(RECORDS_MAX, 0.5)

        threading.Thread(target=poll, daemon=True, name=f"{self.id} polls").start()

    def client_id(self, name: str) -> str:
        return f"{self.id}-{name}"

    # Time

    def calm(self) -> None:
        """Waits until the calm time is over, after which causes begin."""
        self.stage.until(self.stage.calm_s)

    def until_committed(self) -> None:
        """Waits until the group has committed in each partition or the calm time is over, and ten seconds more."""
        while len(self.committed()) < self.partitions and self.stage.now() < self.stage.calm_s:
            time.sleep(1)
        time.sleep(10)

    def until(self, seconds: float) -> None:
        self.stage.until(seconds)

    # The topic

    def make_topic(self, partitions: int, rate: float, config: Mapping[str, str] | None = None) -> None:
        self.partitions = partitions
        self.stage.make_topic(self.topic, partitions, config)
        self.feed(rate)

    def feed(self, rate: float, *, size: int = 5) -> None:
        """Sets the rate at which each partition of the topic gets records, in records a second, and their `size` in
        bytes."""
        self.stage.feed.set(self.topic, dict.fromkeys(range(self.partitions), rate), size)

    def feed_partition(self, partition: int, rate: float) -> None:
        self.stage.feed.set(self.topic, {partition: rate})

    def committed(self) -> dict[int, int]:
        """Returns the group's committed offsets in its topic, by partition. A partition without a commit is left
        out."""
        asked = ConsumerGroupTopicPartitions(self.id, [TopicPartition(self.topic, n) for n in range(self.partitions)])
        (answer,) = self.stage.admin.list_consumer_group_offsets([asked]).values()
        return {each.partition: each.offset for each in answer.result().topic_partitions if each.offset >= 0}

    def member_id(self, name: str) -> str:
        """Returns the id that the coordinator gave to a member. A librdkafka consumer that another thread polls may
        never answer this itself."""
        (answer,) = self.stage.admin.describe_consumer_groups([self.id]).values()
        found: str = next(each.member_id for each in answer.result().members if each.client_id == self.client_id(name))
        return found

    def ends(self) -> dict[int, int]:
        """Returns the end offsets of the group's topic, by partition."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(self.topic, number): latest for number in range(self.partitions)}
        answers = self.stage.admin.list_offsets(asked)
        return {place.partition: answer.result().offset for place, answer in answers.items()}

    def reset(self, offsets: Mapping[int, int]) -> None:
        """Sets the group's committed offsets in its topic as an administrator does. `offsets` are by partition."""
        places = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        (answer,) = self.stage.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(self.id, places)]
        ).values()
        answer.result()

    # The truth

    def cause(self, names: str, *who: str, beside: str = "") -> Cause:
        """Records that a cause begins now, and returns it. `names` are names of causes, separated by spaces; each of
        them is a right answer. The causes in `beside` are true, too, but not sufficient as an answer. `who` are the
        short names of the clients concerned."""
        name, *also = names.split()
        assert {name, *also, *beside.split()} <= CAUSE_NAMED.keys(), names
        cause = Cause(name, also, beside.split(), [self.client_id(each) for each in who], now_ms())
        self.played.causes.append(cause)
        return cause

    def end(self, cause: Cause) -> None:
        cause.until_ms = now_ms()

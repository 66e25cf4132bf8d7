"""Real clients on the coordinator's socket: kafka-python and librdkafka join, are disturbed, and go on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.messages import HeartbeatRequest, OffsetCommitRequest, Request
from groupledger.jobs.coordinator.testing import coordinator
from groupledger.schemas.kafka.errors import Error
from lab.kafka.group_member import GroupMember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from groupledger.jobs.coordinator.testing import TestCoordinator

GROUP = "billing"
QUICK = Config(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100)
SETTINGS = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "heartbeat.interval.ms": 100,
    "session.timeout.ms": 6_000,
    "log_level": 2,
}


class Application:
    """A consumer of librdkafka whose poll loop runs beside the test, with the records and partitions that it was
    given."""

    def __init__(self, kafka: TestCoordinator, client_id: str) -> None:
        self.client_id = client_id
        self.owned: set[int] = set()
        self.lost: list[int] = []
        self.records: list[Any] = []
        settings = {**SETTINGS, "bootstrap.servers": kafka.bootstrap_servers, "client.id": client_id}
        self.consumer = Consumer(settings)
        self.consumer.subscribe(["orders"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._is_over = threading.Event()
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.lost += [each.partition for each in partitions]
        self.owned -= {each.partition for each in partitions}

    def _poll(self) -> None:
        while not self._is_over.is_set():
            while not self._asked.empty():
                self._asked.get()()
            message = self.consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.records.append(message)

    def commit(self, partition: int, offset: int) -> KafkaError | None:
        """Commits between two polls, as an application does; returns the error, if there is one."""
        reported: SimpleQueue[KafkaError | None] = SimpleQueue()

        def commit() -> None:
            try:
                self.consumer.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)
            except KafkaException as error:
                reported.put(error.args[0])
            else:
                reported.put(None)

        self._asked.put(commit)
        return reported.get(timeout=60)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self.consumer.close()


@contextmanager
def applications(kafka: TestCoordinator, *client_ids: str) -> Iterator[list[Application]]:
    """Starts consumers that own all twelve partitions between them."""
    started = [Application(kafka, client_id) for client_id in client_ids]
    try:
        await_shares(kafka, started)
        yield started
    finally:
        for each in started:
            each.stop()


def await_shares(kafka: TestCoordinator, started: list[Application]) -> None:
    def is_shared() -> bool:
        owned = [set(each.owned) for each in started]
        return all(owned) and sum(map(len, owned)) == 12 == len(set().union(*owned))

    kafka.until(is_shared, "the partitions to be shared")


def errors_of(kafka: TestCoordinator, request_type: type[Request]) -> list[Error]:
    """Returns the errors of the answers to these requests, of the first partition where they answer by partition."""
    responses: list[Any] = [each.response for each in kafka.exchanges() if type(each.request) is request_type]
    return [each.error if hasattr(each, "error") else each.partitions[0].error for each in responses]


def generation_of(kafka: TestCoordinator) -> int:
    seen = kafka.group(GROUP)
    return -1 if seen is None else seen.generation


def test_kafka_python_reads_and_commits() -> None:
    """kafka-python joins, reads records in order, commits, and finds its place again."""
    with coordinator({"orders": 3}, rate=300) as kafka:
        options = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": GROUP, "auto_offset_reset": "earliest"}
        with closing(GroupMember(enable_auto_commit=False, **options)) as consumer:
            consumer.subscribe(["orders"])
            records: list[Any] = []

            def has_read_enough() -> bool:
                for found in consumer.poll(500).values():
                    records.extend(found)
                return len(records) >= 100

            kafka.until(has_read_enough, "a hundred records")
            consumer.commit()
            places = [(each.partition, each.offset) for each in records]
            assert places == [
                tuple(json.loads(each.value)[name] for name in ("partition", "offset")) for each in records
            ]
            positions = {each: consumer.position(each) for each in consumer.assignment()}
        assert kafka.committed(GROUP) == positions
        for partition in range(3):
            offsets = [offset for number, offset in places if number == partition]
            assert offsets == list(range(len(offsets)))


def test_a_member_that_expires_loses_its_partitions() -> None:
    """A session that ends while a consumer polls costs it its partitions; it joins again, and all is shared again."""
    with coordinator({"orders": 12}, config=QUICK) as kafka, applications(kafka, "app-1", "app-2") as started:
        before = generation_of(kafka)
        kafka.expire(GROUP, "app-2")
        kafka.until(lambda: started[1].lost, "app-2 to lose its partitions")
        kafka.until(lambda: generation_of(kafka) >= before + 1, "a generation without app-2")
        await_shares(kafka, started)
        assert len(kafka.group(GROUP).members) == 2  # type: ignore[union-attr]


def test_a_rebalance_revokes_in_order() -> None:
    """A rebalance is announced to the members by their heartbeats; nobody loses anything without hearing of it."""
    with coordinator({"orders": 12}, config=QUICK) as kafka, applications(kafka, "app-1", "app-2") as started:
        before = generation_of(kafka)
        kafka.rebalance(GROUP)
        kafka.until(lambda: generation_of(kafka) == before + 1, "the next generation")
        await_shares(kafka, started)
        assert not started[0].lost + started[1].lost
        assert Error.REBALANCE_IN_PROGRESS in errors_of(kafka, HeartbeatRequest)


def test_a_commit_is_refused_by_a_fault() -> None:
    """The second commit of a client is answered ILLEGAL_GENERATION, and changes no offset."""
    with coordinator({"orders": 12}, config=QUICK) as kafka, applications(kafka, "app-1") as started:
        kafka.fault(request="OFFSET_COMMIT", client_id="app-1", skip=1, do="answer", error="ILLEGAL_GENERATION")
        assert started[0].commit(0, 5) is None
        refused = started[0].commit(0, 7)
        assert refused is not None
        assert refused.code() == KafkaError.ILLEGAL_GENERATION
        assert kafka.committed(GROUP) == {("orders", 0): 5}
        assert errors_of(kafka, OffsetCommitRequest) == [Error.NONE, Error.ILLEGAL_GENERATION]


def test_a_lost_answer_is_no_lost_commit() -> None:
    """A commit whose answer is lost has happened: the client sends it again."""
    with coordinator({"orders": 12}, config=QUICK) as kafka, applications(kafka, "app-1") as started:
        kafka.fault(request="OFFSET_COMMIT", do="lose")
        started[0].commit(3, 9)  # the client may send it again, or report the connection
        assert kafka.committed(GROUP) == {("orders", 3): 9}


def test_the_coordinator_moves() -> None:
    """Another node takes the group with its members, offsets and generation, and its consumers find it."""
    with coordinator({"orders": 12}, config=QUICK) as kafka, applications(kafka, "app-1", "app-2") as started:
        assert started[0].commit(0, 5) is None
        before = kafka.group(GROUP)
        nodes = {each.broker_id for each in kafka.exchanges()}
        kafka.move(GROUP)
        kafka.until(lambda: {each.broker_id for each in kafka.exchanges()} > nodes, "requests at the other node")
        kafka.until(lambda: kafka.committed(GROUP), "the other node to have read the log")
        assert kafka.group(GROUP) == before
        assert kafka.committed(GROUP) == {("orders", 0): 5}
        assert Error.NOT_COORDINATOR in errors_of(kafka, HeartbeatRequest)
        await_shares(kafka, started)


def test_added_partitions_are_consumed() -> None:
    """A topic that grows is shared anew when the leader sees it."""
    with coordinator({"orders": 2}, config=QUICK) as kafka:
        options = {**SETTINGS, "bootstrap.servers": kafka.bootstrap_servers, "topic.metadata.refresh.interval.ms": 200}
        consumer = Consumer(options)
        with closing(consumer):
            consumer.subscribe(["orders"])
            kafka.until(lambda: consumer.poll(0.1) is not None and len(consumer.assignment()) == 2, "two partitions")
            kafka.fault(at_s=0, do="add_partitions", topic="orders", partitions=4)
            kafka.until(lambda: consumer.poll(0.1) and len(consumer.assignment()) == 4, "four partitions")


def test_a_regular_expression_of_librdkafka() -> None:
    """Goal: a consumer of KIP-848 that leaves its expression to the broker gets the topics that it matches, one that
    comes later among them."""
    config = Config(group_consumer_heartbeat_interval_ms=200, group_consumer_regex_refresh_min_interval_ms=0)
    with coordinator({"orders": 3, "payments": 2, "refunds": 1}, config=config) as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": GROUP, "group.protocol": "consumer"}
        with closing(Consumer(settings)) as consumer:
            consumer.subscribe(["^(ord|pay).*"])

            def owned() -> set[str]:
                consumer.poll(0.1)
                return {each.topic for each in consumer.assignment()}

            kafka.until(lambda: owned() == {"orders", "payments"}, "both topics")
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
            admin.create_topics([NewTopic("orders-eu", 1, 1)])["orders-eu"].result()
            kafka.until(lambda: owned() == {"orders", "orders-eu", "payments"}, "the topic that came later")


def test_a_fast_clock_ends_a_session() -> None:
    """At a hundredfold rate of the clock, heartbeats come too late, and the member hears that nobody knows it."""
    with coordinator({"orders": 12}, config=QUICK) as kafka, applications(kafka, "app-1"):
        kafka.fault(at_s=0, do="clock", rate=100)
        kafka.until(lambda: Error.UNKNOWN_MEMBER_ID in errors_of(kafka, HeartbeatRequest), "a late heartbeat")


def test_it_needs_no_spark() -> None:
    """A test suite that uses the coordinator need not install Spark, nor the other packages that only the writer
    needs."""
    absent = ("pyspark", "delta", "py4j", "numpy", "pandas", "great_expectations", "prometheus_client")
    program = f"""
import sys
sys.modules.update(dict.fromkeys({absent}))
import groupledger.jobs.coordinator.run, groupledger.jobs.cli.coordinator
from groupledger.jobs.coordinator.testing import coordinator
with coordinator({{"orders": 1}}) as kafka:
    assert kafka.group("billing") is None
"""
    subprocess.run([sys.executable, "-c", program], check=True)

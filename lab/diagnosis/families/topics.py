"""Plays about the topics that a group reads: transactions, new partitions, and topics that are deleted and created
again."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from lab.diagnosis.clients import CLIENTS, JAVA, LIBRDKAFKA
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play

UNSEEN = 100
QUIET_AFTER_S = 25
TRANSACTION_TIMEOUT_MS = 850_000
RECORDS_AT_ONCE, SPARE_S = 100, 3.0


def _producer(group: Group) -> Producer:
    name = f"{group.id}-writer"
    producer = Producer(
        {
            "bootstrap.servers": group.stage.servers,
            "transactional.id": name,
            "client.id": name,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "log_level": 2,
        }
    )
    producer.init_transactions()
    return producer


@play((JAVA, LIBRDKAFKA), partitions=2)
def open_transaction(group: Group) -> None:
    """A producer leaves a transaction open. Consumers with read_committed wait for its end, and work correctly."""
    producer = _producer(group)
    group.start("1", isolation_level="read_committed")
    group.calm()
    group.cause("open_transaction")
    producer.begin_transaction()
    for partition in range(group.partitions):
        producer.produce(group.topic, b"open", partition=partition)
    producer.flush()
    group.keep(producer)


@play((LIBRDKAFKA,), partitions=2)
def transactions_rolled_back(group: Group) -> None:
    """The application processes records in transactions with their offsets, and rolls each of them back. Then it asks
    for the committed offsets, which the coordinator refuses until the transaction is over."""
    consumer = Consumer(group.settings_of("1") | {"enable.auto.commit": "false", "client.id": group.outsider("1")})
    consumer.subscribe([group.topic])
    producer = _producer(group)
    is_failing = False
    while group.stage.now() < group.stage.seconds - SPARE_S:
        if not is_failing and group.stage.now() >= group.stage.calm_s:
            is_failing = True
            group.cause("transactions_rolled_back", "1", beside="unstable_offsets")
        records = consumer.consume(RECORDS_AT_ONCE, 1.0)
        if not records:
            continue
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
        )
        if not is_failing:
            producer.commit_transaction()
            continue
        producer.abort_transaction()
        for place in consumer.committed(consumer.assignment()):
            consumer.seek(place)
        time.sleep(1)
    group.keep((consumer, producer))


@play(CLIENTS, partitions=2, rate=0.0)
def ends_in_markers(group: Group) -> None:
    """A producer stops after many short transactions. The log ends in a marker, and the group has read all records."""
    producer = _producer(group)
    group.start("1", isolation_level="read_committed")
    while group.stage.now() < group.stage.calm_s + QUIET_AFTER_S:
        producer.begin_transaction()
        for partition in range(group.partitions):
            producer.produce(group.topic, b"done", partition=partition)
        producer.commit_transaction()
        time.sleep(3)
    group.keep(producer)


@play((JAVA, LIBRDKAFKA), partitions=1)
def new_partition_from_latest(group: Group) -> None:
    """A topic gets a partition, and the partition gets records before the group's consumers know of it. They start
    after these records."""
    group.start("1", auto_offset_reset="latest", metadata_max_age_ms=30_000, **_slow_metadata(group))
    group.calm()
    group.stage.add_partitions(group.topic, 2)
    time.sleep(1)
    producer = Producer({"bootstrap.servers": group.stage.servers})
    for _ in range(UNSEEN):
        producer.produce(group.topic, b"early", partition=1)
    producer.flush()
    group.cause("new_partition_read_from_latest", "1")  # whose auto.offset.reset it is
    group.until(group.stage.calm_s + 70)
    group.feed_partition(1, 1.0)


def _slow_metadata(group: Group) -> dict[str, Any]:
    return {"topic_metadata_refresh_interval_ms": 30_000} if group.client == LIBRDKAFKA else {}


@play((LIBRDKAFKA,), partitions=3)
def well_without_membership(group: Group) -> None:
    """An application assigns itself two of three partitions and commits: it is not a member, and works correctly."""
    consumer = Consumer({**group.settings_of("1"), "enable.auto.commit": "true"})
    group.played.clients.append(group.client_id("1"))
    consumer.assign([TopicPartition(group.topic, number, 0) for number in (0, 1)])
    while group.stage.now() < group.stage.seconds - 5:
        consumer.poll(0.5)
    consumer.close()


@play((JAVA, LIBRDKAFKA), partitions=2)
def topic_made_anew(group: Group) -> None:
    """The topic is deleted and created again while the group is stopped. The group's offsets belong to the former
    topic."""
    group.start("1")
    group.until_committed()
    group.close("1")
    group.calm()
    group.cause("topic_recreated topic_deleted offset_of_former_topic", "1", beside="members_left scaled_to_zero")
    group.feed(0.0)
    group.stage.delete_topic(group.topic)
    time.sleep(5)
    group.stage.make_topic(group.topic, group.partitions)
    group.feed(2.0)
    time.sleep(30)
    group.start("1")


@play((JAVA, LIBRDKAFKA), partitions=2, ends_sessions=True)
def topic_deleted(group: Group) -> None:
    group.start("1")
    group.calm()
    group.cause("topic_deleted unknown_topic_commit subscribed_topic_missing", "1", beside="session_timeout")
    group.feed(0.0)
    group.stage.delete_topic(group.topic)

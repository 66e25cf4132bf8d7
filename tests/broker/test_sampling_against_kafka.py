"""Goal: a sampling round says of a real cluster what Kafka's own tools and another client say of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, IsolationLevel, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.sampling import ends_of, sample_ends, take_round
from groupledger.jobs.monitor.rules import Stalls, Vitals, troubles
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.kafka.names import OFFSETS_TOPIC
from lab.kafka.local_broker import run_tool
from lab.kafka.local_traffic import make_offsets_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.kafka.sampling import SampledRound
    from lab.kafka.local_broker import LocalBroker

TOPIC, OTHER_TOPIC, PARTITIONS = "sampled-topic", "sampled-other", 3
OFFSETS_TOOL = "org.apache.kafka.tools.GetOffsetShell"
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
JOIN_SECONDS_MAX = 120
URL_SAFE = str.maketrans("+/", "-_")
GROUPS = {"sampled-classic": "classic", "sampled-consumer": "consumer"}


def make_topics(admin: AdminClient, client: dict[str, Any]) -> None:
    """Makes topics, puts records into two partitions of the first one, and deletes some of them again."""
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic(OTHER_TOPIC, 1, 1)]).values():
        created.result()
    producer = Producer(client)
    for number in range(40):
        producer.produce(TOPIC, b"", partition=number % 2)
    assert producer.flush(30) == 0
    admin.delete_records([TopicPartition(TOPIC, 0, 7)])[TopicPartition(TOPIC, 0, 7)].result()


def joined(client: dict[str, Any]) -> Iterator[Consumer]:
    for name, protocol in GROUPS.items():
        consumer = Consumer({**client, "group.id": name, "group.protocol": protocol, "enable.auto.commit": False})
        consumer.subscribe([TOPIC, OTHER_TOPIC])
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        while len(consumer.assignment()) < PARTITIONS + 1:  # it may hear of one topic later than of the other
            assert time.monotonic() < deadline, consumer.assignment()
            consumer.poll(0.1)
        yield consumer


def take(broker: LocalBroker, topics: set[str] | None) -> SampledRound:
    settings = load_settings()
    with connect(broker.bootstrap_servers, settings) as brokers:
        ends = sample_ends(brokers, settings.sampling)
        return take_round(brokers, settings.sampling, topics, 1, ends)


def listed_offsets(broker: LocalBroker, time: str) -> dict[tuple[str, int], int]:
    """By Kafka's tool, for every partition of the cluster; it prints a topic, a partition and an offset a line."""
    printed = run_tool(OFFSETS_TOOL, "--bootstrap-server", broker.bootstrap_servers, "--time", time)
    rows = (line.rsplit(":", 2) for line in printed.splitlines() if line.count(":") >= 2)
    return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def listed_groups(broker: LocalBroker) -> dict[str, tuple[str, str, int]]:
    """State, assignor and number of members, by Kafka's tool."""
    server = ("--bootstrap-server", broker.bootstrap_servers)
    groups = [word for group in GROUPS for word in ("--group", group)]
    printed = run_tool(GROUPS_TOOL, *server, "--describe", "--state", *groups)
    rows = [line.split() for line in printed.splitlines() if line.startswith(tuple(GROUPS))]
    return {row[0]: (row[4], row[3], int(row[5])) for row in rows}


def test_a_round_is_what_kafka_says(broker: LocalBroker) -> None:
    """Goal: log starts and ends by Kafka's tool, last stable offsets, epochs and ids by another client, for every
    partition; states, assignors and members by Kafka's tool, for a classic and a KIP-848 group."""
    client: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
    make_offsets_topic(broker.bootstrap_servers)
    admin = AdminClient(client)
    make_topics(admin, client)
    writer = Producer({**client, "transactional.id": "sampled"})
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce(OTHER_TOPIC, b"", partition=0)
    writer.flush(30)
    consumers = list(joined(client))
    sampled = take(broker, {TOPIC, OTHER_TOPIC})
    starts, ends, groups = listed_offsets(broker, "-2"), listed_offsets(broker, "-1"), listed_groups(broker)
    places = [place for place in ends if place[0] in (TOPIC, OTHER_TOPIC, OFFSETS_TOPIC)]
    specs = {TopicPartition(*place): OffsetSpec.latest() for place in places}  # type: ignore[no-untyped-call]
    listed = admin.list_offsets(specs, isolation_level=IsolationLevel.READ_COMMITTED)
    stable = {(place.topic, place.partition): future.result() for place, future in listed.items()}
    writer.abort_transaction()
    for consumer in consumers:
        consumer.close()

    rows = {(row.topic, row.partition): row for row in sampled.watermarks}
    assert sorted(rows) == sorted(places)
    for place, row in rows.items():
        assert (row.log_start_offset, row.leader_epoch) == (starts[place], stable[place].leader_epoch)
        found = (ends[place], stable[place].offset)
        if place[0] == OFFSETS_TOPIC:  # groups of other tests may still expire meanwhile
            assert row.offsets is not None
            assert all(sampled <= later for sampled, later in zip(row.offsets[1:], found, strict=True))
        else:
            assert (row.high_watermark, row.last_stable_offset) == found
    assert rows[TOPIC, 0].offsets == (7, 20, 20)
    assert rows[OTHER_TOPIC, 0].offsets == (0, 1, 0)
    described = admin.describe_topics(TopicCollection([TOPIC, OTHER_TOPIC]))
    # librdkafka prints ids in base64's first alphabet, Kafka in the one that is safe in an address.
    ids = {name: str(future.result().topic_id).translate(URL_SAFE) for name, future in described.items()}
    assert {row.topic: row.topic_id for row in rows.values() if row.topic != OFFSETS_TOPIC} == ids
    assert ends_of(sampled.watermarks).keys() == {row.partition for row in rows.values() if row.topic == OFFSETS_TOPIC}
    states = {row.group_id: row for row in sampled.group_states if row.group_id in GROUPS}
    assert {name: (row.state, row.protocol, row.member_count) for name, row in states.items()} == groups
    assert {name: row.group_type for name, row in states.items()} == GROUPS
    assert all(row.subscribed_topics == (OTHER_TOPIC, TOPIC) for row in states.values())
    assert not sampled.unseen_topics
    assert not sampled.silent_brokers


def test_an_open_transaction_is_reported(broker: LocalBroker) -> None:
    """Goal: offsets that a transaction has committed, and that nobody has ended, hold up the reader of their partition,
    which is a trouble once it has lasted; when the transaction is ended, the trouble is over."""
    client: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
    make_offsets_topic(broker.bootstrap_servers)
    admin = AdminClient(client)  # kept: its calls end with it
    admin.create_topics([NewTopic("stalled", 1, 1)])["stalled"].result()
    stalls = Stalls()

    def look(at_s: int) -> list[str]:
        rows = take(broker, None).watermarks
        ends = ((row.partition, *row.offsets[1:]) for row in rows if row.topic == OFFSETS_TOPIC and row.offsets)
        at_ms = at_s * 1000
        stalls.look(ends, at_ms)
        vitals = Vitals(is_ingesting=True, round_age_ms=0, lag_offsets=0, stalled_ms=stalls.stalled_ms(at_ms))
        return troubles(vitals, at_ms, interval_s=15, stalled_after_s=60, lag_age_max_ms=60_000)

    assert look(0) == []
    assert not stalls.hidden()
    consumer = Consumer({**client, "group.id": "stalled"})
    writer = Producer({**client, "transactional.id": "stalled"})
    writer.init_transactions()
    writer.begin_transaction()
    writer.send_offsets_to_transaction([TopicPartition("stalled", 0, 1)], consumer.consumer_group_metadata())
    assert look(10) == []
    (partition,) = stalls.hidden()
    # Since the last look at which all was well.
    held_up = f"Open transactions hold up the reader in partitions {partition} of __consumer_offsets, for 70 s."
    assert look(70) == [held_up]
    writer.abort_transaction()
    assert look(80) == []
    assert not stalls.hidden()
    consumer.close()
    del writer  # or it would complain of the broker's end

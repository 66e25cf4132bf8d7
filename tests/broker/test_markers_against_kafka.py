"""Goal: on a real broker a marker as the last record is no lag, and a group that waits for an open transaction is
reported as waiting."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.kafka.aborted import AbortedRecords
from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.markers import Markers
from groupledger.jobs.kafka.sampling import take_round
from groupledger.jobs.monitor.state import lag_round
from groupledger.jobs.process.settings import load_settings
from groupledger.transforms.lag.rules import Commit, End, LagRow, LagState, Round
from groupledger.transforms.lag.rules.resting import resting_places, standing_places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.kafka.brokers import Brokers
    from lab.kafka.local_broker import LocalBroker

TOPIC = "marked"
SETTINGS = load_settings()
SHORT, TWO, PLAIN, OPEN, LARGE = range(5)
GROUP = "marked-readers"


class Counted:
    """The brokers, and how many fetches they were asked for."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self.fetches = brokers, 0

    def nodes(self) -> list[int]:
        return self._brokers.nodes()

    def send(self, request: Any, node: int | None = None) -> Any:
        self.fetches += type(request).__name__ == "FetchRequest"
        return self._brokers.send(request, node)


def producer_of(broker: LocalBroker, name: str | None = None) -> Producer:
    config: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
    if name is None:
        return Producer(config)
    producer = Producer({**config, "transactional.id": name, "transaction.timeout.ms": 600_000})
    producer.init_transactions(60)
    return producer


def write(producer: Producer, partition: int, size: int = 1) -> None:
    producer.produce(TOPIC, b"x" * size, partition=partition)
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def committed(broker: LocalBroker) -> Iterator[dict[int, int]]:
    """What a read_committed consumer commits after the last record that it gets, by partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(TOPIC, 5, 1)]).values():
        made.result(60)
    plain, one, two, hangs = producer_of(broker), *(producer_of(broker, f"marks-{each}") for each in range(3))
    one.begin_transaction()
    write(one, SHORT)
    one.commit_transaction(60)
    for producer in (one, two):
        producer.begin_transaction()
        write(producer, TWO)
    for producer in (one, two):
        producer.commit_transaction(60)
    for _ in range(3):
        write(plain, PLAIN)
    write(plain, OPEN)
    hangs.begin_transaction()
    write(hangs, OPEN)
    write(plain, OPEN)
    write(plain, LARGE)
    write(plain, LARGE, 20_000)
    yield {SHORT: 1, TWO: 2, PLAIN: 2, OPEN: 1, LARGE: 1}
    hangs.abort_transaction(60)


def rounds(brokers: Brokers, committed: dict[int, int], count: int) -> list[dict[int, LagRow]]:
    """Rounds a minute apart, by their own clock."""
    state, markers, found = LagState(), Markers(), []
    began_ms = time.time_ns() // 1_000_000
    for number, (partition, offset) in enumerate(committed.items()):
        state.commit(GROUP, TOPIC, partition, Commit(offset, began_ms, 0, number))
    rows: list[LagRow] = []
    for number in range(count):
        sampled = take_round(brokers, SETTINGS.sampling, {TOPIC}, began_ms + number * 60_000, ())
        sampled = markers.add_to(sampled, resting_places(rows), brokers, SETTINGS.sampling)
        read = lag_round(sampled, ())
        rows = list(state.round(Round(read.sampled_at_ms, {0: End(len(committed))}, read.watermarks), {}))
        found.append({row.partition: row for row in rows})
    return found


def test_markers_and_open_transactions(broker: LocalBroker, committed: dict[int, int]) -> None:
    """Goal: no consumer that has read all it may is stopped, one that has not is; and each end costs one request."""
    with connect(broker.bootstrap_servers, SETTINGS) as connections:
        brokers = Counted(connections)
        last = rounds(brokers, committed, 6)[-1]
        # The large batch is not sent for a partition that is not the first, and is asked for once more by itself.
        assert 1 <= brokers.fetches <= 2
    assert {partition: row.raw_lag for partition, row in last.items()} == {
        SHORT: 1,
        TWO: 2,
        PLAIN: 1,
        OPEN: 2,
        LARGE: 1,
    }
    assert {partition: row.status for partition, row in last.items()} == {
        SHORT: "ok",
        TWO: "ok",
        PLAIN: "stopped",
        OPEN: "waiting_for_transaction",
        LARGE: "stopped",
    }
    assert {partition: row.lag for partition, row in last.items()} == {SHORT: 0, TWO: 0, PLAIN: 1, OPEN: 2, LARGE: 1}
    assert (last[OPEN].lag_read_committed, last[OPEN].burrow_status) == (0, "OK")
    assert last[SHORT].flags == last[TWO].flags == ("transaction_markers_only",)


def test_what_a_consumer_gets(broker: LocalBroker, committed: dict[int, int]) -> None:
    """Goal: Kafka's own word for the above: from there on, a read_committed consumer gets a record only where we say
    that one is left."""
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP, "isolation.level": "read_committed"}
    with closing(Consumer({**config, "enable.auto.commit": False, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(TOPIC, partition, offset) for partition, offset in committed.items()])
        got: set[int | None] = set()
        ended: set[int | None] = set()
        deadline = time.monotonic() + 120
        while len(ended) < len(committed):
            assert time.monotonic() < deadline, "the consumer did not reach the ends"
            message = consumer.poll(1)
            if message is not None:
                (ended if message.error() else got).add(message.partition())
    assert got == {PLAIN, LARGE}


def test_records_of_aborted_transactions(broker: LocalBroker) -> None:
    """Goal: while all transactions abort, who has read the committed records before them has no lag, and is well; the
    next committed record is lag."""
    topic = "aborted"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = producer_of(broker, "aborts")

    def transact(*, commits: bool) -> None:
        producer.begin_transaction()
        for _ in range(30):
            producer.produce(topic, b"x" * 500, partition=0)
        producer.flush(30)
        producer.commit_transaction(60) if commits else producer.abort_transaction(60)

    transact(commits=True)
    state, aborted, began_ms = LagState(), AbortedRecords(), time.time_ns() // 1_000_000
    state.commit(GROUP, topic, 0, Commit(30, began_ms, 0, 0))
    found: list[tuple[int | None, str]] = []
    rows: list[LagRow] = []
    with connect(broker.bootstrap_servers, SETTINGS) as brokers:
        for number in range(12):
            transact(commits=number == 11)
            sampled = take_round(brokers, SETTINGS.sampling, {topic}, began_ms + number * 60_000, ())
            sampled = aborted.add_to(sampled, standing_places(rows), brokers, SETTINGS.sampling)
            read = lag_round(sampled, ())
            rows = list(state.round(Round(read.sampled_at_ms, {0: End(1)}, read.watermarks), {}))
            found.append((rows[0].lag, rows[0].status))
    assert found[5:11] == [(0, "ok")] * 6
    assert (rows[0].lag, rows[0].raw_lag) == (373, 373)

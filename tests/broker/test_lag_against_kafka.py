"""Goal: on a real broker our lag is that of Kafka's own tool, and our time lag that of a producer that stamps records.

No Spark: rounds by the sampler, commits read from `__consumer_offsets` as a read_committed consumer sees them, and the
lag rules between the two.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from groupledger.jobs.kafka.brokers import connect
from groupledger.jobs.kafka.exact_lag import with_exact_seconds
from groupledger.jobs.kafka.sampling import sample_ends, take_round
from groupledger.jobs.process.settings import load_settings
from groupledger.schemas.codec.records import decode_record
from groupledger.schemas.kafka import topic_partition
from groupledger.schemas.kafka.names import OFFSETS_TOPIC, ZERO_UUID
from groupledger.transforms.lag.rules import Commit, End, GroupFacts, LagRow, LagState, Round, Watermark
from lab.kafka.local_broker import run_tool
from lab.kafka.local_traffic import make_offsets_topic
from tests.broker.history import Stage, commit, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.jobs.kafka.brokers import Brokers
    from lab.kafka.local_broker import LocalBroker

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPIC, PARTITIONS = "source", 4  # as `settle` expects
COPIED, STAMPED = "lag-copied", "lag-stamped"
GROUPS = ("lag-active", "lag-empty", "lag-simple", "lag-cooperative", "lag-consumer", "lag-transactional", "lag-copies")
RECORDS = 100
LOAD_S = 6
SETTINGS = load_settings()
Place = tuple[str, str, int]


@dataclass
class Observer:
    """Follows the log and takes rounds; `reader` keeps its place in `__consumer_offsets`."""

    brokers: Brokers
    reader: Consumer
    state: LagState = field(default_factory=LagState)
    read_to: dict[int, int] = field(default_factory=dict)

    def round(self) -> dict[Place, LagRow]:
        sampling = SETTINGS.sampling
        ends = sample_ends(self.brokers, sampling)
        at_ms = time.time_ns() // 1_000_000
        sampled = take_round(self.brokers, sampling, None, at_ms, ends)
        read_ends = {row.partition: End(row.offsets[2]) for row in ends if row.offsets}
        self._read_to(read_ends)
        watermarks = {
            topic_partition.TopicPartition(row.topic, row.partition): Watermark(
                at_ms, *row.offsets, row.leader_epoch, row.topic_id
            )
            for row in sampled.watermarks
            if row.offsets and row.topic != OFFSETS_TOPIC
        }
        facts = {row.group_id: GroupFacts(row.state) for row in sampled.group_states}
        rows = self.state.round(Round(at_ms, read_ends, watermarks), facts)
        return {(row.group_id, row.topic, row.partition): row for row in rows}

    def _read_to(self, ends: dict[int, End]) -> None:
        if not self.read_to:
            self.reader.assign([TopicPartition(OFFSETS_TOPIC, partition, OFFSET_BEGINNING) for partition in ends])
            self.read_to = dict.fromkeys(ends, 0)
        deadline = time.monotonic() + 60
        while any(self.read_to[partition] < end.offset for partition, end in ends.items()):
            assert time.monotonic() < deadline, "the log was not read to the ends of the round"
            message = self.reader.poll(1)
            if message is None:
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                self.read_to[partition] = max(offset, self.read_to[partition])
                continue
            self.read_to[partition] = offset + 1
            self._add(partition, offset, message)

    def _add(self, partition: int, offset: int, message: Any) -> None:
        record = decode_record(message.key(), message.value())
        if record.record_type != "offset_commit":
            return
        value = record.value
        self.state.commit(
            record.key["group_id"],
            record.key["topic"],
            record.key["partition"],
            Commit(
                value["offset"] if value and value["offset"] >= 0 else None,
                value["commit_timestamp_ms"] if value else message.timestamp()[1],
                partition,
                offset,
                value["topic_id"] if value and value["topic_id"] != ZERO_UUID else None,
            ),
        )


@pytest.fixture(scope="module")
def observer(broker: LocalBroker) -> Iterator[Observer]:
    make_offsets_topic(broker.bootstrap_servers)
    client = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "lag-observer", "enable.auto.commit": False}
    client |= {"isolation.level": "read_committed", "enable.partition.eof": True}
    with connect(broker.bootstrap_servers, SETTINGS) as brokers, closing(Consumer(client)) as reader:
        yield Observer(brokers, reader)


@pytest.fixture(scope="module")
def stage(broker: LocalBroker) -> Iterator[Stage]:
    """Groups of every kind, alive or not, with commits that leave some lag, none, or all."""
    stage = Stage(broker)
    make_offsets_topic(broker.bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    present = admin.list_topics(timeout=30).topics
    wanted = {TOPIC: PARTITIONS, COPIED: 1, STAMPED: 1}
    topics = [NewTopic(name, count, 1) for name, count in wanted.items() if name not in present]
    for created in admin.create_topics(topics).values():
        created.result()
    producer = Producer(stage.librdkafka())
    for number in range(RECORDS * PARTITIONS):
        producer.produce(TOPIC, b"", partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    with ExitStack() as alive:
        active = alive.enter_context(closing(stage.member("lag-active")))
        settle(active)
        commit(active, 10)
        with closing(stage.member("lag-empty")) as member:
            settle(member)
            commit(member, RECORDS)
        simple = alive.enter_context(closing(stage.consumer("lag-simple")))
        simple.commit(offsets=[TopicPartition(TOPIC, 1, 33)], asynchronous=False)
        cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
        pair = [alive.enter_context(closing(stage.member("lag-cooperative", **cooperative))) for _ in range(2)]
        settle(*pair)
        commit(pair[0], 20)  # the other one has never committed
        modern = alive.enter_context(closing(stage.member("lag-consumer", group_protocol="consumer")))
        settle(modern)
        commit(modern, 40)
        transact(stage, alive.enter_context(closing(stage.member("lag-transactional"))))
        copies = alive.enter_context(closing(stage.consumer("lag-copies")))
        copies.commit(offsets=[TopicPartition(COPIED, 0, 1)], asynchronous=False)  # after it is a marker only
        yield stage


def transact(stage: Stage, member: Consumer) -> None:
    """One transaction that commits, and one that aborts."""
    settle(member)
    producer = Producer({**stage.librdkafka(), "transactional.id": "lag-ledger"})
    producer.init_transactions()
    for offset, end in ((50, producer.commit_transaction), (60, producer.abort_transaction)):
        producer.begin_transaction()
        if offset == 50:
            producer.produce(COPIED, b"copied")
        positions = [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
        producer.send_offsets_to_transaction(positions, member.consumer_group_metadata())
        end()


def described(stage: Stage) -> dict[Place, tuple[int | None, int | None, int | None]]:
    """CURRENT-OFFSET, LOG-END-OFFSET and LAG of each partition, as the tool prints them."""
    # Not --all-groups: the tool gives up at the first group that it can't describe, and others may have made one.
    groups = [word for group in GROUPS for word in ("--group", group)]
    text = run_tool(TOOL, "--bootstrap-server", stage.bootstrap_servers, "--describe", *groups)
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 6 and words[0].startswith("lag-") and words[2].isdecimal():
            numbers = [None if word == "-" else int(word) for word in words[3:6]]
            found[words[0], words[1], int(words[2])] = (numbers[0], numbers[1], numbers[2])
    return found


def test_at_rest(stage: Stage, observer: Observer) -> None:
    """Goal: the tool's own numbers for every partition that it shows of seven groups of six kinds."""
    expected = described(stage)
    rows = observer.round()
    assert {group for group, _, _ in expected} == set(GROUPS)
    committed = {place: numbers for place, numbers in expected.items() if numbers[0] is not None}
    ours = {place: (row.committed_offset, row.high_watermark, row.raw_lag) for place, row in rows.items()}
    assert {place: ours[place] for place in committed} == committed
    # What the tool shows without a commit is owned; owners come from the history, which is not here.
    assert not (expected.keys() - committed.keys()) & ours.keys()
    assert {place for place in ours if place[0] in GROUPS} == committed.keys()
    assert {row.lag for (group, _, _), row in rows.items() if group == "lag-copies"} == {1}
    assert {row.committed_offset for (group, _, _), row in rows.items() if group == "lag-transactional"} == {50}


def test_exact_time_lag(stage: Stage, observer: Observer) -> None:
    """Goal: exact time lag is the age of the record at the committed offset; a marker without a record after it is
    reported as a marker, with a lag of 0."""
    rows = observer.round()
    places = [("lag-active", TOPIC, 0), ("lag-copies", COPIED, 0)]
    chosen = [rows[place] for place in places]
    (active, copies) = with_exact_seconds(chosen, len(chosen), stage.bootstrap_servers, SETTINGS)
    assert (active.lag_seconds_method, copies.lag_seconds_method) == ("exact", "exact")
    assert active.lag_seconds is not None
    assert 0 < active.lag_seconds < 600
    assert (copies.lag, copies.lag_seconds, copies.flags) == (0, 0.0, ("transaction_markers_only",))


def test_under_load(stage: Stage, observer: Observer) -> None:
    """Goal: while records are written and committed, our numbers lie between two readings of the tool around them."""
    stop = threading.Event()
    progress = {"committed": RECORDS}

    def work() -> None:
        producer, consumer = Producer(stage.librdkafka()), stage.consumer("lag-empty")
        while not stop.is_set():
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"", partition=partition)
            producer.flush(10)
            progress["committed"] += 1
            places = [TopicPartition(TOPIC, partition, progress["committed"]) for partition in range(PARTITIONS)]
            consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        before, rows, after = described(stage), observer.round(), described(stage)
    finally:
        stop.set()
        worker.join()
    places = [place for place in before if place[0] == "lag-empty"]
    assert len(places) == PARTITIONS
    for place in places:
        for was, row, is_now in zip(before[place][:2], numbers(rows[place]), after[place][:2], strict=True):
            assert was is not None
            assert is_now is not None
            assert was <= row <= is_now
        moved = sum((later or 0) - (earlier or 0) for earlier, later in zip(before[place], after[place], strict=True))
        assert moved > 0


def numbers(row: LagRow) -> tuple[int, int]:
    assert row.committed_offset is not None
    assert row.high_watermark is not None
    return row.committed_offset, row.high_watermark


def test_time_lag_against_the_records_own_time(stage: Stage, observer: Observer) -> None:
    """Goal: interpolated time lag is off by no more than the distance of two samples, whatever the rate does."""
    stamps: list[int] = []
    producer = Producer(stage.librdkafka())
    consumer = stage.consumer("lag-time")
    # The first interpolation begins at the sample before, which other tests may have taken long ago.
    began_ms = time.time_ns() // 1_000_000
    observer.round()
    began = time.monotonic()
    rows: list[LagRow] = []
    slowest_write_s = slowest_round_s = 0.0
    while (elapsed_s := time.monotonic() - began) < LOAD_S:
        for _ in range(1 + 8 * (int(elapsed_s) % 3)):  # bursts and pauses
            stamps.append(time.time_ns() // 1_000_000)
            producer.produce(STAMPED, b"", timestamp=stamps[-1])
        producer.flush(10)
        written_s = time.monotonic() - began
        slowest_write_s = max(slowest_write_s, written_s - elapsed_s)
        if len(rows) < elapsed_s:
            behind = len(stamps) * len(rows) // (2 * LOAD_S)
            consumer.commit(offsets=[TopicPartition(STAMPED, 0, behind)], asynchronous=False)
            rows.append(observer.round()["lag-time", STAMPED, 0])
            slowest_round_s = max(slowest_round_s, time.monotonic() - began - written_s)
    consumer.close()
    sampled_ms = [began_ms, *(row.sampled_at_ms for row in rows)]
    apart_ms = max(later - earlier for earlier, later in pairwise(sampled_ms))
    errors = []
    for row in rows:
        committed = row.committed_offset
        assert committed is not None
        true_s = (row.sampled_at_ms - stamps[committed]) / 1_000
        if row.lag_seconds is None:
            assert row.lag_seconds_lower_bound is not None
            assert row.lag_seconds_lower_bound <= true_s
        else:
            errors.append(abs(row.lag_seconds - true_s))
    assert errors
    # A record is stamped before it is written, and a round takes some time itself.
    assert max(errors) <= apart_ms / 1_000 + slowest_write_s + slowest_round_s
    logging.getLogger(__name__).info("%d samples, %d ms apart at most: %.3f s off", len(errors), apart_ms, max(errors))

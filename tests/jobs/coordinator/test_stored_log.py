"""With a rate of 0 producers write the topics: their records are read as they were sent, and once."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.record.default_records import DefaultRecordBatchBuilder

from groupledger.coordinator.model.operation import Batch
from groupledger.jobs.coordinator.logs import encode_batch
from groupledger.jobs.coordinator.stored_log import Room, StoredLog
from groupledger.jobs.coordinator.testing import coordinator
from groupledger.schemas.kafka.errors import Error
from lab.kafka.group_member import GroupMember

COUNT = 2_000


def batch(*values: bytes, producer_id: int = -1, sequence: int = -1, is_transactional: bool = False) -> bytes:
    epoch = 0 if producer_id >= 0 else -1
    builder = DefaultRecordBatchBuilder(2, 0, is_transactional, producer_id, epoch, sequence, 1 << 20)
    for index, value in enumerate(values):
        builder.append(index, 1_000 + index, b"key", value, [])
    return bytes(builder.build())


@pytest.mark.parametrize("options", [{}, {"enable.idempotence": True}, {"compression.type": "gzip"}])
def test_librdkafka_writes_and_kafka_python_reads(options: dict[str, Any]) -> None:
    """Every record is read once, with its key, value and header, in order; a consumer that waits gets what comes."""
    with coordinator({"orders": 2}, rate=0) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2, **options})
        read = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": "billing", "auto_offset_reset": "earliest"}
        with closing(GroupMember(**read)) as consumer:
            consumer.subscribe(["orders"])
            consumer.poll(100)
            for number in range(COUNT):
                producer.produce(
                    "orders", b"%d" % number, b"key", number % 2, timestamp=1_000 + number, headers={"shop": b"7"}
                )
            assert producer.flush(60) == 0
            found: list[Any] = []

            def has_read_all() -> bool:
                for records in consumer.poll(200).values():
                    found.extend(records)
                return len(found) >= COUNT

            kafka.until(has_read_all, "every record")
        for partition in range(2):
            of_partition = [each for each in found if each.partition == partition]
            assert [each.offset for each in of_partition] == list(range(COUNT // 2))
            assert [int(each.value) for each in of_partition] == list(range(partition, COUNT, 2))
        assert {(each.key, tuple(each.headers)) for each in found} == {(b"key", (("shop", b"7"),))}
        assert {each.timestamp - int(each.value) for each in found} == {1_000}


def test_kafka_python_writes() -> None:
    """kafka-python's producer learns where its record lies."""
    with coordinator({"orders": 1}, rate=0) as kafka:
        with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)) as producer:
            offsets = [producer.send("orders", b"order").get(60).offset for _ in range(3)]
        assert offsets == [0, 1, 2]


def test_topics_with_a_rate_take_no_records() -> None:
    """A record that a producer sends is refused with a reason, and not lost in silence."""
    with coordinator({"orders": 1}) as kafka:
        reported: list[Any] = []
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})
        producer.produce("orders", b"order", on_delivery=lambda error, _: reported.append(error))
        assert producer.flush(60) == 0
        assert [error.code() for error in reported] == [KafkaError.POLICY_VIOLATION]


def test_a_batch_that_is_sent_again() -> None:
    """A batch with the producer's number of one before gets that one's offset; one without a producer is another."""
    log = StoredLog(Room())
    again = batch(b"a", b"b", producer_id=7, sequence=0)
    assert [log.append(each) for each in (again, again, batch(b"c", producer_id=7, sequence=2))] == [0, 0, 2]
    assert [log.append(batch(b"d")) for _ in range(2)] == [3, 4]
    assert log.end_offset(0) == 5


def test_what_is_read() -> None:
    """Reading begins with the batch that holds the offset, and ends with the room, but for the first batch."""
    log = StoredLog(Room())
    for values in ((b"a", b"b"), (b"c",), (b"d", b"e")):
        log.append(batch(*values))
    first, second, third = (each.data for each in log.batches)
    assert log.read(1, 5, 1 << 20) == first + second + third
    assert log.read(1, 5, 1) == first
    assert log.read(2, 3, 1 << 20) == second
    assert log.read(3, 5, len(third)) == third


def test_times() -> None:
    """A time is found by its batch, and the newest record by the greatest time."""
    log = StoredLog(Room())
    assert log.at_time(0, 0) == log.newest(0) == (-1, -1)
    log.append(batch(b"a", b"b"))
    log.append(batch(b"c"))
    assert log.at_time(1_001, 0) == (0, 1_001)
    assert log.at_time(1_002, 0) == (-1, -1)
    assert log.newest(0) == (1, 1_001)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", Error.INVALID_RECORD),
        (b"no batch", Error.CORRUPT_MESSAGE),
        (batch(b"a") + b"more", Error.CORRUPT_MESSAGE),
        (batch(b"a")[:-1] + b"?", Error.CORRUPT_MESSAGE),
        (batch(b"a", producer_id=1, sequence=0, is_transactional=True), Error.INVALID_TXN_STATE),
    ],
)
def test_what_is_not_taken(records: bytes, error: Error) -> None:
    """Each kind of bytes that are no batch has its error, and the log stays as it is."""
    log = StoredLog(Room())
    assert log.append(records) is error
    assert log.batches == []


def test_a_marker_is_not_taken() -> None:
    """Markers of transactions are a broker's to write."""
    producer = {"producer_id": 1, "producer_epoch": 0}
    marker = Batch(partition=0, base_offset=0, timestamp_ms=1_000, records=(), committed=True, **producer)
    assert StoredLog(Room()).append(encode_batch(marker)) is Error.INVALID_RECORD


def test_a_log_is_full() -> None:
    """What all logs together may hold is bounded."""
    room = Room(len(batch(b"a")))
    assert StoredLog(room).append(batch(b"a")) == 0
    assert StoredLog(room).append(batch(b"a")) is Error.KAFKA_STORAGE_ERROR

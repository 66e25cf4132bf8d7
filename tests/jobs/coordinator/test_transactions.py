"""Offsets in transactions through the socket: they are pending until the end, and belong to one producer."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from groupledger.jobs.coordinator.testing import TestCoordinator, coordinator
from groupledger.schemas.kafka.errors import Error
from lab.kafka.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP, TRANSACTIONAL_ID = "billing", "billing-1"


@pytest.fixture
def kafka() -> Iterator[TestCoordinator]:
    with coordinator({"orders": 3}, nodes=1) as started:
        yield started


@pytest.fixture
def connection(kafka: TestCoordinator) -> Iterator[Connection]:
    with closing(Connection(kafka.bootstrap_servers)) as opened:
        yield opened


class Producer:
    def __init__(self, connection: Connection, timeout_ms: int = 60_000) -> None:
        self.connection = connection
        answer = connection.call(
            InitProducerIdRequest(version=4, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=timeout_ms)
        )
        self.error = Error(answer.error_code)
        self.identity: dict[str, Any] = {
            "transactional_id": TRANSACTIONAL_ID,
            "producer_id": answer.producer_id,
            "producer_epoch": answer.producer_epoch,
        }

    def add_group(self) -> Error:
        return Error(
            self.connection.call(AddOffsetsToTxnRequest(version=3, **self.identity, group_id=GROUP)).error_code
        )

    def commit(self, offset: int, version: int = 4) -> Error:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        kind = topic.fields["partitions"].data_class
        partition = kind(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            version=version, **self.identity, group_id=GROUP, topics=[topic(name="orders", partitions=[partition])]
        )
        return Error(self.connection.call(request).topics[0].partitions[0].error_code)

    def end(self, *, committed: bool, version: int = 3) -> Any:
        return self.connection.call(EndTxnRequest(version=version, **self.identity, committed=committed))


def test_an_offset_is_pending_until_the_end(kafka: TestCoordinator, connection: Connection) -> None:
    """A committed transaction's offset counts when it ends, an aborted one's never."""
    producer = Producer(connection)
    assert (producer.add_group(), producer.commit(5)) == (Error.NONE, Error.NONE)
    assert kafka.committed(GROUP) == {}
    assert producer.end(committed=True).error_code == Error.NONE
    assert kafka.committed(GROUP) == {("orders", 0): 5}
    producer.add_group()
    producer.commit(7)
    producer.end(committed=False)
    assert kafka.committed(GROUP) == {("orders", 0): 5}


def test_the_next_producer_fences_the_one_before(kafka: TestCoordinator, connection: Connection) -> None:
    """Who asks for the id again ends what was open, and the producer before hears that it is fenced."""
    before = Producer(connection)
    before.add_group()
    before.commit(5)
    after = Producer(connection)
    assert after.identity["producer_epoch"] == before.identity["producer_epoch"] + 1
    assert before.commit(6) is Error.PRODUCER_FENCED
    after.add_group()
    after.commit(8)
    after.end(committed=True)
    assert kafka.committed(GROUP) == {("orders", 0): 8}


def test_a_commit_outside_of_a_transaction(connection: Connection) -> None:
    """A group that was not named before is refused, up to the version in which the commit names it."""
    producer = Producer(connection)
    assert producer.commit(5) is Error.INVALID_TXN_STATE
    assert producer.commit(5, version=5) is Error.NONE
    answer = producer.end(committed=True, version=5)
    assert answer.producer_epoch == producer.identity["producer_epoch"] + 1


def test_a_transaction_that_takes_too_long(kafka: TestCoordinator, connection: Connection) -> None:
    """It is aborted when its time is over, and its producer fenced; a timeout beyond the broker's is refused."""
    producer = Producer(connection, timeout_ms=50)
    producer.add_group()
    kafka.until(lambda: producer.commit(5) is Error.PRODUCER_FENCED, "the transaction to be aborted")
    assert kafka.committed(GROUP) == {}
    assert Producer(connection, timeout_ms=1_000_000).error is Error.INVALID_TRANSACTION_TIMEOUT

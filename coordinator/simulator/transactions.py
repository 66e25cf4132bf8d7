"""Simulates applications that commit offsets in transactions: consume, process, produce (KIP-98, KIP-447).

The producer sends the offsets to the group coordinator. Then the transaction coordinator, which is not modelled, writes
a marker into the group's `__consumer_offsets` partition; until then the offsets are pending. The records of an aborted
transaction are still in the application's memory, and are part of the next transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.messages import (
    OffsetCommitResponse,
    OffsetToCommit,
    Response,
    TxnOffsetCommitRequest,
    WriteTxnMarkerRequest,
)
from groupledger.coordinator.simulator.application import Application, RawClient

if TYPE_CHECKING:
    from groupledger.coordinator.client.consumer import Consumer

_PRODUCER_EPOCH = 0
_MAX_PRODUCER_ID = (1 << 53) - 1
_TRANSACTION_TIMEOUT_MS = 60_000
_ABORTED_ONE_IN = 8
_END_TXN_MS = (5, 40)  # from the offsets' acceptance to the marker: EndTxn and the transaction coordinator's log


class TransactionalApplication(Application):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        group_id = self.config.group_id
        source = self.source.source("producer")
        self._producer_id = source.between(1, _MAX_PRODUCER_ID)
        self._producer = RawClient(self.simulation, group_id, f"producer-{self.client_id}", self.client_host, source)
        self._open_transaction: int | None = None

    def commit(self) -> None:
        """Does nothing, because offsets are committed in transactions only."""

    def _processed(self, consumer: Consumer) -> None:
        """Begins a transaction with the results and the offsets of the records that were processed."""
        if consumer is not self.consumer or self._is_frozen or self._open_transaction is not None:
            return
        offsets = tuple(
            OffsetToCommit(topic=topic, partition=partition, offset=position)
            for topic, partition in consumer.assignment
            if (position := consumer.position(topic, partition)) is not None
        )
        if not offsets:
            return
        request = TxnOffsetCommitRequest(
            self.simulation.new_id(),
            self.config.group_id,
            producer_id=self._producer_id,
            producer_epoch=_PRODUCER_EPOCH,
            offsets=offsets,
            generation_id=consumer.generation_id,
            member_id=consumer.member_id,
            group_instance_id=self.config.group_instance_id,
        )
        self._open_transaction = request.request_id
        self._producer.planted = self.planted
        self._producer.send(request, self._answered)
        self.simulation.at(
            self.simulation.now_ms + _TRANSACTION_TIMEOUT_MS, self._end_transaction, request.request_id, False
        )

    def _answered(self, response: Response) -> None:
        """Commits if the offsets were taken, and aborts otherwise or by chance. A dead process does neither."""
        if self.consumer is None:
            return
        is_taken = isinstance(response, OffsetCommitResponse) and not any(each.error for each in response.partitions)
        is_committed = is_taken and self.source.between(1, _ABORTED_ONE_IN) > 1
        delay_ms = self.source.between(*_END_TXN_MS)
        self.simulation.at(self.simulation.now_ms + delay_ms, self._end_transaction, response.request_id, is_committed)

    def _end_transaction(self, transaction: int, is_committed: bool) -> None:
        """Ends the transaction, because the producer asked for it or because its timeout is over."""
        if transaction == self._open_transaction:
            self._open_transaction = None
            partition = self.simulation.brokers.partition_for(self.config.group_id)
            self.simulation.write_marker(
                WriteTxnMarkerRequest(
                    self.simulation.new_id(),
                    partition=partition,
                    producer_id=self._producer_id,
                    producer_epoch=_PRODUCER_EPOCH,
                    committed=is_committed,
                )
            )

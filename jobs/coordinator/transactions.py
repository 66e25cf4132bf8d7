"""Coordinates transactions as far as offsets need it: their producer, the groups they commit for, and their end.

A transactional id has one producer. If another one asks for the id, it gets the next epoch, and the open transaction is
aborted, as is one that is open too long. When a transaction ends, a marker is written into the `__consumer_offsets`
partition of each of its groups. Up to version 4 of TxnOffsetCommit, a client adds a group by AddOffsetsToTxn before it
commits offsets of the group. From version 5 on (KIP-890) the commit itself adds the group. From version 5 of EndTxn on,
the producer gets the next epoch when a transaction ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.transactions import DescribeTransactionsResponse
from kafka.protocol.producer.transaction import AddOffsetsToTxnResponse, EndTxnResponse, InitProducerIdResponse

from groupledger.schemas.kafka.api_keys import ApiKey
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.jobs.coordinator.frames import Incoming

EPOCH_MAX = (1 << 15) - 2  # the last that a producer gets; then it gets another id
TIMEOUT_MS_MAX = 900_000  # transaction.max.timeout.ms
_NO_PRODUCER = -1
_FENCED_IS_ANSWERED_SINCE = 2
IMPLICIT_SINCE = 5  # the version of TxnOffsetCommit and EndTxn


@dataclass(slots=True)
class Transaction:
    """The producer of a transactional id, and the groups of its open transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    group_ids: dict[str, None] = field(default_factory=dict)
    state: str = "Empty"  # in the words of DescribeTransactions
    number: int = 0  # of the transaction, so that the timeout of one that has ended ends no later one


class Transactions:
    """All transactions of the cluster. `write_marker` is called with group id, producer id, epoch and whether the
    transaction was committed. `after` calls a function after so many milliseconds."""

    def __init__(
        self,
        write_marker: Callable[[str, int, int, bool], None],
        after: Callable[[int, Callable[[], None]], None],
        new_producer_id: Callable[[], int],
    ) -> None:
        self._write_marker = write_marker
        self._after = after
        self._new_producer_id = new_producer_id
        self._by_id: dict[str, Transaction] = {}

    def init_producer_id(self, incoming: Incoming) -> Any:
        kind, body = InitProducerIdResponse, incoming.body
        if body.transactional_id is None:
            return kind(version=incoming.version, producer_id=self._new_producer_id(), producer_epoch=0)
        error = Error.NONE
        if not body.transactional_id:
            error = Error.INVALID_REQUEST
        elif not 0 < body.transaction_timeout_ms <= TIMEOUT_MS_MAX:
            error = Error.INVALID_TRANSACTION_TIMEOUT
        if error:
            return kind(
                version=incoming.version, error_code=error, producer_id=_NO_PRODUCER, producer_epoch=_NO_PRODUCER
            )
        known = self._by_id.get(body.transactional_id)
        producer_id, epoch = (self._new_producer_id(), 0) if known is None else self._next(known)
        self._by_id[body.transactional_id] = Transaction(producer_id, epoch, body.transaction_timeout_ms)
        return kind(version=incoming.version, producer_id=producer_id, producer_epoch=epoch)

    def _next(self, known: Transaction) -> tuple[int, int]:
        """Ends the transaction that the former producer left open, and returns the next producer id and epoch."""
        epoch = known.producer_epoch + 1
        self._end(known, epoch=epoch, committed=False)
        return (known.producer_id, epoch) if epoch <= EPOCH_MAX else (self._new_producer_id(), 0)

    def add_offsets(self, incoming: Incoming) -> Any:
        return AddOffsetsToTxnResponse(version=incoming.version, error_code=self.add_group(incoming))

    def add_group(self, incoming: Incoming) -> Error:
        """Adds the group of a request to the transaction of its producer, and begins the transaction if that is its
        first group. Returns the error if the producer is not the present one of the transactional id, else NONE."""
        found = self._producer(incoming.body, incoming.version)
        if isinstance(found, Error):
            return found
        if not found.group_ids:
            found.number += 1
            found.state = "Ongoing"
            number = found.number
            self._after(found.timeout_ms, lambda: self._time_out(found, number))
        found.group_ids[incoming.body.group_id] = None
        return Error.NONE

    def refused(self, incoming: Incoming) -> Error:
        """Returns the error if a TxnOffsetCommit is refused: its producer is not the present one of the transactional
        id, or its group is not part of the transaction. From version 5 on (KIP-890) adds the group instead. Returns
        NONE for all other requests."""
        if incoming.api is not ApiKey.TXN_OFFSET_COMMIT:
            return Error.NONE
        if incoming.version >= IMPLICIT_SINCE:
            return self.add_group(incoming)
        found = self._producer(incoming.body, incoming.version)
        if isinstance(found, Error):
            return found
        return Error.NONE if incoming.body.group_id in found.group_ids else Error.INVALID_TXN_STATE

    def end(self, incoming: Incoming) -> Any:
        found = self._producer(incoming.body, incoming.version)
        if isinstance(found, Error):
            return EndTxnResponse(version=incoming.version, error_code=found)
        if incoming.version >= IMPLICIT_SINCE:
            found.producer_epoch += 1  # the marker has the next epoch already
        self._end(found, epoch=found.producer_epoch, committed=incoming.body.committed)
        return EndTxnResponse(
            version=incoming.version, producer_id=found.producer_id, producer_epoch=found.producer_epoch
        )

    def describe(self, incoming: Incoming) -> Any:
        kind = DescribeTransactionsResponse
        found = []
        for transactional_id in incoming.body.transactional_ids:
            one = self._by_id.get(transactional_id)
            if one is None:
                error = Error.TRANSACTIONAL_ID_NOT_FOUND
                found.append(kind.TransactionState(transactional_id=transactional_id, error_code=error, topics=[]))
                continue
            found.append(
                kind.TransactionState(
                    transactional_id=transactional_id,
                    transaction_state=one.state,
                    transaction_timeout_ms=one.timeout_ms,
                    transaction_start_time_ms=_NO_PRODUCER,
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    topics=[],
                )
            )
        return kind(version=incoming.version, transaction_states=found)

    def _producer(self, body: Any, version: int) -> Transaction | Error:
        found = self._by_id.get(body.transactional_id)
        if found is None or found.producer_id != body.producer_id:
            return Error.INVALID_PRODUCER_ID_MAPPING
        if found.producer_epoch != body.producer_epoch:
            return Error.PRODUCER_FENCED if version >= _FENCED_IS_ANSWERED_SINCE else Error.INVALID_PRODUCER_EPOCH
        return found

    def _time_out(self, transaction: Transaction, number: int) -> None:
        """Aborts a transaction that is still open, and fences its producer."""
        if transaction.group_ids and transaction.number == number:
            transaction.producer_epoch += 1
            self._end(transaction, epoch=transaction.producer_epoch, committed=False)

    def _end(self, transaction: Transaction, *, epoch: int, committed: bool) -> None:
        groups, transaction.group_ids = transaction.group_ids, {}
        transaction.state = "CompleteCommit" if committed else "CompleteAbort"
        for group_id in groups:
            self._write_marker(group_id, transaction.producer_id, epoch, committed)

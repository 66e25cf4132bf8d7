"""Sends the requests of transactional producers that concern a group coordinator: offset commits in a transaction, and
its end.

Up to version 4 of TxnOffsetCommit the client first adds the group to its transaction. From version 5 on (KIP-890) the
broker does that, and the end of a transaction raises the producer's epoch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.producer.transaction import AddOffsetsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from lab.kafka.connection import ANSWER_SECONDS_MAX, NoAnswerError

if TYPE_CHECKING:
    from lab.kafka.connection import Connection

IMPLICIT_SINCE = 5
TRANSACTION_TIMEOUT_MS = 600_000
POLL_SECONDS = 0.002

# 14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR, 51 CONCURRENT_TRANSACTIONS.
NOT_YET = (14, 15, 16, 51)


@dataclass(slots=True)
class Producer:
    connection: Connection
    transactional_id: str
    api_version: int  # of its TxnOffsetCommits
    producer_id: int = -1
    producer_epoch: int = -1

    def start(self) -> None:
        answer = retried(
            self.connection,
            InitProducerIdRequest(
                version=4, transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
            ),
        )
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def add_group(self, group_id: str) -> None:
        if self.api_version < IMPLICIT_SINCE:
            retried(self.connection, AddOffsetsToTxnRequest(version=3, **self._identity(), group_id=group_id))

    def end(self, *, committed: bool) -> None:
        """Ends the transaction, and returns when its markers are in the log."""
        version = 5 if self.api_version >= IMPLICIT_SINCE else 3
        answer = retried(self.connection, EndTxnRequest(version=version, **self._identity(), committed=committed))
        described = DescribeTransactionsRequest(version=0, transactional_ids=[self.transactional_id])
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not self.connection.call(described).transaction_states[0].transaction_state.startswith("Complete"):
            if time.monotonic() > deadline:
                raise NoAnswerError(f"the transaction of {self.transactional_id} does not end")
            time.sleep(POLL_SECONDS)
        if version >= IMPLICIT_SINCE:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def _identity(self) -> dict[str, Any]:
        names = ("transactional_id", "producer_id", "producer_epoch")
        return {name: getattr(self, name) for name in names}


def retried(connection: Connection, request: Any) -> Any:
    """Returns the answer to a request. Sends it again while the broker is not ready for it (`NOT_YET`). Raises
    NoAnswerError for any other error."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        answer = connection.call(request)
        code = getattr(answer, "error_code", 0)
        if code == 0:
            return answer
        if code not in NOT_YET or time.monotonic() > deadline:
            raise NoAnswerError(f"error code {code} for {request}")
        time.sleep(POLL_SECONDS)

"""Drives the scenarios on the reference coordinator itself, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.classic.states import TRANSITIONS, State
from groupledger.coordinator.model.messages import WriteTxnMarkerRequest
from groupledger.coordinator.model.operation import Result
from groupledger.schemas.kafka.errors import Error

from .driver import Call, Driver

if TYPE_CHECKING:
    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request, Response
    from groupledger.coordinator.model.operation import Batch
    from groupledger.schemas.codec.records import Record


def lead_all(coordinator: Coordinator, now_ms: int) -> Result:
    """Makes a coordinator the leader of all partitions of the offsets topic, each with an empty log, as in a new
    cluster of one broker."""
    partitions = range(coordinator.config.offsets_topic_num_partitions)
    return Result.of(coordinator.load(partition, (), now_ms=now_ms) for partition in partitions)


class CoordinatorDriver(Driver):
    """Drives a coordinator in virtual time. It stores the batches of every partition, and gives each response to the
    call that waits for it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        limits = {"group_min_session_timeout_ms": 10, "group_max_session_timeout_ms": 600_000}
        self.config = Config(**{**limits, **settings})
        self.now_ms = 1_000
        self.batches: list[Batch] = []
        self.events: list[LogEvent] = []
        self.responses: list[Response] = []
        self._calls: dict[int, Call] = {}
        self._append_error = Error.NONE
        self._taken_batches = 0
        self.coordinator = Coordinator(self.config)
        self.collect(lead_all(self.coordinator, self.now_ms))

    def collect(self, result: Result) -> None:
        self.batches.extend(result.batches)
        self.events.extend(result.events)
        self.responses.extend(result.responses)
        for response in result.responses:
            call = self._calls.pop(response.request_id)
            call.response = response

    def send(self, request: Request) -> Call:
        call = Call(request)
        self._calls[request.request_id] = call
        append_error, self._append_error = self._append_error, Error.NONE
        self.collect(self.coordinator.handle(request, now_ms=self.now_ms, append_error=append_error))
        return call

    def advance(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.collect(self.coordinator.advance(self.now_ms))

    def take_batches(self) -> list[Batch]:
        """Returns the batches that were appended since the last call, including markers."""
        taken = self.batches[self._taken_batches :]
        self._taken_batches = len(self.batches)
        return taken

    def take_records(self) -> list[Record]:
        return [record for batch in self.take_batches() for record in batch.records]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        partition = self.coordinator.partition_for(self.group_id)
        self.answer(
            WriteTxnMarkerRequest(
                self.next_request_id(),
                partition=partition,
                producer_id=producer_id,
                producer_epoch=0,
                committed=committed,
            )
        )

    def fail_next_append(self, error: Error) -> None:
        self._append_error = error

    def force_state(self, *states: str) -> None:
        group = self.coordinator.group(self.group_id)
        assert group is not None
        for state in states:
            row = TRANSITIONS[group.state]
            group.apply(next(event for event in row if row[event] is State(state)), self.now_ms)

    def failover(self, **settings: Any) -> None:
        self.config = replace(self.config, **settings)
        self.coordinator = Coordinator(self.config)
        for partition in range(self.config.offsets_topic_num_partitions):
            log = [batch for batch in self.batches if batch.partition == partition]
            self.collect(self.coordinator.load(partition, log, now_ms=self.now_ms))

    def unload(self) -> None:
        partition = self.coordinator.partition_for(self.group_id)
        self.collect(self.coordinator.unload(partition, now_ms=self.now_ms))

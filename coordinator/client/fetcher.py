"""Fetches records: one request is in flight at a time, and its records are buffered until poll returns them.

Poll returns at most max.poll.records. A partition whose records are not all returned yet is not fetched again. Records
of a partition that was given up or got another position meanwhile are dropped. The error of a partition is raised by
the poll that finds it first in the buffer. Source: Kafka AbstractFetch, FetchCollector.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groupledger.coordinator.client.events import ClientError, Polled
from groupledger.coordinator.client.fetch_state import PartitionState, Position
from groupledger.coordinator.client.messages import Destination, FetchPartition, FetchRequest, FetchResponse
from groupledger.coordinator.client.reactions import Then, reaction_to
from groupledger.coordinator.model.messages import NO_LEADER_EPOCH
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.messages import FetchedPartition
    from groupledger.coordinator.client.metadata import Metadata
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.client.subscriptions import Subscriptions


@dataclass(slots=True)
class _CompletedFetch:
    partition: TopicPartition
    state: PartitionState
    offset: int  # of the next record that poll returns
    found: FetchedPartition


class Fetcher:
    def __init__(
        self, config: ConsumerConfig, network: Network, metadata: Metadata, subscriptions: Subscriptions
    ) -> None:
        self._config = config
        self._network = network
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._is_asked = False
        self._next_ms = 0
        self._completed: deque[_CompletedFetch] = deque()

    def send(self, now_ms: int) -> None:
        if self._is_asked or now_ms < self._next_ms:
            return
        stored = {completed.partition for completed in self._completed}
        asked: dict[TopicPartition, tuple[PartitionState, int]] = {}
        partitions = []
        for partition, state in self._subscriptions.partitions.items():
            at = state.position
            if partition in stored or not state.is_fetchable or at is None or now_ms < (state.retry_ms or 0):
                continue
            if at.leader is None:
                self._metadata.request_update()
                continue
            asked[partition] = state, at.offset
            partitions.append(FetchPartition(*partition, at.offset, at.leader.epoch))
        if not partitions:
            return
        self._is_asked = True
        request = FetchRequest(self._network.new_request_id(), tuple(partitions), self._config.fetch_max_wait_ms)

        def handle(response: FetchResponse | None, then_ms: int) -> None:
            self._is_asked = False
            if response is None:
                self._next_ms = then_ms + self._config.retry_backoff_ms
                return
            for found in response.partitions:
                partition = TopicPartition(found.topic, found.partition)
                if partition in asked:
                    self._completed.append(_CompletedFetch(partition, *asked[partition], found))

        self._network.send(Destination.BROKER, request, now_ms + self._config.request_timeout_ms, handle)

    def collect(self, now_ms: int) -> tuple[Polled, ...]:
        """Returns buffered records, at most max.poll.records. Raises ClientError for a partition's error, but only if
        there are no records before it to return."""
        polled: list[Polled] = []
        room = self._config.max_poll_records
        while self._completed and room > 0:
            completed = self._completed[0]
            position = completed.state.position
            is_owned = self._subscriptions.partitions.get(completed.partition) is completed.state
            is_fetchable = is_owned and completed.state.is_fetchable
            if not is_fetchable or position is None or position.offset != completed.offset:
                self._completed.popleft()
            elif completed.found.error is not Error.NONE:
                if polled:
                    break
                self._completed.popleft()
                self._fail(completed, now_ms)
            else:
                room -= self._hand_out(completed, position, room, polled)
        return tuple(polled)

    def _hand_out(self, completed: _CompletedFetch, position: Position, room: int, polled: list[Polled]) -> int:
        end = min(completed.found.next_offset, completed.offset + room)
        count = end - completed.offset
        if count > 0:
            polled.append(Polled(*completed.partition, completed.offset, end))
            epoch = completed.found.leader_epoch
            completed.state.advance(Position(end, None if epoch == NO_LEADER_EPOCH else epoch, position.leader))
            completed.offset = end
        if end >= completed.found.next_offset:
            self._completed.popleft()
        return count

    def _fail(self, completed: _CompletedFetch, now_ms: int) -> None:
        error = completed.found.error
        then = reaction_to(error, FetchRequest).then
        strategy = self._config.auto_offset_reset
        if then is Then.GIVE_UP and strategy != "none":
            completed.state.request_reset(strategy)
        elif then is Then.BACK_OFF:
            self._metadata.request_update()
            completed.state.retry_ms = now_ms + self._config.retry_backoff_ms
        else:
            raise ClientError(error, f"Fetch failed: {error.name}", (completed.partition,))

    def deadlines(self) -> list[int]:
        return [self._next_ms]

"""Finds the position at which to begin in every owned partition: committed offsets, offset resets, and validation.

Each poll does what a partition needs in its state (fetch_state.py). In INITIALIZING the coordinator is asked for the
committed offset, in AWAITING_RESET the partition's leader for the first or last offset of the log, in
AWAITING_VALIDATION the leader for the end of the epoch in which the position was reached. For a partition, at most one
request of each kind is out. Source: Kafka ClassicKafkaConsumer#updateFetchPositions, ConsumerCoordinator,
OffsetFetcher.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.config import CONSUMER, STREAMS
from groupledger.coordinator.client.events import ClientError, OffsetReset
from groupledger.coordinator.client.fetch_state import FetchState, PartitionState, Position
from groupledger.coordinator.client.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Destination,
    EpochPartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from groupledger.coordinator.client.network import backoff_ms
from groupledger.coordinator.client.reactions import Then, reaction_to
from groupledger.coordinator.model.messages import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.coordinator_lookup import CoordinatorLookup
    from groupledger.coordinator.client.events import Emit
    from groupledger.coordinator.client.heartbeat_membership import HeartbeatMembership
    from groupledger.coordinator.client.membership import MemberGeneration, Membership
    from groupledger.coordinator.client.messages import EpochEndOffset, ListedOffset
    from groupledger.coordinator.client.metadata import Metadata
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.client.subscriptions import Subscriptions

    Question = tuple[tuple[TopicPartition, ...], MemberGeneration | None]
    """The partitions and the generation of an OffsetFetch. If they have changed meanwhile, its answer is dropped."""

_TIMESTAMPS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Positions:
    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        lookup: CoordinatorLookup,
        metadata: Metadata,
        subscriptions: Subscriptions,
        membership: Membership | HeartbeatMembership[Any, Any],
        *,
        emit: Emit,
    ) -> None:
        self._config = config
        self._network = network
        self._lookup = lookup
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._membership = membership
        self._emit = emit
        self._metadata_version = 0
        self._asked: Question | None = None
        self._answer: OffsetFetchResponse | None = None
        self._next_fetch_ms = 0
        self._failures = 0
        self._failure: ClientError | None = None

    def update(self, now_ms: int) -> None:
        """Updates all positions. Raises ClientError for an error response, and for partitions without an offset if
        auto.offset.reset is none."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._metadata.version != self._metadata_version:
            self._metadata_version = self._metadata.version
            for partition, state in self._subscriptions.partitions.items():
                state.leader_is(self._metadata.leader(partition))
        self._validate(now_ms)
        if self._initialize(now_ms):
            self._choose_resets()
            self._reset(now_ms)

    def deadlines(self) -> list[int]:
        return [self._next_fetch_ms, *(state.retry_ms or 0 for state in self._subscriptions.partitions.values())]

    # Committed offsets

    def _initialize(self, now_ms: int) -> bool:
        """Asks for committed offsets. Returns whether none is waited for."""
        partitions = self._subscriptions.in_state(FetchState.INITIALIZING)
        if not partitions:
            return True
        question = partitions, self._membership.generation if self._membership.may_commit else None
        if self._asked == question:
            if self._answer is None:
                return False
            answer, self._asked, self._answer = self._answer, None, None
            return self._take_committed(answer, now_ms)
        if self._lookup.ensure_known(now_ms) and now_ms >= self._next_fetch_ms:
            self._asked, self._answer = question, None
            self._fetch_committed(question, now_ms)
        return False

    def _fetch_committed(self, question: Question, now_ms: int) -> None:
        def answered(response: OffsetFetchResponse, _: int) -> None:
            if self._asked is question:
                self._answer = response

        def lost(then_ms: int) -> None:
            if self._asked is question:
                self._asked = None
                self._back_off(then_ms)

        partitions, member = question
        group = OffsetFetchGroup(self._config.group_id, partitions)
        if member is not None and self._config.group_protocol in (CONSUMER, STREAMS):
            group = replace(group, member_id=member.member_id, member_epoch=member.generation_id)
        request = OffsetFetchRequest(self._network.new_request_id(), (group,), require_stable=True)
        self._lookup.send(request, now_ms, answered, lost)

    def _back_off(self, now_ms: int) -> None:
        self._next_fetch_ms = now_ms + backoff_ms(self._config, self._failures)
        self._failures += 1

    def _take_committed(self, response: OffsetFetchResponse, now_ms: int) -> bool:
        (group,) = response.groups
        errors = [group.error, *(partition.error for partition in group.partitions)]
        error = _decisive(errors)
        if error is not Error.NONE:
            reaction = reaction_to(error, OffsetFetchRequest)
            if reaction.rediscover:
                self._lookup.give_up(f"error response {error.name}", now_ms)
            self._back_off(now_ms)
            if reaction.then is Then.RAISE:
                wrong = tuple(TopicPartition(p.topic, p.partition) for p in group.partitions if p.error is error)
                raise ClientError(error, f"OffsetFetch failed: {error.name}", wrong)
            return False
        self._failures = 0
        for found in group.partitions:
            partition = TopicPartition(found.topic, found.partition)
            state = self._subscriptions.partitions.get(partition)
            if state is not None and found.offset != NO_OFFSET:
                epoch = None if found.leader_epoch == NO_LEADER_EPOCH else found.leader_epoch
                state.seek_unvalidated(Position(found.offset, epoch, self._metadata.leader(partition)))
        return True

    def _choose_resets(self) -> None:
        missing = self._subscriptions.in_state(FetchState.INITIALIZING)
        if missing and self._config.auto_offset_reset == "none":
            raise ClientError(None, "Undefined offset with no reset policy for partitions", missing)
        for partition in missing:
            self._subscriptions.partitions[partition].request_reset(self._config.auto_offset_reset)

    # Resets

    def _reset(self, now_ms: int) -> None:
        waiting = self._led(self._subscriptions.askable(FetchState.AWAITING_RESET, now_ms), now_ms)
        asked = {
            partition: (state, _TIMESTAMPS[state.reset_strategy or "latest"]) for partition, state in waiting.items()
        }
        if not asked:
            return
        partitions = tuple(ListOffsetsPartition(*partition, timestamp) for partition, (_, timestamp) in asked.items())
        request = ListOffsetsRequest(self._network.new_request_id(), partitions)

        def take(state: PartitionState, found: ListedOffset, then_ms: int) -> None:
            partition = TopicPartition(found.topic, found.partition)
            if state.fetch_state is not FetchState.AWAITING_RESET or found.offset == NO_OFFSET:
                return
            strategy = state.reset_strategy or "latest"
            # No record has led to this position, so it has no epoch, and there is nothing to validate.
            state.seek_unvalidated(Position(found.offset, None, self._metadata.leader(partition)))
            self._emit(
                OffsetReset(
                    then_ms, topic=found.topic, partition=found.partition, offset=found.offset, strategy=strategy
                )
            )

        self._ask(request, waiting, take, now_ms)

    # Validation

    def _validate(self, now_ms: int) -> None:
        waiting = self._led(self._subscriptions.askable(FetchState.AWAITING_VALIDATION, now_ms), now_ms)
        positions = {partition: state.position for partition, state in waiting.items() if state.position is not None}
        if not positions:
            return
        partitions = tuple(
            EpochPartition(*partition, at.epoch or 0, at.leader.epoch if at.leader else NO_LEADER_EPOCH)
            for partition, at in positions.items()
        )
        request = OffsetForLeaderEpochRequest(self._network.new_request_id(), partitions)

        def take(state: PartitionState, found: EpochEndOffset, _: int) -> None:
            partition = TopicPartition(found.topic, found.partition)
            if state.fetch_state is FetchState.AWAITING_VALIDATION and state.position == positions[partition]:
                self._compare(state, positions[partition], found)

        self._ask(request, waiting, take, now_ms)

    def _compare(self, state: PartitionState, position: Position, found: EpochEndOffset) -> None:
        """Compares a position with the end of its epoch; after a truncation it goes back to where the logs differ."""
        is_unknown = found.end_offset == NO_OFFSET or found.leader_epoch == NO_LEADER_EPOCH
        if not is_unknown and found.end_offset >= position.offset:
            state.complete_validation()
        elif self._config.auto_offset_reset == "none":
            partition = TopicPartition(found.topic, found.partition)
            self._failure = ClientError(None, "Detected log truncation with no reset policy", (partition,))
        elif is_unknown:
            state.request_reset(self._config.auto_offset_reset)
        else:
            state.seek_validated(Position(found.end_offset, found.leader_epoch, position.leader))

    # Both

    def _led(self, states: dict[TopicPartition, PartitionState], now_ms: int) -> dict[TopicPartition, PartitionState]:
        """Returns the partitions whose leader is known. The others wait for metadata."""
        led = {partition: state for partition, state in states.items() if self._metadata.leader(partition)}
        if len(led) < len(states):
            self._metadata.request_update()
            self._hold({partition: state for partition, state in states.items() if partition not in led}, now_ms)
        return led

    def _hold(self, states: dict[TopicPartition, PartitionState], now_ms: int) -> None:
        for state in states.values():
            state.retry_ms = now_ms + self._config.retry_backoff_ms

    def _ask(self, request: Any, states: dict[TopicPartition, PartitionState], take: Any, now_ms: int) -> None:
        """Asks the partitions' leaders. `take(state, found, now_ms)` is called with the answer for each partition."""
        deadline_ms = now_ms + self._config.request_timeout_ms
        for state in states.values():
            state.retry_ms = deadline_ms

        def handle(response: Any, then_ms: int) -> None:
            answers = {} if response is None else {TopicPartition(p.topic, p.partition): p for p in response.partitions}
            failed = {}
            for partition, state in states.items():
                found = answers.get(partition)
                if self._subscriptions.partitions.get(partition) is not state:
                    continue  # given up in the meantime
                if found is not None and found.error is Error.NONE:
                    take(state, found, then_ms)
                else:
                    failed[partition] = state
                    if found is not None and found.error is Error.TOPIC_AUTHORIZATION_FAILED:
                        self._failure = ClientError(found.error, "Not authorized to access the topic", (partition,))
            if failed:
                self._metadata.request_update()
                self._hold(failed, then_ms)

        self._network.send(Destination.BROKER, request, deadline_ms, handle)


def _decisive(errors: list[Error]) -> Error:
    """Returns the first error, or an unstable offset only if there is no other error."""
    wrong = [error for error in errors if error is not Error.NONE]
    return next(
        (error for error in wrong if error is not Error.UNSTABLE_OFFSET_COMMIT), wrong[0] if wrong else Error.NONE
    )

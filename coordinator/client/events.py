"""Defines the events of a consumer, which Kafka's client would log or report to its application, and the results of
poll.

Every event carries the time at which it happened. Partitions are in order of topic and partition. If Java's poll would
throw, the parts of this client raise ClientError, and the consumer turns that into the event FatalError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.messages import OffsetToCommit
    from groupledger.schemas.kafka.errors import Error
    from groupledger.schemas.kafka.topic_partition import TopicPartition

    Emit = Callable[["ConsumerEvent"], None]


@dataclass(frozen=True, slots=True)
class Polled:
    """Records that poll returned, from `from_offset` up to, but without, `to_offset`, which is the next position."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int


@dataclass(frozen=True, slots=True)
class ConsumerEvent:
    happened_at_ms: int


@dataclass(frozen=True, slots=True)
class CoordinatorDiscovered(ConsumerEvent):
    node_id: int


@dataclass(frozen=True, slots=True)
class CoordinatorUnknown(ConsumerEvent):
    """The client gave up its coordinator, and looks for the next one."""

    reason: str


@dataclass(frozen=True, slots=True)
class RejoinRequested(ConsumerEvent):
    """The next JoinGroup will carry this reason, unless a later one replaces it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined(ConsumerEvent):
    """A rebalance is complete. `assignment` has all partitions that the member owns now, `added` those new in this
    generation."""

    generation_id: int
    member_id: str
    protocol_name: str
    is_leader: bool
    assignment: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoked(ConsumerEvent):
    """The member gave up partitions while it was still a member, so that it could commit their offsets."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lost(ConsumerEvent):
    """The member gave up partitions after it lost its membership. Others may own them already."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CommitSucceeded(ConsumerEvent):
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFailed(ConsumerEvent):
    """A commit failed. `error` is the broker's; it is None if the connection was lost or the client itself refused the
    commit.

    `was_sent` is False if the client knew that it is no longer a member, so that no broker saw this commit.
    `is_retriable` means that the same commit may succeed later (Kafka's RetriableCommitFailedException).
    """

    error: Error | None
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int
    member_id: str
    was_sent: bool
    is_retriable: bool


@dataclass(frozen=True, slots=True)
class PollTimeout(ConsumerEvent):
    """Nobody polled for max.poll.interval.ms, so the heartbeat thread left the group (static members just stop)."""

    generation_id: int
    member_id: str


@dataclass(frozen=True, slots=True)
class Left(ConsumerEvent):
    """A LeaveGroup was sent."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReset(ConsumerEvent):
    """A partition without a usable position begins at `offset`; `strategy` is earliest or latest."""

    topic: str
    partition: int
    offset: int
    strategy: str


@dataclass(frozen=True, slots=True)
class Fenced(ConsumerEvent):
    """Another consumer took the group.instance.id of this consumer. A FatalError follows with the next poll."""

    group_instance_id: str


@dataclass(frozen=True, slots=True)
class FatalError(ConsumerEvent):
    """Java's poll would throw here. The application may poll again, as with Java's client, and most errors then come
    again.

    `error` is the broker's, or None if the client itself objects. `partitions` are those that the error is about, for
    example those without an offset if auto.offset.reset is none.
    """

    error: Error | None
    reason: str
    partitions: tuple[TopicPartition, ...] = ()


class ClientError(Exception):
    """An exception that Java's client would throw out of poll."""

    def __init__(self, error: Error | None, reason: str, partitions: tuple[TopicPartition, ...] = ()) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.partitions = partitions

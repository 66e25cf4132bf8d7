"""What a consumer tells: what Kafka's client would log or call the application back with, and what poll returns.

Every event carries the time at which it happened. Partitions are in order of topic and partition. Where Java's poll
throws, the parts of this client raise ClientError among themselves, and the consumer tells it as FatalError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.model.messages import OffsetToCommit, TopicPartition
    from groupledger.schemas.kafka.errors import Error

    Emit = Callable[["ConsumerEvent"], None]


@dataclass(frozen=True, slots=True)
class Polled:
    """Records that poll returned: from `from_offset` up to but without `to_offset`, the next position."""

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
    """The coordinator was given up; discovery follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class RejoinRequested(ConsumerEvent):
    """The next JoinGroup will carry this reason, unless a later one replaces it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Joined(ConsumerEvent):
    """A rebalance is complete. `assignment` is all that is owned now, `added` what came with this generation."""

    generation_id: int
    member_id: str
    protocol_name: str
    is_leader: bool
    assignment: tuple[TopicPartition, ...]
    added: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Revoked(ConsumerEvent):
    """Given up in good order: their offsets could still be committed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lost(ConsumerEvent):
    """Given up after the membership was lost: other members may own them already."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class CommitSucceeded(ConsumerEvent):
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int
    member_id: str


@dataclass(frozen=True, slots=True)
class CommitFailed(ConsumerEvent):
    """`error` is the broker's, or None where no answer came: the connection was lost, or the client itself refused.

    `was_sent` False: the client knew that it was no member any more, and no broker saw this commit. `is_retriable`
    means that the same commit may succeed later (Kafka's RetriableCommitFailedException).
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


@dataclass(frozen=True, slots=True)
class OffsetReset(ConsumerEvent):
    """A partition without a usable position begins at `offset`; `strategy` is earliest or latest."""

    topic: str
    partition: int
    offset: int
    strategy: str


@dataclass(frozen=True, slots=True)
class Fenced(ConsumerEvent):
    """Another consumer took this one's group.instance.id. A FatalError follows with the next poll."""

    group_instance_id: str


@dataclass(frozen=True, slots=True)
class FatalError(ConsumerEvent):
    """An exception out of poll. An application that polls again all the same goes on as Java's does, which for most
    errors is to meet the same one again. `error` is the broker's; None where the client itself objects.

    `partitions` are those that the error is about, as where auto.offset.reset is none and there is no offset.
    """

    error: Error | None
    reason: str
    partitions: tuple[TopicPartition, ...] = ()


class ClientError(Exception):
    """What Java's client would throw out of poll."""

    def __init__(self, error: Error | None, reason: str, partitions: tuple[TopicPartition, ...] = ()) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.partitions = partitions

"""Defines a consumer's reaction to each error code, as tables: one for each API, one row for each error.

A row has three columns. `rediscover`: whether the coordinator is given up. `reset`: whether the generation, or the
member id too, is dropped, if the request was sent for the present one; the next join then starts over. `then`: what
happens to the operation:

    AT_ONCE   it is tried again in the same poll
    BACK_OFF  it is tried again after retry.backoff.ms
    GIVE_UP   it is over; the application may do something about it
    RAISE     poll throws
    IGNORE    it goes on as if it had succeeded

Kafka's client does not expect an error that a table lacks; `UNEXPECTED` says what happens then. Source: the response
handlers of Kafka's AbstractCoordinator and ConsumerCoordinator, FetchCollector, AbstractHeartbeatRequestManager,
StreamsGroupHeartbeatRequestManager.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from groupledger.coordinator.client.messages import FetchRequest
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
    ShareGroupHeartbeatRequest,
    SyncGroupRequest,
)
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Mapping


class Then(Enum):
    AT_ONCE = "at once"
    BACK_OFF = "back off"
    GIVE_UP = "give up"
    RAISE = "raise"
    IGNORE = "ignore"


class Reset(Enum):
    NOTHING = "nothing"
    GENERATION = "generation"  # the member id may still be good
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class Reaction:
    then: Then
    reset: Reset = Reset.NOTHING
    rediscover: bool = False


_AT_ONCE = Reaction(Then.AT_ONCE)
_BACK_OFF = Reaction(Then.BACK_OFF)
_GIVE_UP = Reaction(Then.GIVE_UP)
_RAISE = Reaction(Then.RAISE)
_REDISCOVER = Reaction(Then.BACK_OFF, rediscover=True)
_OF_EVERY_MODERN_MEMBER = {
    Error.COORDINATOR_LOAD_IN_PROGRESS: _BACK_OFF,
    Error.COORDINATOR_NOT_AVAILABLE: _REDISCOVER,
    Error.NOT_COORDINATOR: _REDISCOVER,
    Error.UNKNOWN_MEMBER_ID: Reaction(Then.AT_ONCE, Reset.MEMBER),
    Error.FENCED_MEMBER_EPOCH: Reaction(Then.AT_ONCE, Reset.MEMBER),
    Error.INVALID_REQUEST: _RAISE,
    Error.GROUP_MAX_SIZE_REACHED: _RAISE,
    Error.UNSUPPORTED_VERSION: _RAISE,
    Error.GROUP_AUTHORIZATION_FAILED: _RAISE,
    Error.TOPIC_AUTHORIZATION_FAILED: _RAISE,
}

REACTIONS: Mapping[type[Request], Mapping[Error, Reaction]] = {
    JoinGroupRequest: {
        Error.COORDINATOR_LOAD_IN_PROGRESS: _BACK_OFF,
        Error.COORDINATOR_NOT_AVAILABLE: _REDISCOVER,
        Error.NOT_COORDINATOR: _REDISCOVER,
        Error.UNKNOWN_MEMBER_ID: Reaction(Then.AT_ONCE, Reset.MEMBER),
        Error.MEMBER_ID_REQUIRED: _AT_ONCE,  # with the id that came with it
        Error.REBALANCE_IN_PROGRESS: _AT_ONCE,
        Error.FENCED_INSTANCE_ID: _RAISE,
        Error.INCONSISTENT_GROUP_PROTOCOL: _RAISE,
        Error.INVALID_SESSION_TIMEOUT: _RAISE,
        Error.INVALID_GROUP_ID: _RAISE,
        Error.GROUP_AUTHORIZATION_FAILED: _RAISE,
        Error.GROUP_MAX_SIZE_REACHED: _RAISE,
        Error.UNSUPPORTED_VERSION: _RAISE,
    },
    SyncGroupRequest: {
        Error.COORDINATOR_NOT_AVAILABLE: _REDISCOVER,
        Error.NOT_COORDINATOR: _REDISCOVER,
        Error.UNKNOWN_MEMBER_ID: Reaction(Then.AT_ONCE, Reset.MEMBER),
        Error.ILLEGAL_GENERATION: Reaction(Then.AT_ONCE, Reset.GENERATION),
        Error.REBALANCE_IN_PROGRESS: _AT_ONCE,
        Error.FENCED_INSTANCE_ID: _RAISE,
        Error.GROUP_AUTHORIZATION_FAILED: _RAISE,
    },
    HeartbeatRequest: {
        Error.COORDINATOR_NOT_AVAILABLE: _REDISCOVER,
        Error.NOT_COORDINATOR: _REDISCOVER,
        Error.REBALANCE_IN_PROGRESS: Reaction(Then.IGNORE),  # the session goes on; a stable member will rejoin
        Error.ILLEGAL_GENERATION: Reaction(Then.BACK_OFF, Reset.GENERATION),
        Error.UNKNOWN_MEMBER_ID: Reaction(Then.BACK_OFF, Reset.MEMBER),
        Error.FENCED_INSTANCE_ID: Reaction(Then.RAISE, Reset.MEMBER),
        Error.GROUP_AUTHORIZATION_FAILED: _BACK_OFF,
    },
    ConsumerGroupHeartbeatRequest: {
        **_OF_EVERY_MODERN_MEMBER,
        Error.UNRELEASED_INSTANCE_ID: _RAISE,
        Error.FENCED_INSTANCE_ID: _RAISE,
        Error.UNSUPPORTED_ASSIGNOR: _RAISE,
        Error.INVALID_REGULAR_EXPRESSION: _RAISE,
    },
    ShareGroupHeartbeatRequest: _OF_EVERY_MODERN_MEMBER,
    StreamsGroupHeartbeatRequest: {
        **_OF_EVERY_MODERN_MEMBER,
        Error.STREAMS_INVALID_TOPOLOGY: _RAISE,
        Error.STREAMS_INVALID_TOPOLOGY_EPOCH: _RAISE,
        Error.STREAMS_TOPOLOGY_FENCED: _RAISE,
    },
    OffsetCommitRequest: {
        Error.COORDINATOR_LOAD_IN_PROGRESS: _BACK_OFF,
        Error.UNKNOWN_TOPIC_OR_PARTITION: _BACK_OFF,
        Error.STALE_MEMBER_EPOCH: _BACK_OFF,  # with the epoch of then
        Error.COORDINATOR_NOT_AVAILABLE: _REDISCOVER,
        Error.NOT_COORDINATOR: _REDISCOVER,
        Error.REQUEST_TIMED_OUT: _REDISCOVER,
        Error.REBALANCE_IN_PROGRESS: _GIVE_UP,  # and rejoin, with the membership as it is
        Error.UNKNOWN_MEMBER_ID: Reaction(Then.GIVE_UP, Reset.MEMBER),
        Error.ILLEGAL_GENERATION: Reaction(Then.GIVE_UP, Reset.GENERATION),
        Error.FENCED_INSTANCE_ID: _RAISE,
        Error.GROUP_AUTHORIZATION_FAILED: _GIVE_UP,
        Error.TOPIC_AUTHORIZATION_FAILED: _GIVE_UP,
        Error.OFFSET_METADATA_TOO_LARGE: _GIVE_UP,
        Error.INVALID_COMMIT_OFFSET_SIZE: _GIVE_UP,
    },
    OffsetFetchRequest: {
        Error.COORDINATOR_LOAD_IN_PROGRESS: _BACK_OFF,
        Error.COORDINATOR_NOT_AVAILABLE: _REDISCOVER,
        Error.NOT_COORDINATOR: _REDISCOVER,
        Error.STALE_MEMBER_EPOCH: _BACK_OFF,  # with the epoch of then
        Error.UNKNOWN_MEMBER_ID: _BACK_OFF,  # until a member of a KIP-848 group learns from a heartbeat that it is out
        Error.UNSTABLE_OFFSET_COMMIT: _BACK_OFF,  # a transaction is open
        Error.UNKNOWN_TOPIC_OR_PARTITION: _RAISE,
        Error.TOPIC_AUTHORIZATION_FAILED: _RAISE,
        Error.GROUP_AUTHORIZATION_FAILED: _RAISE,
    },
    FetchRequest: {
        Error.NOT_LEADER_OR_FOLLOWER: _BACK_OFF,
        Error.REPLICA_NOT_AVAILABLE: _BACK_OFF,
        Error.KAFKA_STORAGE_ERROR: _BACK_OFF,
        Error.FENCED_LEADER_EPOCH: _BACK_OFF,
        Error.UNKNOWN_LEADER_EPOCH: _BACK_OFF,
        Error.OFFSET_NOT_AVAILABLE: _BACK_OFF,
        Error.UNKNOWN_TOPIC_OR_PARTITION: _BACK_OFF,
        Error.UNKNOWN_TOPIC_ID: _BACK_OFF,
        Error.INCONSISTENT_TOPIC_ID: _BACK_OFF,
        Error.UNKNOWN_SERVER_ERROR: _BACK_OFF,
        Error.OFFSET_OUT_OF_RANGE: _GIVE_UP,  # this position; auto.offset.reset names the next one
        Error.TOPIC_AUTHORIZATION_FAILED: _RAISE,
        Error.CORRUPT_MESSAGE: _RAISE,
    },
}
UNEXPECTED: Mapping[type[Request], Reaction] = {
    JoinGroupRequest: _RAISE,
    SyncGroupRequest: _RAISE,
    HeartbeatRequest: _BACK_OFF,
    ConsumerGroupHeartbeatRequest: _RAISE,
    ShareGroupHeartbeatRequest: _RAISE,
    StreamsGroupHeartbeatRequest: _RAISE,
    OffsetCommitRequest: _GIVE_UP,
    OffsetFetchRequest: _RAISE,
    FetchRequest: _RAISE,
}
RETRIABLE_ERRORS = frozenset(
    {
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.REQUEST_TIMED_OUT,
    }
)
"""Errors of FindCoordinator after which it is tried again; all others are fatal."""


def reaction_to(error: Error, api: type[Request]) -> Reaction:
    return REACTIONS[api].get(error, UNEXPECTED[api])


def exception_name(error: Error, api: type[Request]) -> str:
    """Returns the simple name of the exception that Java's client throws for an error; it becomes the reason of the
    next join."""
    if error not in REACTIONS[api]:
        return "KafkaException"
    name = "".join(word.capitalize() for word in error.name.split("_"))
    return f"{name.removesuffix('Failed') if error is Error.GROUP_AUTHORIZATION_FAILED else name}Exception"

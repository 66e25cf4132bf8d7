"""Defines the requests of a consumer that any broker may answer, and the two destinations of requests.

The requests to a group's coordinator are in `coordinator.model.messages`. The requests here ask which broker
coordinates a group, which partitions topics have, and for the partitions' logs. A consumer of this model sees the
cluster as two destinations, its group's coordinator and everything else, because a Java consumer has a connection of
its own to the coordinator. Records are counted and not carried: a fetch is answered by the offset at which the next one
begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from groupledger.coordinator.model.messages import NO_LEADER_EPOCH, NO_OFFSET, Request, Response
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.names import ZERO_UUID

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
NO_NODE = -1


class Destination(Enum):
    COORDINATOR = "coordinator"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Sent:
    """A request with its destination. Its `request_id` is unique within the consumer."""

    destination: Destination
    request: Request


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest(Request):
    group_id: str


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse(Response):
    error: Error
    node_id: int = NO_NODE


# Metadata


@dataclass(frozen=True, slots=True)
class MetadataRequest(Request):
    topics: tuple[str, ...]
    topic_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """A partition's leader, NO_NODE while it has none, and the racks of its replicas if brokers have racks."""

    leader_id: int = 0
    leader_epoch: int = 0
    replica_racks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of a topic. `partitions` are the partitions 0, 1, ... in order; there are none if `error` is set."""

    topic: str
    partitions: tuple[PartitionMetadata, ...] = ()
    topic_id: str = ZERO_UUID
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class MetadataResponse(Response):
    topics: tuple[TopicMetadata, ...]


# Logs


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition:
    """A partition in ListOffsets. `timestamp_ms` may be EARLIEST_TIMESTAMP or LATEST_TIMESTAMP."""

    topic: str
    partition: int
    timestamp_ms: int
    current_leader_epoch: int = NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest(Request):
    partitions: tuple[ListOffsetsPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse(Response):
    partitions: tuple[ListedOffset, ...]


@dataclass(frozen=True, slots=True)
class EpochPartition:
    """Requests the offset at which `leader_epoch` ended, to find out whether the log was truncated since."""

    topic: str
    partition: int
    leader_epoch: int
    current_leader_epoch: int = NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest(Request):
    partitions: tuple[EpochPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    topic: str
    partition: int
    leader_epoch: int = NO_LEADER_EPOCH
    end_offset: int = NO_OFFSET
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochResponse(Response):
    partitions: tuple[EpochEndOffset, ...]


@dataclass(frozen=True, slots=True)
class FetchPartition:
    topic: str
    partition: int
    fetch_offset: int
    current_leader_epoch: int = NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True)
class FetchRequest(Request):
    """A Fetch. The broker may delay its response for up to `max_wait_ms` while there are no new records."""

    partitions: tuple[FetchPartition, ...]
    max_wait_ms: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPartition:
    """The records from the requested offset up to, but without, `next_offset`; if there are none, both are equal.

    `leader_epoch` is that of the last of these records.
    """

    topic: str
    partition: int
    next_offset: int = NO_OFFSET
    high_watermark: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    error: Error = Error.NONE


@dataclass(frozen=True, slots=True)
class FetchResponse(Response):
    partitions: tuple[FetchedPartition, ...]

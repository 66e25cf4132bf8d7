"""Defines the truth tables: what really happened to the groups, row by row, to compare a ledger with.

The words are those of the ledger's tables. `incarnation` counts from 1 how often a group was created. There is a row of
`generations` for every generation that completed its join phase, whether or not its leader synced: without a record,
`revision`, `kafka_offset` and `recorded_at_ms` are null. Times are those of the coordinator's clock; an open end is
null. Partitions are in order.

    generations  group_id, incarnation, generation, revision
    owners       group_id, incarnation, topic, partition, from_kafka_offset: one ownership interval
    causes       group_id, incarnation, to_generation: one rebalance, with what started it and what it changed
    members      group_id, incarnation, member_id, joined_at_ms: one tenure, of groups of every type
    epochs       group_id, incarnation, epoch: one epoch of a group of KIP-848, a share group or a streams group
    holdings     group_id, incarnation, topic, partition, member_id, from_kafka_offset: one interval of such a group
    tasks        group_id, incarnation, subtopology, partition, role, member_id, from_kafka_offset: of a streams group
    rejections   requested_at_ms, group_id, member_id, api: one refused request, with the planted root cause
    actions      happened_at_ms, group_id, action: what the scenario did
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groupledger.schemas.kafka.topic_partition import TopicPartition


@dataclass(slots=True, kw_only=True)
class TrueGeneration:
    """One revision of a generation. `started_at_ms` is the end of the join phase, or in a later revision the time at
    which a static member was replaced.

    Generation 0 is that of a group's creation. `protocol` and `leader` are null if the generation has no members.
    """

    group_id: str
    incarnation: int
    generation: int
    revision: int | None
    protocol_type: str
    protocol: str | None
    leader: str | None
    member_ids: tuple[str, ...]
    kafka_partition: int
    kafka_offset: int | None
    started_at_ms: int
    recorded_at_ms: int | None
    ended_at_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class TrueOwner:
    """An interval in which a member owned a partition: from the record that assigns it to the member to the record that
    takes it away.

    `to_generation` is the last generation in which the member owned it. Offsets and times are those of the two records.
    """

    group_id: str
    incarnation: int
    topic: str
    partition: int
    member_id: str
    client_id: str
    from_generation: int
    to_generation: int
    from_kafka_offset: int
    valid_from_ms: int
    valid_to_ms: int | None = None
    to_kafka_offset: int | None = None


@dataclass(slots=True, kw_only=True)
class TrueCause:
    """What started a rebalance and what it changed. `started_at_ms` is when the rebalance began, and `to_generation`
    the generation that it led to.

    `trigger`, `member_ids` and `reason` are those of the first reason; `client_reason` is the reason that a client
    gave, if any. `from_generation` is the last generation before that has a record, and `changes` are the differences
    from it; both are null if `to_generation` has no record. `planted` is the scenario's last action on the group before
    the rebalance.
    """

    group_id: str
    incarnation: int
    to_generation: int
    from_generation: int | None
    started_at_ms: int
    trigger: str
    member_ids: tuple[str, ...]
    reason: str
    client_reason: str | None
    planted: str | None
    changes: tuple[str, ...] | None = None


@dataclass(slots=True, kw_only=True)
class TrueTenure:
    """One membership: from the first generation that has the member to its removal. `leave_cause` is null while the
    member stays.

    `client_id` and `client_host` are those by which the coordinator knows the member. A process that replaces a static
    member is known by those of its predecessor (ClassicGroup.replaceStaticMember).
    """

    group_id: str
    incarnation: int
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int | None  # a share group's member has none
    joined_at_ms: int
    left_at_ms: int | None = None
    leave_cause: str | None = None
    leave_reason: str | None = None


@dataclass(slots=True, kw_only=True)
class Epoch:
    """An epoch of a group of KIP-848, a share group or a streams group, from the operation that began it.

    `trigger` is the operation's first change, and `member_ids` are the members concerned. `trigger` is null if the
    epoch continues the number of a classic group's generation, which an upgrade left as it was. `planted` is the
    scenario's last action on the group before.
    """

    group_id: str
    incarnation: int
    epoch: int
    kafka_partition: int
    trigger: str | None
    member_ids: tuple[str, ...]
    planted: str | None
    started_at_ms: int
    ended_at_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class Holding:
    """An interval in which a member of a KIP-848 group, a share group or a streams group had a partition, or had yet to
    give it up.

    Members of a share group have a partition together. A member of a streams group has the partitions that its active
    tasks read. The interval goes from operation to operation: `from_kafka_offset` and `to_kafka_offset` are the offsets
    after the last record of each.
    """

    group_id: str
    incarnation: int
    topic: str
    partition: int
    member_id: str
    client_id: str
    kafka_partition: int
    from_kafka_offset: int
    valid_from_ms: int
    to_kafka_offset: int | None = None
    valid_to_ms: int | None = None


@dataclass(slots=True, kw_only=True)
class TaskHolding:
    """An interval in which a member of a streams group had a task, or had yet to give it up, as in `Holding`."""

    group_id: str
    incarnation: int
    subtopology: str
    partition: int
    role: str
    member_id: str
    client_id: str
    kafka_partition: int
    from_kafka_offset: int
    valid_from_ms: int
    to_kafka_offset: int | None = None
    valid_to_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A request that was refused. Two errors belong to normal operation and count as no refusal: MEMBER_ID_REQUIRED,
    and REBALANCE_IN_PROGRESS in answer to a heartbeat or sync. `current_generation` is null if there is no such group.
    """

    requested_at_ms: int
    group_id: str
    api: str
    error: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    claimed_generation: int | None
    current_generation: int | None
    partitions: tuple[TopicPartition, ...]
    offsets: tuple[int, ...]
    root_cause: str


@dataclass(frozen=True, slots=True)
class Action:
    """What the scenario did to a group or to one of its clients."""

    happened_at_ms: int
    group_id: str
    action: str
    client_id: str | None


@dataclass(slots=True, kw_only=True)
class Truth:
    """All truth tables. The rows of each are in the order in which what they describe began."""

    generations: list[TrueGeneration] = field(default_factory=list)
    owners: list[TrueOwner] = field(default_factory=list)
    causes: list[TrueCause] = field(default_factory=list)
    members: list[TrueTenure] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)
    tasks: list[TaskHolding] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)

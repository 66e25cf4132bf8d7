"""Gives up, assigns and takes partitions in a rebalance (the hooks of Kafka's ConsumerCoordinator): before it, as the
leader, after it.

Before a join, an eager member gives up all partitions, a cooperative one only those of topics that it no longer
subscribes to, and a member that lost its membership loses everything. After the join, an eager member takes the
assignment. A cooperative one first gives up the partitions that the assignment lacks, and rejoins at once so that
others may have them. A leader keeps the metadata by which it assigned, and rejoins when the partitions of one of its
group's topics have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.assignors import AssignmentError
from groupledger.coordinator.client.assignment import (
    AssignorMemory,
    RebalanceProtocol,
    assign,
    offered_protocols,
    read_assignment,
    read_subscriptions,
    rebalance_protocol,
)
from groupledger.coordinator.client.events import ClientError
from groupledger.coordinator.client.metadata import EMPTY_SNAPSHOT
from groupledger.coordinator.client.ownership import MemberOwnership
from groupledger.coordinator.model.messages import NO_GENERATION
from groupledger.schemas.codec.errors import DecodeError

if TYPE_CHECKING:
    from groupledger.coordinator.assignors import Subscription
    from groupledger.coordinator.client.commits import OffsetCommits
    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.events import Emit
    from groupledger.coordinator.client.membership import Assignments, MemberGeneration, Membership
    from groupledger.coordinator.client.metadata import Metadata, Snapshot
    from groupledger.coordinator.client.subscriptions import Subscriptions
    from groupledger.coordinator.model.messages import JoinGroupResponse, Protocols


class Rebalance:
    def __init__(
        self,
        config: ConsumerConfig,
        metadata: Metadata,
        subscriptions: Subscriptions,
        membership: Membership,
        commits: OffsetCommits,
        *,
        emit: Emit,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._membership = membership
        self._commits = commits
        self._ownership = MemberOwnership(subscriptions, emit)
        self._memory = AssignorMemory()
        self._protocol = rebalance_protocol(config.assignors)
        self._joined_topics: tuple[str, ...] | None = None
        self._metadata_version = 0
        self._snapshot: Snapshot = EMPTY_SNAPSHOT
        self._assigned_by: Snapshot | None = None
        self._awaited_version: int | None = None  # the leader waits for metadata newer than this
        self._prepare_until_ms: int | None = None
        self.is_leader = False

    # Whether one is due

    def notice_metadata(self) -> None:
        if self._metadata.version > self._metadata_version:
            self._metadata_version = self._metadata.version
            self._snapshot = self._metadata.snapshot()

    def notice_changes(self, now_ms: int) -> None:
        if self._assigned_by is not None and self._assigned_by != self._snapshot:
            self._membership.request_rejoin_if_not_needed("cached metadata has changed", now_ms)
        elif self._joined_topics is not None and self._joined_topics != self._subscriptions.topics:
            self._membership.request_rejoin_if_not_needed("subscription has changed", now_ms)

    # Before

    def prepare_join(self, generation: MemberGeneration, now_ms: int) -> bool:
        """Gives up the partitions that a member gives up before it joins, after an automatic commit. Returns False
        while that commit is awaited, which is at most for the rebalance timeout."""
        if self._prepare_until_ms is None:
            self._prepare_until_ms = now_ms + self._config.max_poll_interval_ms
            if self._config.enable_auto_commit and self._protocol is RebalanceProtocol.EAGER:
                self._subscriptions.mark_pending_revocation()
        if not self._commits.is_settled(now_ms) and now_ms < self._prepare_until_ms:
            return False
        self._prepare_until_ms = self._awaited_version = None
        self._commits.forget_settlement()
        owned = self._subscriptions.assignment
        if generation.generation_id == NO_GENERATION or not generation.member_id:
            self._ownership.give_up(owned, now_ms, is_lost=True)
        elif self._protocol is RebalanceProtocol.EAGER:
            self._ownership.give_up(owned, now_ms)
        else:
            self._ownership.give_up(tuple(p for p in owned if p.topic not in self._subscriptions.topics), now_ms)
        self.is_leader = False
        self._subscriptions.group_topics = ()
        return True

    def deadlines(self) -> list[int]:
        return [] if self._prepare_until_ms is None else [self._prepare_until_ms]

    def prepare_leave(self, now_ms: int) -> None:
        generation = self._membership.generation
        is_lost = generation.generation_id == NO_GENERATION or self._membership.is_rebalancing
        self._ownership.give_up(self._subscriptions.assignment, now_ms, is_lost=is_lost)

    def protocols(self, generation: MemberGeneration) -> Protocols:
        self._joined_topics = self._subscriptions.topics
        owned = self._subscriptions.assignment
        return offered_protocols(self._config, self._memory, self._joined_topics, owned, generation.generation_id)

    # As the leader

    def assign(self, response: JoinGroupResponse, now_ms: int) -> Assignments | None:
        try:
            members = read_subscriptions(response.members)
        except DecodeError as error:
            raise ClientError(None, "SchemaException") from error
        if not self._has_metadata_of(members, now_ms):
            return None
        self.is_leader = True
        self.notice_metadata()
        self._assigned_by = self._snapshot
        if response.skip_assignment:  # a static leader that came back keeps what is assigned
            return ()
        if response.protocol_name not in self._config.assignors:
            raise ClientError(None, "IllegalStateException")
        try:
            return assign(response.protocol_name, self._metadata.cluster(), members)
        except AssignmentError as error:
            raise ClientError(None, "IllegalStateException") from error

    def _has_metadata_of(self, members: dict[str, Subscription], now_ms: int) -> bool:
        """Returns whether the metadata of all members' topics is up to date. If not, one answer is waited for."""
        if self._awaited_version is None:
            known = self._subscriptions.metadata_topics
            self._subscriptions.group_topics = tuple(sorted({t for m in members.values() for t in m.topics}))
            if self._subscriptions.metadata_topics != known:
                self._metadata.request_update()
            if self._metadata.is_fresh(now_ms):
                return True
            self._awaited_version = self._metadata.version
            self._metadata.maybe_send(now_ms)
        if self._metadata.version == self._awaited_version:
            return False
        self._awaited_version = None
        return True

    # After

    def complete_join(self, generation: MemberGeneration, assignment: bytes, now_ms: int) -> None:
        if not self.is_leader:
            self._assigned_by = None
        protocol_name = generation.protocol_name or ""
        try:
            in_order = read_assignment(assignment)
        except DecodeError as error:  # also if there are no bytes, because the leader left this member out
            raise ClientError(None, "the assignment can not be read") from error
        assigned, owned = tuple(sorted(set(in_order))), self._subscriptions.assignment
        if any(topic not in self._subscriptions.topics for topic, _ in assigned):
            reason = "received assignment does not match the current subscription"
            self._membership.request_rejoin(reason, now_ms)
            return
        revoked = tuple(partition for partition in owned if partition not in assigned)
        if self._protocol is RebalanceProtocol.COOPERATIVE and revoked:
            self._ownership.give_up(revoked, now_ms)
            self._membership.request_rejoin("need to revoke partitions and re-join", now_ms)
        self._memory.on_assignment(protocol_name, in_order, generation.generation_id)
        self._commits.restart_timer(now_ms)
        self._ownership.take(assigned, generation, now_ms, protocol_name=protocol_name, is_leader=self.is_leader)

"""Models the member of a KIP-848 group (`group.protocol=consumer`): the fields of its heartbeats, and its target.

The member subscribes to topics or to a pattern, is assigned partitions by topic id, and reports the partitions that it
owns. The background thread also reconciles, but if offsets have to be committed automatically before partitions are
given up, the reconciliation waits for a poll. States, timing and refusals are those of every member that communicates
by heartbeats (`heartbeat_membership`).

Source: ConsumerMembershipManager, ConsumerHeartbeatRequestManager of Kafka 4.2's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from groupledger.coordinator.client.heartbeat_membership import HeartbeatMembership, ModernState
from groupledger.coordinator.model.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ShareGroupHeartbeatResponse,
)
from groupledger.coordinator.model.partitions import Partitions
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.model.messages import Request

Words: TypeAlias = tuple[tuple[str, ...], str, Partitions]
"""The topics and the pattern that a member subscribes to, and what it owns."""


class ModernMembership(HeartbeatMembership[Partitions, Words]):
    _api: ClassVar[type[Request]] = ConsumerGroupHeartbeatRequest

    @property
    def _waits_for_poll(self) -> bool:
        return self._config.enable_auto_commit

    # Fields of a heartbeat

    def _request(self, request_id: int, epoch: int) -> Request:
        is_leaving = self.state is ModernState.LEAVING
        is_whole = self._said is None and not is_leaving
        topics, pattern, owned = ((), "", {}) if is_leaving else self._words()
        said_topics, said_pattern, said_owned = self._said or (None, "", None)
        self._said = topics, pattern, owned
        return ConsumerGroupHeartbeatRequest(
            request_id,
            self._config.group_id,
            member_id=self.generation.member_id,
            member_epoch=epoch,
            instance_id=self._config.group_instance_id,
            rack_id=self._config.client_rack if is_whole else None,
            rebalance_timeout_ms=self._config.max_poll_interval_ms if is_whole else -1,
            subscribed_topic_names=topics if topics != said_topics else None,
            subscribed_topic_regex=pattern if pattern != said_pattern else None,
            server_assignor=self._config.server_assignor if is_whole else None,
            owned=owned if owned != said_owned or self.state is ModernState.ACKNOWLEDGING else None,
            client_id=self._config.client_id,
            client_host=self._config.client_host,
        )

    def _words(self) -> Words:
        owned: dict[str, list[int]] = {}
        for topic, partition in self.owned.assignment:
            owned.setdefault(self._topic_ids[topic], []).append(partition)
        partitions = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in owned.items()}
        return self._subscriptions.topics, self._subscriptions.pattern, partitions

    # The coordinator's answers

    def _target_in(self, response: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse) -> Partitions | None:
        if response.assignment is not None:
            self._subscriptions.assigned_ids = tuple(response.assignment)
        return response.assignment

    def _attainable(self, target: Partitions) -> Partitions:
        """Returns the target but for topics whose names are not known, which are asked for."""
        known = {topic_id: self._metadata.topic_name(topic_id) for topic_id in target}
        self._topic_ids |= {name: topic_id for topic_id, name in known.items() if name is not None}
        if None in known.values():
            self._metadata.request_update()
        return {topic_id: numbers for topic_id, numbers in target.items() if known[topic_id] is not None}

    def _partitions(self, target: Partitions) -> Sequence[TopicPartition]:
        names = {topic_id: name for name, topic_id in self._topic_ids.items()}
        return sorted(TopicPartition(names[topic_id], number) for topic_id in target for number in target[topic_id])

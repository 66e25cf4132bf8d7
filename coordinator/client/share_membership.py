"""Models the member of a share group (KIP-932): the fields of its heartbeats, and its target.

The member reports its subscription but not its partitions. Since no other member waits for a partition, it reconciles
whatever the application does. Fetching and acknowledging records do not concern the group coordinator, and are not
modelled. States, timing and refusals are those of every member that communicates by heartbeats
(`heartbeat_membership`).

Source: ShareMembershipManager, ShareHeartbeatRequestManager of Kafka 4.2's clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from groupledger.coordinator.client.heartbeat_membership import ModernState
from groupledger.coordinator.client.modern_membership import ModernMembership
from groupledger.coordinator.client.subscriptions import Subscriptions
from groupledger.coordinator.model.messages import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from groupledger.coordinator.model.messages import Request


class ShareMembership(ModernMembership):
    _api: ClassVar[type[Request]] = ShareGroupHeartbeatRequest

    def _place_of_owned(self, _: Subscriptions) -> Subscriptions:
        """Returns a place of its own, since the member has neither positions nor offsets in its partitions."""
        return Subscriptions()

    @property
    def _waits_for_poll(self) -> bool:
        return False

    def _request(self, request_id: int, epoch: int) -> Request:
        is_leaving = self.state is ModernState.LEAVING
        is_whole = self._said is None and not is_leaving
        topics = () if is_leaving else self._subscriptions.topics
        said = None if self._said is None else self._said[0]
        self._said = topics, "", {}
        return ShareGroupHeartbeatRequest(
            request_id,
            self._config.group_id,
            member_id=self.generation.member_id,
            member_epoch=epoch,
            rack_id=self._config.client_rack if is_whole else None,
            subscribed_topic_names=topics if topics != said else None,
            client_id=self._config.client_id,
            client_host=self._config.client_host,
        )

"""Plays random sequences in which a group changes its protocol: one classic member, and KIP-848 members beside it.

The group begins as a classic one. A KIP-848 member that joins upgrades it, and when the last of them leaves, it becomes
classic again. The classic member heartbeats. When the broker asks it to, it joins and syncs again, at once or later.
There is never more than one classic member, because the joins of several wait for each other. The broker's descriptions
are compared as in `consumer_sequences`; while the group is classic, there is no description.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.protocol.consumer import group as membership

from groupledger.schemas.codec.consumer_protocol import decode_assignment, encode_assignment, encode_subscription
from groupledger.schemas.codec.protocol_message import ProtocolMessage
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kinds.changes import CHANGE_KINDS
from groupledger.schemas.words import GroupType
from lab.kafka.consumer_sequences import TOPICS, Play

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
SESSION_TIMEOUT_MS = 45_000
PROTOCOL = "range"
ANY_CAUSE = {kind.name for kind in CHANGE_KINDS}


class ConversionPlay(Play):
    """Plays one group with a classic member, which is in the group from the beginning to the end."""

    member_id = ""
    generation = -1
    owned: dict[str, list[int]]

    def run(self) -> None:
        self.owned = {}
        self._rejoin()
        self._look(set())
        super().run()
        request = membership.LeaveGroupRequest
        leaving = [request.MemberIdentity(member_id=self.member_id, group_instance_id=None, reason=None)]
        self._connection.call(request(version=LEAVE_VERSION, group_id=self.group_id, members=leaving))
        self._look(set())

    def _actions(self) -> list[tuple[int, Callable[[], set[str]]]]:
        # Many leaves, so that the group goes back often.
        return [*super()._actions(), (8, self._beat_classic), (5, self._leave)]

    def _look(self, causes: set[str]) -> None:
        """Takes any cause for right: a rebalance of the classic group waits for its member."""
        super()._look(causes | ANY_CAUSE)

    def _beat_classic(self) -> set[str]:
        answer = self._connection.call(
            membership.HeartbeatRequest(
                version=HEARTBEAT_VERSION,
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
            )
        )
        error = Error(answer.error_code)
        if error != Error.NONE:
            self.refused[error.name] += 1
            if self.dice.random() < 0.8:
                self._rejoin()
        return set()

    def _rejoin(self) -> None:
        owned = [{"topic": topic, "partitions": numbers} for topic, numbers in self.owned.items()]
        fields = {"topics": [*TOPICS], "user_data": None, "owned_partitions": owned}
        joined = self._join_as(encode_subscription(ProtocolMessage(1, fields)))
        if joined.error_code == Error.MEMBER_ID_REQUIRED.value:
            self.member_id = joined.member_id
            joined = self._join_as(encode_subscription(ProtocolMessage(1, fields)))
        if joined.error_code:
            self.refused[Error(joined.error_code).name] += 1
            self.member_id, self.owned = "", {}
            return
        self.generation = joined.generation_id
        request = membership.SyncGroupRequest
        shares = []
        if joined.leader == self.member_id:
            everything = [{"topic": topic, "partitions": [*range(number)]} for topic, number in TOPICS.items()]
            given = encode_assignment(ProtocolMessage(1, {"assigned_partitions": everything, "user_data": None}))
            shares = [request.SyncGroupRequestAssignment(member_id=self.member_id, assignment=given)]
        answer = self._connection.call(
            request(
                version=SYNC_VERSION,
                group_id=self.group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocol_name=PROTOCOL,
                assignments=shares,
            )
        )
        if answer.error_code:
            self.refused[Error(answer.error_code).name] += 1
        elif answer.assignment:
            topics = decode_assignment(bytes(answer.assignment)).fields["assigned_partitions"]
            self.owned = {each["topic"]: each["partitions"] for each in topics}
        else:
            self.owned = {}

    def _join_as(self, subscription: bytes) -> Any:
        request = membership.JoinGroupRequest
        return self._connection.call(
            request(
                version=JOIN_VERSION,
                group_id=self.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self.member_id,
                group_instance_id=None,
                protocol_type=GroupType.CONSUMER,
                protocols=[request.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
                reason=None,
            )
        )

"""Gives up and takes the partitions of one member, in groups of any type, and emits the events that report both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.client.events import Joined, Lost, Revoked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.client.events import Emit
    from groupledger.coordinator.client.membership import MemberGeneration
    from groupledger.coordinator.client.subscriptions import Subscriptions
    from groupledger.schemas.kafka.topic_partition import TopicPartition


class MemberOwnership:
    def __init__(self, subscriptions: Subscriptions, emit: Emit) -> None:
        self._subscriptions = subscriptions
        self._emit = emit

    def give_up(self, partitions: tuple[TopicPartition, ...], now_ms: int, *, is_lost: bool = False) -> None:
        if partitions:
            self._emit((Lost if is_lost else Revoked)(now_ms, partitions))
            self._subscriptions.assign(each for each in self._subscriptions.assignment if each not in partitions)

    def take(
        self,
        assigned: Sequence[TopicPartition],
        generation: MemberGeneration,
        now_ms: int,
        *,
        protocol_name: str,
        is_leader: bool = False,
    ) -> None:
        """Completes a rebalance: the member owns just the `assigned` partitions from now on. Partitions that it no
        longer has were given up before."""
        owned = self._subscriptions.assignment
        self._subscriptions.assign(assigned)
        self._emit(
            Joined(
                now_ms,
                generation_id=generation.generation_id,
                member_id=generation.member_id,
                protocol_name=protocol_name,
                is_leader=is_leader,
                assignment=tuple(assigned),
                added=tuple(each for each in assigned if each not in owned),
            )
        )

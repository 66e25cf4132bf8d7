"""Moves a member from its current partitions to its target, one heartbeat at a time.

A member keeps the partitions that are also in its target. While it still holds partitions to give up, it stays in its
epoch; once it has given them up, it moves to the target's epoch with the partitions that are free, and takes the rest
as others give them up. Source: responses of brokers of 4.2 and 4.4, step by step (`lab.kafka.consumer_differential`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groupledger.coordinator.model.groups.consumer.member import ConsumerMember, MemberState
from groupledger.coordinator.model.partitions import Partitions, common, together, units_of, without

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The inputs of a member's next step. `owned` are the partitions that it reports, or None if it reports none.
    `is_held` returns whether any member has a partition, and `subscribed` are the ids of the member's topics.
    `names_epochs` says that the member remembers in which epoch it was assigned each partition, as since 4.3."""

    target_epoch: int
    target: Partitions
    owned: Partitions | None
    subscribed: Collection[str]
    is_held: Callable[[str, int], bool]
    names_epochs: bool = False

    def step(self, member: ConsumerMember, *, has_changed_subscription: bool) -> ConsumerMember:
        """Returns the member after the step. It is unchanged if it has to wait or has reached its target."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            return self._without_unsubscribed(member) if has_changed_subscription else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_owns(member.pending_revocation):
            return self._without_unsubscribed(member) if has_changed_subscription else member
        return self._next(member)

    def _still_owns(self, partitions: Partitions) -> bool:
        return self.owned is None or bool(common(partitions, self.owned))

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Removes partitions of topics that the member no longer subscribes to, before there is a new target."""
        kept = {topic: numbers for topic, numbers in member.assigned.items() if topic in self.subscribed}
        # If no topic is left, a broker builds the member anew in 4.4, even if it had no partitions.
        is_idle = self.names_epochs and not self.subscribed and not member.pending_revocation
        if kept == member.assigned and not is_idle:
            return member
        pending = together(member.pending_revocation, without(member.assigned, kept))
        after = replace(member, assigned=kept)
        if pending and self._still_owns(pending):
            after = replace(after, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
        return self._with_epochs(member, after.at_epoch(after.epoch) if self.names_epochs else after)

    def _with_epochs(self, before: ConsumerMember, after: ConsumerMember) -> ConsumerMember:
        if not self.names_epochs:
            return after
        kept = {*units_of(common(before.assigned, after.assigned)), *units_of(after.pending_revocation)}
        units = units_of(together(after.assigned, after.pending_revocation))
        return replace(after, epochs={u: before.epoch_of(*u) if u in kept else self.target_epoch for u in units})

    def _next(self, member: ConsumerMember) -> ConsumerMember:
        target = {topic: numbers for topic, numbers in self.target.items() if topic in self.subscribed}
        kept = common(member.assigned, target)
        surplus = without(member.assigned, kept)
        if surplus and self._still_owns(surplus):
            after = member.at_epoch(
                member.epoch, state=MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=surplus
            )
            return self._with_epochs(member, after)
        wanted = without(target, kept)
        others = {
            topic: tuple(number for number in numbers if self._is_anothers(member, topic, number))
            for topic, numbers in wanted.items()
        }
        after = member.at_epoch(
            self.target_epoch,
            state=MemberState.UNRELEASED_PARTITIONS if any(others.values()) else MemberState.STABLE,
            assigned=together(kept, without(wanted, others)),
            pending_revocation={},
        )
        return self._with_epochs(member, after)

    def _is_anothers(self, member: ConsumerMember, topic: str, number: int) -> bool:
        return self.is_held(topic, number) and number not in member.pending_revocation.get(topic, ())

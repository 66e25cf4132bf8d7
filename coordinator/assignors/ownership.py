"""Determines which partitions each member of a sticky group still owns, from the members' claims.

Claims to topics that no longer exist are dropped. If two members claim a partition, the member with the later
generation owns it. If both name the same generation, neither owns it, and the partition counts as doubly claimed. The
generation of the later claimant, in the order of the members, comes from its `MemberData` (for `sticky`, from the user
data); that of the earlier claimant is always the subscription's own field, as in Kafka. Source: Kafka
AbstractStickyAssignor#allSubscriptionsEqual and #prepopulateCurrentAssignments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from groupledger.coordinator.assignors.subscriptions import Subscription
    from groupledger.schemas.kafka.topic_partition import TopicPartition

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class MemberData:
    """Holds the partitions that one member claims, in the order in which its subscription lists them, and the
    generation in which it had them; None if the subscription names no generation."""

    partitions: Sequence[TopicPartition]
    generation: int | None

    @property
    def known_generation(self) -> int:
        return NO_GENERATION if self.generation is None else self.generation


@dataclass(frozen=True, slots=True)
class Ownership:
    owned: Mapping[str, list[TopicPartition]]
    doubly_claimed: frozenset[TopicPartition]


def resolve_claims(
    topics: Container[str],
    members: Mapping[str, Subscription],
    member_data: Mapping[str, MemberData],
) -> Ownership:
    """Returns the partitions that each member still owns, and those that are doubly claimed. The claims are compared in
    the order of `members`, which has to be that of the Java map."""
    owned: dict[str, list[TopicPartition]] = {}
    last_claimant: dict[TopicPartition, str] = {}
    doubly_claimed: set[TopicPartition] = set()
    for consumer in members:
        generation = member_data[consumer].known_generation
        own = owned[consumer] = []
        for partition in member_data[consumer].partitions:
            if partition.topic not in topics:
                continue
            rival = last_claimant.get(partition)
            if rival is None:
                own.append(partition)
            else:
                rival_generation = max(members[rival].generation_id, NO_GENERATION)
                if generation < rival_generation:
                    continue
                if generation == rival_generation:
                    doubly_claimed.add(partition)
                else:
                    own.append(partition)
                # The rival can be the member itself, if it names a partition twice: hence after the append.
                if partition in owned[rival]:
                    owned[rival].remove(partition)
            last_claimant[partition] = consumer
    return Ownership(owned, frozenset(doubly_claimed))


def previous_owners(member_data: Mapping[str, MemberData]) -> dict[TopicPartition, str]:
    """Returns, for each partition that a member claims from a generation older than the newest one of all members, that
    member.

    If several such members claim a partition, it is the one with the latest generation; among equals, the first.
    """
    newest = max(data.known_generation for data in member_data.values())
    newest = max(newest, NO_GENERATION)
    previous: dict[TopicPartition, tuple[int, str]] = {}
    for consumer, data in member_data.items():
        if data.known_generation < newest:
            for partition in data.partitions:
                if partition not in previous or previous[partition][0] < data.known_generation:
                    previous[partition] = data.known_generation, consumer
    return {partition: consumer for partition, (_, consumer) in previous.items()}


def remaining_partitions(
    partitions: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Returns the partitions that are not in `assigned`; both are in the same order.

    Kafka walks the two lists side by side. It never meets an assigned partition that no longer exists (because its
    topic was created again with fewer partitions), and then everything assigned after that partition counts as
    unassigned.
    """
    rest: list[TopicPartition] = []
    pending = iter(assigned)
    expected = next(pending, None)
    for partition in partitions:
        if partition == expected:
            expected = next(pending, None)
        else:
            rest.append(partition)
    return rest

"""Finds who owned what, and who subscribed to what, at a position in the log, from rows of the history tables.

A position is the next offset to read. An interval holds at a position if the interval's first record lies below the
position, and the record that ended it, if any, does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from groupledger.transforms.lag.rules.facts import GroupFacts

if TYPE_CHECKING:
    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.lag.rules.facts import Owner


class OffsetRange(NamedTuple):
    """Holds the offsets between which a row was in force; `to_offset` is None if the row still is."""

    from_offset: int
    to_offset: int | None

    def holds_at(self, position: int) -> bool:
        return self.from_offset < position and (self.to_offset is None or position <= self.to_offset)


@dataclass(slots=True)
class GroupHistory:
    """Holds the intervals of one group.

    `kafka_partition` is the group's partition of `__consumer_offsets`, -1 if not known. A generation says whether a
    partition without an owner is known to be unowned; a member's topics are None if its subscription can't be read.
    """

    generations: list[tuple[OffsetRange, bool]] = field(default_factory=list)
    owners: list[tuple[OffsetRange, TopicPartition, Owner]] = field(default_factory=list)
    members: list[tuple[OffsetRange, frozenset[str] | None]] = field(default_factory=list)
    kafka_partition: int = -1

    def facts_at(
        self, position: int, state: str | None, sampled_subscription: frozenset[str] | None = None
    ) -> GroupFacts:
        """Returns the facts about the group that are known at a position.

        `state` and the subscription are those that the round sampled. The sampled subscription counts only if the
        history has no members at the position.
        """
        subscriptions = [topics for interval, topics in self.members if interval.holds_at(position)]
        known = [topics for topics in subscriptions if topics is not None]
        if not subscriptions:
            topics = sampled_subscription or None
        else:
            topics = frozenset().union(*known) if len(known) == len(subscriptions) else None
        return GroupFacts(
            state,
            {place: owner for interval, place, owner in self.owners if interval.holds_at(position)},
            is_ownership_known=any(is_known for interval, is_known in self.generations if interval.holds_at(position)),
            subscribed_topics=topics,
            kafka_partition=self.kafka_partition,
        )

"""Computes how much the most loaded member gets if a given number of members share the partitions.

Partitions are divided as Kafka's `range` or `roundrobin` do (`coordinator.assignors`). The other assignors give each
member as many partitions as `roundrobin`, but which ones depends on the previous owners: for these the result is an
estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.assignors import ASSIGNORS, Subscription, TopicPartitions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition

RANGE, ROUND_ROBIN = "range", "roundrobin"
LOAD_MAX = 0.8
"""The share of its pace that a member may get. With more it has too little left to catch up with a backlog."""
MEMBERS_MAX = 1_000


def heaviest_per_s(rates: Mapping[TopicPartition, float], members: int, assignor: str | None) -> float:
    """Returns how many records per second the most loaded member gets, if `members` members share the partitions.
    `rates` are records per second by partition."""
    counts: dict[str, int] = {}
    for place in rates:
        counts[place.topic] = max(counts.get(place.topic, 0), place.partition + 1)
    topics = {topic: TopicPartitions(count) for topic, count in counts.items()}
    subscription = Subscription(topics=tuple(sorted(topics)))
    named = {f"member-{number:05d}": subscription for number in range(members)}
    dealt = ASSIGNORS[RANGE if assignor == RANGE else ROUND_ROBIN](topics, named)
    return max((sum(rates.get(place, 0.0) for place in places) for places in dealt.values()), default=0.0)


def members_needed(rates: Mapping[TopicPartition, float], pace_per_s: float, assignor: str | None) -> int | None:
    """Returns the smallest number of members with which each gets at most LOAD_MAX of `pace_per_s`, which is what a
    member processes; None if no number suffices."""
    limit = pace_per_s * LOAD_MAX
    if not limit or max(rates.values(), default=0.0) > limit:
        return None
    first = max(int(sum(rates.values()) / limit), 1)
    for members in range(first, min(len(rates), MEMBERS_MAX) + 1):
        if heaviest_per_s(rates, members, assignor) <= limit:
            return members
    return None


def even_members(rates: Mapping[TopicPartition, float]) -> list[int]:
    """Returns the numbers of members with which each member gets equally many partitions of each topic."""
    counts: dict[str, int] = {}
    for place in rates:
        counts[place.topic] = counts.get(place.topic, 0) + 1
    most = min(max(counts.values(), default=0), MEMBERS_MAX)
    return [members for members in range(1, most + 1) if all(count % members == 0 for count in counts.values())]

"""Differential test: random groups, and random histories of groups, through our assignors and Kafka's own classes.

The seed is GROUPLEDGER_SEED, or a fixed one. On a difference the smallest group found that still shows it is printed.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from groupledger.coordinator.assignors import ASSIGNORS, Assignment, AssignmentError, Subscription, TopicPartitions
from groupledger.coordinator.assignors.user_data import (
    cooperative_sticky_user_data,
    sticky_member_data,
    sticky_user_data,
)
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    KafkaAssign: TypeAlias = Callable[
        [str, Mapping[str, TopicPartitions], Mapping[str, Subscription]], Assignment | None
    ]

SEED: Final = int(os.environ.get("GROUPLEDGER_SEED", "20420"))
GROUPS: Final = 2_000
HISTORIES: Final = 60
ROUNDS: Final = 8

# "Aa" and "BB" hash alike in Java; the last two sort differently by UTF-16 unit than by code point.
ODD_NAMES: Final = ("", "AaAa", "AaBB", "BBAa", "BBBB", "a.b_c-1", "x" * 249, "naïve", "\ue000", "\U0001f600")
RACKS: Final = ("a", "b", "c", "")

pytestmark = pytest.mark.java


@dataclass(frozen=True, slots=True)
class Group:
    topics: dict[str, TopicPartitions]
    members: dict[str, Subscription]

    def size(self) -> int:
        return sum(topic.partition_count for topic in self.topics.values()) + sum(
            len(repr(member)) for member in self.members.values()
        )


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_random_groups_are_assigned_as_kafka_does(assignor: str, kafka_assign: KafkaAssign) -> None:
    """Goal: every list of every member equals Kafka's, in order, and we raise exactly where Kafka throws."""
    rng = random.Random(f"{SEED} {assignor}")
    groups = (random_group(rng, assignor) for _ in range(GROUPS))
    different = [group for group in groups if differs(assignor, group, kafka_assign)]
    if different:
        pytest.fail(report(assignor, min(different, key=Group.size), kafka_assign))


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_histories_stay_equal_to_kafka_over_rounds(assignor: str, kafka_assign: KafkaAssign) -> None:
    """Goal: members own in each round the partitions that the round before assigned, while members and partitions come
    and go; every round is still equal to Kafka's."""
    rng = random.Random(f"{SEED} {assignor} histories")
    for _ in range(HISTORIES):
        for group in random_history(rng, assignor):
            if differs(assignor, group, kafka_assign):
                pytest.fail(report(assignor, group, kafka_assign))


def ours(assignor: str, group: Group) -> Assignment | None:
    try:
        return ASSIGNORS[assignor](group.topics, group.members)
    except AssignmentError:
        return None


def differs(assignor: str, group: Group, kafka_assign: KafkaAssign) -> bool:
    return ours(assignor, group) != kafka_assign(assignor, group.topics, group.members)


def report(assignor: str, group: Group, kafka_assign: KafkaAssign) -> str:
    """Repeats every reduction for as long as the smaller group still differs, until none helps."""
    size = group.size() + 1
    while group.size() < size:
        size = group.size()
        for reduced in reductions(group):
            while (smaller := reduced(group)).size() < group.size() and differs(assignor, smaller, kafka_assign):
                group = smaller
    kafkas = kafka_assign(assignor, group.topics, group.members)
    return f"seed {SEED}: {assignor} differs on {group}\nKafka: {kafkas}\nours:  {ours(assignor, group)}"


def reductions(group: Group) -> Iterator[Callable[[Group], Group]]:
    for member_id in group.members:
        yield partial(with_member, member_id=member_id, change=lambda _: None)
    for topic in group.topics:
        for keep in (lambda _: 0, lambda count: count // 2, lambda count: count - 1):
            yield partial(with_fewer_partitions, topic=topic, keep=keep)
    for member_id in group.members:
        for change in MEMBER_REDUCTIONS:
            yield partial(with_member, member_id=member_id, change=change)


def with_fewer_partitions(group: Group, topic: str, keep: Callable[[int], int]) -> Group:
    partitions = group.topics[topic]
    count = max(0, keep(partitions.partition_count))
    return replace(group, topics=group.topics | {topic: TopicPartitions(count, partitions.replica_racks[:count])})


def with_member(group: Group, member_id: str, change: Callable[[Subscription], Subscription | None]) -> Group:
    if member_id not in group.members:
        return group
    members = dict(group.members)
    if (changed := change(members.pop(member_id))) is not None:
        members = {key: changed if key == member_id else member for key, member in group.members.items()}
    return replace(group, members=members) if members else group


def with_one_claim_less(member: Subscription) -> Subscription:
    claims = sticky_member_data(member)
    return replace(member, user_data=sticky_user_data(claims.partitions[:-1], claims.known_generation))


MEMBER_REDUCTIONS: Final[Sequence[Callable[[Subscription], Subscription]]] = (
    lambda member: replace(member, owned_partitions=(), user_data=None),
    lambda member: replace(member, owned_partitions=member.owned_partitions[:-1]),
    with_one_claim_less,
    lambda member: replace(member, user_data=None),
    lambda member: replace(member, rack_id=None),
    lambda member: replace(member, group_instance_id=None),
    lambda member: replace(member, topics=member.topics[:-1]),
)


def random_group(rng: random.Random, assignor: str) -> Group:
    """One group in any state: also such as a healthy cluster never shows, because every byte comes from a client."""
    names = [f"topic-{number}" for number in range(rng.randint(1, rng.choice((5, 5, 5, 20))))]
    names += rng.sample(ODD_NAMES, rng.randint(0, 3))
    topics = random_topics(rng, names)
    member_ids = random_member_ids(rng, rng.randint(1, rng.choice((3, 6, 12, 40))))
    subscriptions = random_subscriptions(rng, names, len(member_ids))
    claims, former_claims = (random_claims(rng, topics, names, member_ids) for _ in range(2))
    newest = rng.randint(0, 9)
    steady = rng.random() < 0.5
    racks = rng.choice((RACKS[:1], (None,), (*RACKS, None), (*RACKS[:3], None)))
    instances = rng.choice(((None,), (None, "i1", "i2"), range(len(member_ids))))
    members = {}
    for member_id, topic_names in zip(member_ids, subscriptions, strict=True):
        generation = newest if steady else rng.choice((newest, newest, newest - 1, newest - 2, -1))
        instance = rng.choice(instances)
        members[member_id] = replace(
            subscription(
                rng, assignor, topic_names, (claims if generation == newest else former_claims)[member_id], generation
            ),
            rack_id=rng.choice(racks),
            group_instance_id=None if instance is None else f"instance-{instance}",
        )
    return Group(topics, members)


def random_topics(rng: random.Random, names: Sequence[str]) -> dict[str, TopicPartitions]:
    """Some names are left without metadata; partition counts are often alike, as co-partitioned topics need."""
    count_max = rng.choice((3, 8, 20, 60)) if len(names) < 9 else 8
    shared_count = rng.randint(1, count_max)
    rack_count_max = rng.choice((0, 0, 1, 2, 3))
    topics = {}
    for name in names:
        if rng.random() < 0.9:
            count = shared_count if rng.random() < 0.4 else rng.randint(0, count_max)
            racks = tuple(frozenset(rng.sample("abcd", rng.randint(0, rack_count_max))) for _ in range(count))
            topics[name] = TopicPartitions(count, racks if rack_count_max else ())
    return topics


def random_member_ids(rng: random.Random, count: int) -> list[str]:
    odd = [name for name in ODD_NAMES if rng.random() < 0.1]
    member_ids = [f"consumer-{rng.randrange(4)}-{rng.getrandbits(64):016x}" for _ in range(count)]
    member_ids[: len(odd)] = odd[:count]
    rng.shuffle(member_ids)
    return member_ids


def random_subscriptions(rng: random.Random, names: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Equal, nearly equal, or each its own; in some groups with unknown topics, none at all, or one listed twice."""
    style = rng.choice(("equal", "equal", "nearly", "own"))
    odd_share = rng.choice((0, 0, 0, 0, 0, 0, 0, 0.05, 0.5))
    subscriptions = []
    for _ in range(count):
        own = style == "own" or (style == "nearly" and rng.random() < 0.3)
        topics = rng.sample(names, rng.randint(1, len(names)) if own else len(names))
        if rng.random() < odd_share:
            topics = rng.choice(([], [*topics, topics[0]], [*topics, "nobody's"]))
        subscriptions.append(tuple(topics))
    return subscriptions


def random_claims(
    rng: random.Random, topics: Mapping[str, TopicPartitions], names: Sequence[str], member_ids: Sequence[str]
) -> defaultdict[str, list[TopicPartition]]:
    """What members say they own: nothing, or a former assignment, at times with claims of others or of lost ones."""
    claims: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    owners = rng.sample(member_ids, rng.randint(0, len(member_ids)))
    if not owners or rng.random() < 0.2:
        return claims
    owned_share = rng.choice((0.5, 1, 1))
    doubled_share = rng.choice((0, 0, 0.03, 0.3))
    for topic, partitions in topics.items():
        for partition in range(partitions.partition_count):
            if rng.random() < owned_share:
                claims[rng.choice(owners)].append(TopicPartition(topic, partition))
            while rng.random() < doubled_share:
                claims[rng.choice(owners)].append(TopicPartition(topic, partition))
    if rng.random() < 0.05:
        claims[rng.choice(owners)].append(TopicPartition(rng.choice((*names, "nobody's")), rng.randint(0, 70)))
    for claimed in claims.values():
        if rng.random() < 0.5:
            rng.shuffle(claimed)
    return claims


def subscription(
    rng: random.Random, assignor: str, topics: tuple[str, ...], claims: Sequence[TopicPartition], generation: int
) -> Subscription:
    """As a client of some version of this assignor would send it, or rarely with broken user data."""
    broken = rng.randbytes(rng.randint(0, 12)) if rng.random() < 0.02 else None
    field_generation = generation if rng.random() < 0.8 else -1
    if assignor == "sticky":
        user_data = sticky_user_data(claims, generation) if claims else None
        if user_data and rng.random() < 0.1:
            user_data = user_data[: -rng.randint(1, len(user_data))] if rng.random() < 0.2 else user_data[:-4]
        return Subscription(
            topics=topics, owned_partitions=(), generation_id=field_generation, user_data=broken or user_data
        )
    user_data = None if rng.random() < 0.1 else cooperative_sticky_user_data(generation)
    return Subscription(
        topics=topics, owned_partitions=tuple(claims), generation_id=field_generation, user_data=broken or user_data
    )


def random_history(rng: random.Random, assignor: str) -> Iterator[Group]:
    """One group over rounds, as members join, leave, are late for a round, and topics grow, come and go."""
    names = [f"topic-{number}" for number in range(rng.randint(1, 4))]
    topics = random_topics(rng, names)
    member_ids = random_member_ids(rng, 30)
    equal = rng.random() < 0.5
    rack_of = {member_id: rng.choice((None, *RACKS)) for member_id in member_ids}
    topics_of = dict(zip(member_ids, random_subscriptions(rng, names, len(member_ids)), strict=True))
    present = member_ids[: rng.randint(1, 10)]
    assigned: dict[str, tuple[list[TopicPartition], int]] = {}
    for generation in range(1, ROUNDS + 1):
        members = {}
        for member_id in present:
            claims, claimed_in = assigned.get(member_id, ([], -1))
            own_topics = tuple(names) if equal else topics_of[member_id]
            members[member_id] = replace(
                subscription(rng, assignor, own_topics, claims, claimed_in), rack_id=rack_of[member_id]
            )
        group = Group(dict(topics), members)
        yield group
        # Late members keep their partitions, and come back with a stale generation.
        for member_id, partitions in (ours(assignor, group) or {}).items():
            assigned[member_id] = partitions, generation
        present = next_members(rng, member_ids, present)
        topics |= random_topics(rng, rng.sample(names, 1)) if rng.random() < 0.3 else {}
        topics_of[rng.choice(member_ids)] = tuple(rng.sample(names, rng.randint(1, len(names))))


def next_members(rng: random.Random, member_ids: Sequence[str], present: Sequence[str]) -> list[str]:
    staying = [member_id for member_id in present if rng.random() < 0.85]
    joining = rng.sample(member_ids, rng.choice((0, 1, 1, 2, 8)))
    return list(dict.fromkeys((*staying, *joining))) or [member_ids[0]]

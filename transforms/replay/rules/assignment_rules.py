"""Checks whether Kafka's own assignors may give the assignment in a record, and computes it again where possible.

All four assignors give each partition to one member, which subscribes to its topic. `cooperative-sticky` never gives a
partition to one member while another says that it owns it (KIP-429). `range` and `roundrobin` depend only on
subscriptions and partition counts, and assign all partitions of a subscribed topic. So the assignment itself shows the
partition counts, unless it skips a partition number. The sticky assignors promise only balance, among members with
equal subscriptions.

Three cases are not checked. The sticky assignors count a member without topics as equal to the others (Kafka
AbstractStickyAssignor#allSubscriptionsEqual) and may give it anything. Racks may have decided the choice. And a leader
does not see static members as such below JoinGroup API 5, so they may be ordered by instance id or by member id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.assignors import ASSIGNORS, Subscription, TopicPartitions
from groupledger.schemas.kafka.names import COOPERATIVE_PROTOCOL
from groupledger.schemas.words import FindingKind
from groupledger.transforms.history.rules.events import CONSUMER
from groupledger.transforms.replay.rules.finding import Contradiction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.history.rules.events import GroupRecord

STICKY = ("sticky", COOPERATIVE_PROTOCOL)

Owned = dict[str, set["TopicPartition"]]


def _is_by_known_assignor(record: GroupRecord) -> bool:
    return record.protocol_type == CONSUMER and record.protocol in ASSIGNORS


def two_owners(record: GroupRecord) -> Iterator[Contradiction]:
    """Yields a contradiction if a partition has several owners. Records of any revision are checked, because a revision
    repeats the assignment."""
    if not _is_by_known_assignor(record):
        return
    shared = {unit: owners for unit, owners in sorted(record.owners.items()) if len(owners) > 1}
    if shared:
        (topic, partition), owners = next(iter(shared.items()))
        yield Contradiction(
            FindingKind.PARTITION_WITH_TWO_OWNERS,
            f"{topic} {partition} is assigned to {' and '.join(owners)} at once, and {record.protocol} assigns once.",
            owners[0],
            topic,
            partition,
            {"owners": [[*unit, list(owners)] for unit, owners in shared.items()]},
        )


def assignment_contradictions(record: GroupRecord) -> Iterator[Contradiction]:
    """Yields the parts of an assignment that Kafka's assignor could not have given. The record must be the one that the
    leader's SyncGroup wrote (revision 0)."""
    if not record.members or not _is_by_known_assignor(record):
        return
    strange = [*_outside_subscription(record), *_not_revoked_first(record)]
    yield from strange
    is_readable = record.is_ownership_known and all(member.facts.topics is not None for member in record.members)
    if is_readable and not strange and all(len(owners) == 1 for owners in record.owners.values()):
        yield from _unbalanced(record) if record.protocol in STICKY else _differs(record)


def _outside_subscription(record: GroupRecord) -> Iterator[Contradiction]:
    outside = [
        (member.facts.member_id, *unit)
        for member in record.members
        if member.facts.topics or (member.facts.topics is not None and record.protocol not in STICKY)
        for unit in member.assigned or ()
        if unit[0] not in member.facts.topics
    ]
    if outside:
        member_id, topic, partition = outside[0]
        yield Contradiction(
            FindingKind.ASSIGNMENT_OUTSIDE_SUBSCRIPTION,
            f"{member_id} was assigned {topic} {partition}, but does not subscribe to {topic}.",
            member_id,
            topic,
            partition,
            {"assigned": outside},
        )


def _not_revoked_first(record: GroupRecord) -> Iterator[Contradiction]:
    if record.protocol != COOPERATIVE_PROTOCOL:
        return
    claimants: dict[TopicPartition, set[str]] = {}
    for member in record.members:
        for unit in member.owned:
            claimants.setdefault(unit, set()).add(member.facts.member_id)
    moved = [
        (*unit, sorted(claimants[unit]), owners[0])
        for unit, owners in sorted(record.owners.items())
        if len(owners) == 1 and unit in claimants and owners[0] not in claimants[unit]
    ]
    if moved:
        topic, partition, owners, owner = moved[0]
        yield Contradiction(
            FindingKind.PARTITION_NOT_REVOKED_FIRST,
            f"{topic} {partition} was assigned to {owner} while {owners[0]} still owned it.",
            owner,
            topic,
            partition,
            {"moved": moved},
        )


def _unbalanced(record: GroupRecord) -> Iterator[Contradiction]:
    """Yields a contradiction if members with equal subscriptions have shares that differ by more than one partition.

    A partition on its way to a new owner counts too.
    """
    if len({member.facts.topics for member in record.members}) > 1 or not record.members[0].facts.topics:
        return
    sizes = {member.facts.member_id: len(member.assigned or ()) for member in record.members}
    on_its_way = (
        {unit for member in record.members for unit in member.owned} if record.protocol == COOPERATIVE_PROTOCOL else ()
    )
    largest = -(-len(record.owners.keys() | on_its_way) // len(sizes))
    smallest = 0 if on_its_way else len(record.owners) // len(sizes)
    strange = sorted(member_id for member_id, size in sizes.items() if not smallest <= size <= largest)
    if strange:
        yield Contradiction(
            FindingKind.ASSIGNMENT_DIFFERS,
            f"{strange[0]} was assigned {sizes[strange[0]]} partitions, where {record.protocol} gives each of"
            f" {len(sizes)} members with equal subscriptions {smallest} to {largest}.",
            strange[0],
            evidence={"sizes": sizes},
        )


def _differs(record: GroupRecord) -> Iterator[Contradiction]:
    """Computes the whole assignment again, and yields a contradiction if it differs."""
    numbers: dict[str, int] = {}
    for topic, _ in record.owners:
        numbers[topic] = numbers.get(topic, 0) + 1
    has_all_numbers = all(partition < numbers[topic] for topic, partition in record.owners)
    if not has_all_numbers or any(member.facts.rack_id for member in record.members):
        return
    actual = {member.facts.member_id: set(member.assigned or ()) for member in record.members}
    expected = _assign(record, numbers, with_instances=True)
    if actual in (expected, _assign(record, numbers, with_instances=False)):
        return
    strange = next(member_id for member_id, units in actual.items() if units != expected[member_id])
    topic, partition = min(actual[strange] ^ expected[strange])
    yield Contradiction(
        FindingKind.ASSIGNMENT_DIFFERS,
        f"Kafka's {record.protocol} would have assigned {topic} {partition}"
        f" {'not ' if (topic, partition) in actual[strange] else ''}to {strange}.",
        strange,
        topic,
        partition,
        {"expected": {member_id: sorted(units) for member_id, units in sorted(expected.items())}},
    )


def _assign(record: GroupRecord, numbers: dict[str, int], *, with_instances: bool) -> Owned:
    subscriptions = {
        member.facts.member_id: Subscription(
            topics=tuple(member.facts.topics or ()),
            group_instance_id=member.facts.group_instance_id if with_instances else None,
        )
        for member in record.members
    }
    topics = {topic: TopicPartitions(count) for topic, count in numbers.items()}
    assigned = ASSIGNORS[str(record.protocol)](topics, subscriptions)
    return {member_id: set(units) for member_id, units in assigned.items()}

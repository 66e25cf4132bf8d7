"""Finds what differs between two records of a group: the `changes` of a rebalance, or of a revision.

A static member whose instance is back under a new id was replaced; a dynamic one whose client id and host are back was
restarted; neither counts as a leave and a join. Subscriptions are compared by their topics, never by their bytes, since
owned partitions and user data change with every round.

`partitions_added` compares with the highest number of partitions of the topic that any earlier record showed assigned
or owned, if all of the record's ownership could be read. A subscribed topic is `topic_deleted` if none of its
partitions is assigned any more and no member says that it owns one of them: the topic was deleted, or the leader can't
see it any more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.schemas.instants import saturated_int32
from groupledger.schemas.kinds import changes as kinds
from groupledger.transforms.history.rules.events import CONSUMER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.schemas.kafka.topic_partition import TopicPartition
    from groupledger.transforms.history.rules.events import GroupMember, GroupRecord, MemberFacts
    from groupledger.transforms.history.rules.state import OpenGroup, Tenure

Change = dict[str, Any]

CHANGE_COLUMNS = (
    "kind",
    "member_id",
    "previous_member_id",
    "group_instance_id",
    "client_id",
    "topic",
    "partitions",
    "topics_added",
    "topics_removed",
    "protocol",
    "previous_protocol",
)


def change(kind: kinds.ChangeKind, **columns: Any) -> Change:
    return {**dict.fromkeys(CHANGE_COLUMNS), "kind": kind.name, **columns}


def about(kind: kinds.ChangeKind, facts: MemberFacts, **columns: Any) -> Change:
    return change(
        kind,
        member_id=facts.member_id,
        group_instance_id=facts.group_instance_id,
        client_id=facts.client_id,
        **columns,
    )


@dataclass(slots=True)
class Turnover:
    """Holds which members stayed, came and went, and which one replaced which."""

    stayed: list[tuple[Tenure, GroupMember]] = field(default_factory=list)
    replaced: list[tuple[Tenure, GroupMember]] = field(default_factory=list)
    restarted: list[tuple[Tenure, GroupMember]] = field(default_factory=list)
    joined: list[GroupMember] = field(default_factory=list)
    left: list[Tenure] = field(default_factory=list)

    @property
    def gone(self) -> list[Tenure]:
        """Returns the tenures that ended, for any reason but a static replacement."""
        return [*self.left, *(tenure for tenure, _ in self.restarted)]

    @property
    def came(self) -> list[GroupMember]:
        """Returns the members whose id is new, including those that replaced another member."""
        return [*self.joined, *(member for _, member in (*self.replaced, *self.restarted))]


def turnover(before: Mapping[str, Tenure], after: Iterable[GroupMember]) -> Turnover:
    found = Turnover()
    now = {member.facts.member_id: member for member in after}
    # The tenures that ended, by the client id and host by which a restarted process would be recognized.
    by_place: defaultdict[tuple[str, ...], list[Tenure]] = defaultdict(list)
    for member_id, tenure in before.items():
        if member_id in now:
            found.stayed.append((tenure, now[member_id]))
        else:
            by_place[_place(tenure.facts)].append(tenure)
    for member_id, member in now.items():
        if member_id in before:
            continue
        if not by_place[_place(member.facts)]:
            found.joined.append(member)
            continue
        pairs = found.restarted if member.facts.group_instance_id is None else found.replaced
        pairs.append((by_place[_place(member.facts)].pop(0), member))
    found.left = [tenure for tenures in by_place.values() for tenure in tenures]
    return found


def _place(facts: MemberFacts) -> tuple[str, ...]:
    if facts.group_instance_id is not None:
        return (facts.group_instance_id,)
    return facts.client_id, facts.client_host


def changes_between(group: OpenGroup, record: GroupRecord, members: Turnover) -> list[Change]:
    """Returns the changes from the group's open generation to the record."""
    before = group.generation
    if before is None:
        raise ValueError(f"the group has no generation before the record at offset {record.kafka_offset}")
    found = [about(kinds.MEMBER_JOINED, member.facts) for member in members.joined]
    found += [about(kinds.MEMBER_LEFT, tenure.facts) for tenure in members.left]
    for kind, pairs in ((kinds.MEMBER_REPLACED, members.replaced), (kinds.DYNAMIC_RESTART, members.restarted)):
        found += [about(kind, new.facts, previous_member_id=old.facts.member_id) for old, new in pairs]
    for old, new in (*members.stayed, *members.replaced):
        found += subscription_change(old.facts, new.facts)
    if record.protocol_type == CONSUMER:
        found += _partitions_added(group.universe, record)
        found += [change(kinds.TOPIC_DELETED, topic=topic) for topic in _vanished_topics(group.universe, record)]
    if record.members and before.protocol is not None and before.protocol != record.protocol:
        found.append(change(kinds.PROTOCOL_CHANGED, protocol=record.protocol, previous_protocol=before.protocol))
    if record.members and before.leader is not None and before.leader != record.leader:
        found.append(change(kinds.LEADER_CHANGED, member_id=record.leader, previous_member_id=before.leader))
    if group.revokers and any(tenure.facts.member_id in group.revokers for tenure, _ in members.stayed):
        found.append(change(kinds.COOPERATIVE_FOLLOW_UP))
    if before.member_count and not record.members:
        found.append(change(kinds.GROUP_EMPTIED))
    return found


def subscription_change(old: MemberFacts, new: MemberFacts) -> list[Change]:
    """Returns one change if the member subscribes to other topics, by name or by a regular expression."""
    if old.topics is None or new.topics is None:
        return []
    if (old.topics, old.subscribed_regex) == (new.topics, new.subscribed_regex):
        return []
    added, removed = sorted({*new.topics} - {*old.topics}), sorted({*old.topics} - {*new.topics})
    return [about(kinds.SUBSCRIPTION_CHANGED, new, topics_added=added, topics_removed=removed)]


def _partitions_added(universe: Mapping[str, int], record: GroupRecord) -> list[Change]:
    new: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in record.owners:
        if partition >= universe.get(topic, partition + 1):
            new[topic].append(partition)
    return [change(kinds.PARTITIONS_ADDED, topic=topic, partitions=sorted(new[topic])) for topic in sorted(new)]


def _vanished_topics(universe: Mapping[str, int], record: GroupRecord) -> list[str]:
    if not record.is_ownership_known or not record.members:
        return []
    there = {topic for topic, _ in _seen_units(record)}
    subscribed = {topic for member in record.members for topic in member.facts.topics or ()}
    return sorted(topic for topic in subscribed if topic in universe and topic not in there)


def _seen_units(record: GroupRecord) -> Iterable[TopicPartition]:
    return (unit for member in record.members for unit in (*(member.assigned or ()), *member.owned))


def grow_universe(universe: Mapping[str, int], record: GroupRecord) -> dict[str, int]:
    """Returns the number of partitions by topic after the record, for topics that members subscribe to or own.

    A topic is added only by a record whose ownership could all be read. Otherwise the partitions that could not be read
    would later be taken for new ones.
    """
    if record.protocol_type != CONSUMER or not record.members:
        return dict(universe)
    grown = dict(universe)
    for topic, partition in _seen_units(record):
        if record.is_ownership_known or topic in universe:
            grown[topic] = max(grown.get(topic, 0), saturated_int32(partition + 1))
    subscriptions = [member.facts.topics for member in record.members]
    vanished = _vanished_topics(universe, record)
    if None not in subscriptions:
        there = {topic for topics in subscriptions for topic in topics or ()} | {topic for topic, _ in record.owners}
        grown = {topic: count for topic, count in grown.items() if topic in there}
    return {topic: count for topic, count in grown.items() if topic not in vanished}

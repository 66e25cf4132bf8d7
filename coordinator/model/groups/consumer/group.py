"""Models a consumer group of KIP-848: its epochs, its members, the target of each, and the regular expressions by which
they subscribe.

The group changes only by applying records: `apply` takes those of types 3, 5 to 8 and 16, when they are appended and
when a log is loaded. No record says up to which version of the cluster's topics the group has noticed their changes
(`handlers/consumer/epochs.py`), so a group that was just loaded has noticed none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import HashOrder, TimelineHashMap, hash_map_order, uuid_order
from groupledger.coordinator.model.groups.consumer.member import ConsumerMember, MemberState
from groupledger.coordinator.model.groups.consumer.records import REGEX, TYPES, group_tombstones
from groupledger.coordinator.model.groups.consumer.regex import ResolvedRegex
from groupledger.coordinator.model.groups.modern.states import ASSIGNING, EMPTY, RECONCILING, STABLE
from groupledger.coordinator.model.groups.modern.static_members import GroupWithStaticMembers
from groupledger.coordinator.model.partitions import partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from groupledger.coordinator.model.partitions import Partitions
    from groupledger.schemas.codec.records import Record


class ConsumerGroup(GroupWithStaticMembers[ConsumerMember, "Partitions"]):
    __slots__ = (
        "_are_equal",
        "_holders",
        "_votes",
        "is_loaded",
        "metadata_hash",
        "noticed",
        "regexes",
        "resolved",
    )
    group_type = "consumer"
    record_types = TYPES

    def __init__(self, group_id: str, first_epoch: int = 0) -> None:
        super().__init__(group_id, first_epoch)
        self.metadata_hash = 0
        self.regexes: TimelineHashMap[str, int] = TimelineHashMap()  # by how many members each is asked for
        self.resolved: TimelineHashMap[str, ResolvedRegex] = TimelineHashMap()
        self.is_loaded = False  # and nothing was resolved since, so that versions are another broker's
        self.noticed: tuple[int, int] | None = None  # the version of the topics, and the epoch that came of it
        self._are_equal: bool | None = None  # None until somebody asks
        self._holders: dict[tuple[str, int], str] = {}
        self._votes: TimelineHashMap[str, int] = TimelineHashMap()

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        if self.epoch > self.target_epoch:
            return ASSIGNING
        reached = (
            each.state is MemberState.STABLE and each.epoch == self.target_epoch for each in self.members.values()
        )
        return STABLE if all(reached) else RECONCILING

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        return self.recorded_target(member_id, instance_id) or {}

    def is_held(self, topic_id: str, partition: int) -> bool:
        """Returns whether a member has a partition, or still has to give it up."""
        return (topic_id, partition) in self._holders

    def subscribed_topics(self) -> frozenset[str]:
        return self.topics_of_all(self.members.values(), self.resolved.get)

    @staticmethod
    def topics_of_all(
        members: Iterable[ConsumerMember], resolved: Callable[[str], ResolvedRegex | None]
    ) -> frozenset[str]:
        """Returns the topics to which `members` subscribe, by name or by a regular expression. `resolved` returns the
        resolution of an expression."""
        found: set[str] = set()
        for member in members:
            found |= member.topics
            matched = resolved(member.regex)
            found |= frozenset() if matched is None else matched.topics
        return frozenset(found)

    @property
    def are_equal(self) -> bool:
        """Returns whether a broker treats the subscriptions of all members as equal. It decides that anew with a
        member's record, but not when a regular expression is resolved or removed."""
        if self._are_equal is None:
            self._are_equal = are_equal(self.members.values(), self.resolved.values())
        return self._are_equal

    def topics_of(self, member: ConsumerMember) -> list[str]:
        """Returns the topics to which a member subscribes, in the order of the broker's sets. There are two sets, the
        topics that it names and those that its regular expression matches: first those of the larger set, then those
        that are only in the other."""
        resolved = self.resolved.get(member.regex)
        names, matched = _set_order(member.topics), _set_order(() if resolved is None else resolved.topics)
        larger, smaller = (names, matched) if len(names) > len(matched) else (matched, names)
        return [*larger, *(name for name in smaller if name not in larger)]

    def is_subscribed_to_topic(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str | None:
        """Returns the assignor that most members ask for, or None if no member asks for one. In a tie it is the first
        in the order of the broker's map of votes. If `before` and `after` are given, that member's vote is counted as
        after its change."""
        if before is None or after is None:
            return max(self._votes, key=self._votes.__getitem__, default=None)
        votes = Counter(dict(self._votes.items()))
        order = HashOrder.of_copy([*self._votes])
        if before.assignor is not None and before.assignor in votes:
            votes[before.assignor] -= 1
            if not votes[before.assignor]:
                order.remove(before.assignor)
        if after.assignor is not None:
            votes[after.assignor] += 1
            order.compute(after.assignor)
        return max((str(name) for name in order), key=votes.__getitem__, default=None)

    def add(self, member: ConsumerMember) -> None:
        """Adds a member that has no record yet. The order of the members depends on how often each is put into the map,
        so this has to happen when a broker does it."""
        self._replace(None, member)

    def tombstones(self) -> list[Record]:
        return group_tombstones(self.group_id)

    def _apply_epoch(self, value: Mapping[str, Any]) -> None:
        super()._apply_epoch(value)
        self.metadata_hash = value["metadata_hash"]

    def _apply_other(self, record: Record) -> None:
        if record.record_type == REGEX:
            self._apply_regex(record.key["regular_expression"], record.value)

    def _apply_regex(self, regex: str, value: Mapping[str, Any] | None) -> None:
        self._are_equal = self.are_equal
        self.resolved.pop(regex)
        if value is not None:
            self.resolved.put(regex, ResolvedRegex.from_record(value))
            self.is_loaded = False

    def _target_of(self, value: Mapping[str, Any]) -> Partitions:
        found = partitions_of(value["topic_partitions"])
        return {topic: found[topic] for topic in uuid_order(found)}

    def _new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id=member_id)

    def _remove(self, member: ConsumerMember) -> None:
        self._replace(member, member.with_assignment(None))
        _count(self._votes, member.assignor, -1)
        _count(self.regexes, member.regex, -1)
        super()._remove(member)

    def _replace(self, before: ConsumerMember | None, after: ConsumerMember) -> None:
        self._are_equal = None
        for held in () if before is None else (before.assigned, before.pending_revocation):
            for topic, numbers in held.items():
                for number in numbers:
                    if self._holders.get((topic, number)) == after.member_id:
                        del self._holders[topic, number]
        for held in (after.assigned, after.pending_revocation):
            for topic, numbers in held.items():
                for number in numbers:
                    self._holders[topic, number] = after.member_id
        _count(self._votes, None if before is None else before.assignor, -1)
        _count(self._votes, after.assignor, 1)
        if before is None or before.regex != after.regex:
            _count(self.regexes, None if before is None else before.regex, -1)
            _count(self.regexes, after.regex, 1)
        super()._replace(before, after)


def are_equal(members: Collection[ConsumerMember], resolved: Iterable[ResolvedRegex]) -> bool:
    """Returns whether a broker treats the subscriptions of the members as equal. Either all name the same topics, and
    the group's resolved regular expressions match no others; or all have the same regular expression and name no
    topics, and no topic matches two expressions of the group."""
    subscriptions = [(member.topics, member.regex) for member in members]
    if not subscriptions:
        return True
    topics, regex = subscriptions[0]
    if any(each != (topics, regex) for each in subscriptions):
        return False
    by_regex = Counter(topic for each in resolved for topic in each.topics)
    if regex:
        return not topics and all(count == 1 for count in by_regex.values())
    return by_regex.keys() <= topics


def _count(counts: TimelineHashMap[str, int], name: str | None, difference: int) -> None:
    if name:
        count = (counts.get(name) or 0) + difference
        if count:
            counts.put(name, count)
        else:
            counts.pop(name)


def _set_order(names: Collection[str]) -> list[str]:
    return hash_map_order(sorted(names), expected_size=len(names))

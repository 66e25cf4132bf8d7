"""Resolves subscriptions by regular expressions, as a broker does (KIP-848).

A member may name topics, give a regular expression, or both. An expression that no other member has is validated when
it is sent. It has no topics until the broker has matched all topics of the cluster, internal ones too, with all
expressions of the group, and has written a record of type 16 for each. If an expression then matches other topics than
before, or the hash of the group's topics changed, a new epoch is written with these records. So the first epoch of a
group that subscribes only by an expression has no topics.

The broker resolves all expressions again at the next request of any member if one is not resolved, if there are new
topics, or if `group.consumer.regex.refresh.interval.ms` has passed, but not within ten seconds of the last time.
Deleted topics stay in the record until then. The record of an expression is removed with the last member that has it.

A broker resolves in a thread of its own, and writes some milliseconds after its response. Here the next operation after
the request does that. Not modelled: topics that the client of the request may not describe. Source: records of a 4.2
broker (`lab.kafka.consumer_differential`).
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import HashOrder, hash_map_order
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.consumer.records import new_regex_record, new_regex_tombstone
from groupledger.coordinator.model.groups.consumer.regex import ResolvedRegex, check_regex, matching
from groupledger.coordinator.model.groups.modern.topics import metadata_hash
from groupledger.coordinator.model.handlers.consumer.epochs import bump_epoch, notice_topics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.operation import Operation


class RegexChange(Enum):
    NONE = auto()
    UNRESOLVED = auto()  # to an expression that nobody has resolved yet: the epoch waits for that
    RESOLVED = auto()  # to one whose topics are known, or to none


def change_regex(
    group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember, operation: Operation
) -> RegexChange:
    """Returns how the member's regular expression changed, and schedules the resolution of all expressions of the group
    if that is due. Raises RefusedError if the expression is invalid."""
    old, new = before.regex, member.regex
    change, is_first = RegexChange.NONE, False
    if old != new:
        if old and group.regexes.get(old) == 1:
            operation.records.append(new_regex_tombstone(group.group_id, old))
        if new and new not in group.regexes:
            check_regex(new)
            is_first = True
        is_known = not new or (not is_first and new in group.resolved)
        change = RegexChange.RESOLVED if is_known else RegexChange.UNRESOLVED
    if is_first or len(group.regexes):
        regexes = _subscribed(group, old, new)
        if regexes and _is_due(group, regexes, operation, is_first=is_first):
            operation.then = partial(_resolve, group.group_id, regexes)
    return change


def _subscribed(group: ConsumerGroup, old: str, new: str) -> list[str]:
    """Returns the expressions of the group when the member's own has changed, in the order of the broker's map."""
    order = HashOrder.of_copy([*group.regexes])
    if group.regexes.get(old) == 1:
        order.remove(old)
    if new:
        order.compute(new)
    return [str(regex) for regex in order]


def _is_due(group: ConsumerGroup, regexes: Sequence[str], operation: Operation, *, is_first: bool) -> bool:
    last = next(iter(group.resolved.values()), None)
    if last is None:
        return True
    age_ms = operation.now_ms - last.timestamp_ms
    if age_ms <= operation.config.group_consumer_regex_refresh_min_interval_ms:
        return False
    return (
        is_first
        or len(regexes) != len(group.resolved)
        or group.is_loaded  # a broker has newer metadata by then
        or last.version < operation.topics.version_of_creation
        or age_ms > operation.config.group_consumer_regex_refresh_interval_ms
    )


def _resolve(group_id: str, regexes: Sequence[str], _: Any, operation: Operation) -> None:
    """Writes for which topics these expressions stand now, if somebody still has them."""
    topics, now_ms, room = operation.topics, operation.now_ms, len(regexes)
    order = HashOrder(regexes, room=room)  # a broker keeps what it finds in one map, and then in another
    operation.log("regexes_resolved", group_id=group_id, topic_count=len(topics), regexes=[*order])
    group = operation.group(group_id, ConsumerGroup)
    if group is None:
        return
    found = {
        regex: ResolvedRegex(matching(regex, topics), topics.version, now_ms)
        for regex in map(str, HashOrder(order, room=room))
        if regex in group.regexes
    }
    operation.records += [new_regex_record(group_id, regex, each) for regex, each in found.items()]
    before = {regex: group.resolved[regex].topics if regex in group.resolved else frozenset() for regex in found}
    resolved = {**dict(group.resolved.items()), **found}
    hash_now = metadata_hash(group.topics_of_all(group.members.values(), resolved.get), topics)
    if hash_now != group.metadata_hash or any(before[regex] != each.topics for regex, each in found.items()):
        notice_topics(group, bump_epoch(group, hash_now, operation), operation)


def drop_regexes(group: ConsumerGroup, gone: Sequence[ConsumerMember], operation: Operation) -> None:
    """Writes the tombstones of those regular expressions that only the members in `gone` have."""
    counts = Counter(member.regex for member in gone if member.regex)
    operation.records += [
        new_regex_tombstone(group.group_id, regex)
        for regex in hash_map_order(counts)
        if group.regexes.get(regex) == counts[regex]
    ]

"""Decides when a consumer group begins a new epoch, and with which hash of its topics.

A group begins an epoch when a member's topics change, when a member leaves, when a regular expression matches other
topics, and when a topic of the group was created, changed or deleted. A request checks the last condition only if
topics of the cluster changed since the previous check. So a hash that is out of date for another reason (a regular
expression has changed, and is not resolved yet) stays until another change begins an epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from groupledger.coordinator.model.groups.consumer.records import new_epoch_record
from groupledger.coordinator.model.groups.modern.topics import metadata_hash

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.operation import Operation


class Epoch(NamedTuple):
    """The epoch of a group after a request. `is_looked_at` says that the request had to compute the topics of all
    members, including its own."""

    number: int
    is_looked_at: bool


def new_epoch(group: ConsumerGroup, member: ConsumerMember, operation: Operation, *, has_changed: bool) -> Epoch:
    """Returns the epoch of the group after a request. It is a new one if the member's topics changed (`has_changed`),
    if the group's topics changed in the cluster, or if the group is at epoch 0."""
    is_due = has_changed or not group.epoch
    if not is_due and not _has_to_look(group, operation):
        return Epoch(group.epoch, is_looked_at=False)
    topics = group.topics_of_all([*group.others(member), member], group.resolved.get)
    found = metadata_hash(topics, operation.topics)
    epoch = bump_epoch(group, found, operation) if is_due or found != group.metadata_hash else group.epoch
    notice_topics(group, epoch, operation)
    return Epoch(epoch, is_looked_at=True)


def _has_to_look(group: ConsumerGroup, operation: Operation) -> bool:
    """Whether a topic of the group changed since somebody looked, or the epoch that came of that was not written."""
    if group.noticed is None:
        return True
    version, epoch = group.noticed
    return group.epoch < epoch or operation.topics.has_changed(group.subscribed_topics, version)


def notice_topics(group: ConsumerGroup, epoch: int, operation: Operation) -> None:
    """Records that the group has noticed the cluster's topics of the present version, and the epoch that the group then
    had."""
    group.noticed = operation.topics.version, epoch


def bump_epoch(group: ConsumerGroup, topics_hash: int, operation: Operation) -> int:
    """Writes the next epoch of a group with this hash of its topics, and returns the epoch."""
    epoch = group.epoch + 1
    operation.records.append(new_epoch_record(group.group_id, epoch, topics_hash))
    operation.log("group_epoch_bumped", group_id=group.group_id, generation=epoch, metadata_hash=topics_hash)
    return epoch


def begin_epoch(group: ConsumerGroup, operation: Operation) -> None:
    """Begins an epoch without a cause, for tests. Does nothing if the group has no members."""
    if group.members:
        bump_epoch(group, metadata_hash(group.subscribed_topics(), operation.topics), operation)

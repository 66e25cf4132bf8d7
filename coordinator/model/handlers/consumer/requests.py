"""Handles the other APIs (offset commits and fetches, deletions, descriptions) for consumer groups of KIP-848.

A member commits and fetches with its own epoch, which a classic member knows as the generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.handlers.offset_records import NO_EXPIRY
from groupledger.coordinator.model.handlers.offsets import delete_unsubscribed, expiry_of, takeable, write_offsets
from groupledger.coordinator.model.messages import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    TxnOffsetCommitRequest,
)
from groupledger.coordinator.model.partitions import together, units_of
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.groups.modern.topics import Topic
    from groupledger.coordinator.model.operation import Operation
    from groupledger.coordinator.model.partitions import Partitions

COMMITS_SINCE: Final = 9  # the first version of OffsetCommit that names a member epoch


def commit_by_epoch(request: OffsetCommitRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, ConsumerGroup)
    error = _refusal_of_commit(group, request, operation)
    member = group.members.get(request.member_id)
    if member is not None and member.classic is None and request.api_version < COMMITS_SINCE:
        error = Error.UNSUPPORTED_VERSION
    write_offsets(request, error, expiry_of(request, operation), operation)


def commit_transactional_by_epoch(request: TxnOffsetCommitRequest, operation: Operation) -> None:
    group = operation.require_group(request.group_id, ConsumerGroup)
    names_nobody = request.generation_id < 0 and not request.member_id and request.group_instance_id is None
    operation.producer_id, operation.producer_epoch = request.producer_id, request.producer_epoch
    error = Error.NONE if names_nobody else in_transaction(_refusal_of_commit(group, request, operation))
    write_offsets(request, error, NO_EXPIRY, operation)


def in_transaction(error: Error) -> Error:
    """Returns the error for a transactional commit: ILLEGAL_GENERATION in place of STALE_MEMBER_EPOCH, because
    producers know generations only."""
    return Error.ILLEGAL_GENERATION if error is Error.STALE_MEMBER_EPOCH else error


def _refusal_of_commit(
    group: ConsumerGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, operation: Operation
) -> Error:
    if request.generation_id < 0 and not group.members:
        return Error.NONE
    error = refusal_of_epoch(group, request.member_id, request.generation_id)
    member = group.members.get(request.member_id)
    if member is None or not operation.config.is_4_4 or request.generation_id >= member.epoch:
        return error
    # An older epoch is enough for partitions that the member has had since then (KIP-1251).
    held = {*units_of(member.assigned), *units_of(member.pending_revocation)}
    for offset in takeable(request, operation):
        topic = operation.topics.get(offset.topic)
        unit = ("" if topic is None else topic.topic_id, offset.partition)
        if unit not in held or request.generation_id < member.epoch_of(*unit):
            return error
    return Error.NONE


def refusal_of_epoch(group: ConsumerGroup, member_id: str, epoch: int) -> Error:
    member = group.members.get(member_id)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if member.epoch == epoch:
        return Error.NONE
    return Error.STALE_MEMBER_EPOCH if member.classic is None else Error.ILLEGAL_GENERATION


def refusal_of_fetch(group: ConsumerGroup, request: OffsetFetchGroup) -> Error:
    """Returns the error with which a member may not fetch offsets, or NONE. A request without a member id is
    allowed."""
    if request.member_id is None and request.member_epoch < 0:
        return Error.NONE
    return refusal_of_epoch(group, request.member_id or "", request.member_epoch)


def delete_offsets_of_consumers(request: OffsetDeleteRequest, operation: Operation) -> None:
    delete_unsubscribed(request, operation.require_group(request.group_id, ConsumerGroup), operation)


def describe_consumer_group(
    group: ConsumerGroup | None, group_id: str, config: Config, topics: Mapping[str, Topic]
) -> DescribedConsumerGroup:
    """Returns the group's description for an administrator, without topics that were deleted. A group that is None is
    described as not found."""
    known = {topic.topic_id for topic in topics.values()}
    if group is None:
        return DescribedConsumerGroup(group_id=group_id, error=Error.GROUP_ID_NOT_FOUND)
    return DescribedConsumerGroup(
        group_id=group_id,
        error=Error.NONE,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.preferred_assignor() or config.group_consumer_assignors[0],
        members=tuple(
            DescribedConsumerMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=tuple(sorted(member.topics)),
                subscribed_topic_regex=member.regex,
                assignment=_of_topics(_assigned(member, config), known),
                target=_of_topics(group.target.get(member.member_id, {}), known),
                is_classic=member.classic is not None,
            )
            for member in group.members.values()
        ),
    )


def _assigned(member: ConsumerMember, config: Config) -> Partitions:
    """Returns a member's assigned partitions; since 4.4, together with those it still has to give up."""
    return together(member.assigned, member.pending_revocation) if config.is_4_4 else member.assigned


def _of_topics(partitions: Partitions, known: Collection[str]) -> Partitions:
    return {topic_id: numbers for topic_id, numbers in partitions.items() if topic_id in known}

"""Defines a group of any type. An id belongs to one group, so one map holds all groups of a partition, as in Kafka."""

from __future__ import annotations

from typing import TypeVar, Union

from groupledger.coordinator.model.groups.classic.group import Group
from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
from groupledger.coordinator.model.groups.share.group import ShareGroup
from groupledger.coordinator.model.groups.streams.group import StreamsGroup

AnyGroup = Union[Group, ConsumerGroup, ShareGroup, StreamsGroup]  # noqa: UP007  # an alias is read at run time
GroupT = TypeVar("GroupT", Group, ConsumerGroup, ShareGroup, StreamsGroup)


def of_type(group: AnyGroup | None, group_type: type[GroupT]) -> GroupT | None:
    return group if isinstance(group, group_type) else None

"""Determines the truth about share groups and streams groups from their coordinator's state.

`modern_recorder` compares a coordinator's state before and after each call. This module has the rules of each type
(`modern_recorder` has those of KIP-848 groups): which partitions a member has, why members left, and what began each
epoch. The coordinator logs nothing about share and streams groups, so only the request and the state show it. Due
timers fire before a request in the same call: a member that left without a request was fenced by a timer.

If a request changes several things, the first one counts as the cause, in the order in which a coordinator checks them:
the member itself, what can be assigned, the settings, the topics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from groupledger.coordinator.model.groups.share.records import STATES
from groupledger.coordinator.model.groups.streams.records import GroupWords
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupHeartbeatRequest
from groupledger.coordinator.model.messages import ShareGroupHeartbeatRequest
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import TaskRole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.share.group import ShareGroup
    from groupledger.coordinator.model.groups.share.member import ShareMember
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.groups.streams.member import StreamsMember
    from groupledger.coordinator.model.groups.streams.tasks import Task
    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.simulator.topics import Topics

SHARE_PREFIX, STREAMS_PREFIX = "share_group_", "streams_group_"
"""The beginnings of the record types of share groups and of streams groups."""


class Start(NamedTuple):
    """The trigger of an epoch and the ids of the members concerned. The trigger is None if an upgrade made the epoch of
    a classic group's generation."""

    trigger: str | None
    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """The effect of one call of a coordinator on one group: `before` is the snapshot before the call; `now` is the
    group after it, None if it no longer exists. `gone` are the members that left."""

    request: Request | None
    events: Sequence[LogEvent]
    before: Any
    now: Any
    gone: tuple[str, ...]


class GroupKind(Protocol):
    """The functions that determine the truth about the groups of one type."""

    prefix: str
    """The beginning of the record types of this type of group."""
    session_timeout_ms: int

    def is_about_members(self, record_type: str) -> bool:
        """Returns whether records of this type are about members and epochs."""

    def snapshot(self, group: Any, before: Any) -> Any:
        """Returns a snapshot of a group, with which its next state is compared. `before` is its last snapshot."""

    def rebalance_timeout_ms(self, member: Any) -> int | None:
        """Returns the time in which a member has to revoke partitions. Returns None if the coordinator does not wait
        for that."""

    def held(self, group: Any, member: Any) -> Iterator[TopicPartition]:
        """Yields the partitions that a member has or still has to give up."""

    def tasks(self, member: Any) -> Iterable[Task]:
        """Returns the tasks, of every role, that a member of a streams group has or still has to give up. They are
        empty for other types of groups."""

    def departures(self, call: Call) -> Mapping[str, str]:
        """Returns the cause of each departure, by the id of the member that left."""

    def starts(self, call: Call, count: int) -> list[Start]:
        """Returns the trigger and the members of each of the `count` epochs that a call began, in order."""


class _Unlogged(ABC):
    """Handles types of groups that the coordinator logs nothing about, by the request and the state."""

    def departures(self, call: Call) -> Mapping[str, str]:
        """Returns the cause of each departure, by member id, in the order in which the members left. No member is
        fenced for partitions that it did not give up: with Kafka's clients, its poll is overdue before its rebalance
        timeout is over, so it leaves by itself."""
        leaver = _asker(call)
        found = {member_id: triggers.SESSION_EXPIRED.name for member_id in call.gone if member_id != leaver}
        return found | ({leaver: triggers.LEFT.name} if leaver in call.gone else {})

    def starts(self, call: Call, count: int) -> list[Start]:
        found = [Start(cause, (member_id,)) for member_id, cause in self.departures(call).items()]
        return [*found, *(self._start_by_heartbeat(call) for _ in range(count - len(found)))]

    @abstractmethod
    def _start_by_heartbeat(self, call: Call) -> Start:
        """Returns the cause of the epoch that a heartbeat began."""


class _ShareGroup(NamedTuple):
    """`ready` are the partitions that can be given out, `ready_at_epoch` those that could as the epoch began."""

    epoch: int = 0
    subscriptions: Mapping[str, frozenset[str]] = MappingProxyType({})
    ready: frozenset[TopicPartition] = frozenset()
    ready_at_epoch: frozenset[TopicPartition] = frozenset()
    metadata_hash: int = 0


class ShareKind(_Unlogged):
    prefix = SHARE_PREFIX

    def __init__(self, config: Config, topics: Topics) -> None:
        self.session_timeout_ms = config.group_share_session_timeout_ms
        self._topics = topics

    def is_about_members(self, record_type: str) -> bool:
        return record_type != STATES

    def snapshot(self, group: ShareGroup, before: _ShareGroup | None) -> _ShareGroup:
        before = before or _ShareGroup()
        states = {} if group.states is None else group.states.initialized
        return _ShareGroup(
            group.epoch,
            {member.member_id: member.topics for member in group.members.values()},
            frozenset(TopicPartition(each.name, number) for each in states.values() for number in each.partitions),
            # A request makes partitions ready when its epoch has begun.
            before.ready if group.epoch != before.epoch else before.ready_at_epoch,
            group.metadata_hash,
        )

    def rebalance_timeout_ms(self, _: ShareMember) -> int | None:
        return None

    def held(self, _: ShareGroup, member: ShareMember) -> Iterator[TopicPartition]:
        for topic_id, numbers in member.assigned.items():
            yield from (TopicPartition(self._topics.name_of(topic_id), number) for number in numbers)

    def tasks(self, _: ShareMember) -> Iterable[Task]:
        return ()

    def _start_by_heartbeat(self, call: Call) -> Start:
        before, now, asker = call.before or _ShareGroup(), self.snapshot(call.now, call.before), _asker(call)
        if asker not in before.subscriptions:
            return Start(triggers.JOINED.name, (asker,))
        if now.subscriptions[asker] != before.subscriptions[asker]:
            return Start(triggers.METADATA_CHANGED.name, (asker,))
        if not call.gone and not before.ready <= before.ready_at_epoch:
            return Start(triggers.PARTITIONS_INITIALIZED.name, ())
        if now.metadata_hash != before.metadata_hash:
            return Start(triggers.TOPICS_CHANGED.name, ())
        return Start(triggers.PARTITIONS_FREED.name, ())


class _StreamsGroup(NamedTuple):
    members: frozenset[str] = frozenset()
    words: GroupWords = GroupWords()


class StreamsKind(_Unlogged):
    prefix = STREAMS_PREFIX

    def __init__(self, config: Config, topics: Topics) -> None:
        self.session_timeout_ms = config.group_streams_session_timeout_ms
        self._topics = topics

    def is_about_members(self, _: str) -> bool:
        return True

    def snapshot(self, group: StreamsGroup, _: _StreamsGroup | None) -> _StreamsGroup:
        return _StreamsGroup(frozenset(member.member_id for member in group.members.values()), group.words)

    def rebalance_timeout_ms(self, member: StreamsMember) -> int | None:
        return member.rebalance_timeout_ms

    def held(self, group: StreamsGroup, member: StreamsMember) -> Iterator[TopicPartition]:
        """Yields the partitions that the member's active tasks read: from each input topic, the partition with the
        task's number, if there is one."""
        subtopologies = () if group.topology is None else group.topology.subtopologies
        topics = {each.subtopology_id: each.input_topics() for each in subtopologies}
        for task in self.tasks(member):
            for topic in topics[task.subtopology_id] if task.role == TaskRole.ACTIVE else ():
                if task.partition < len(self._topics.by_name[topic].partitions):
                    yield TopicPartition(topic, task.partition)

    def tasks(self, member: StreamsMember) -> Iterable[Task]:
        return (*member.assigned, *member.pending_revocation)

    def _start_by_heartbeat(self, call: Call) -> Start:
        before, now, asker = call.before or _StreamsGroup(), self.snapshot(call.now, call.before), _asker(call)
        if asker not in before.members:
            return Start(triggers.JOINED.name, (asker,))
        if now.words.validated_topology_epoch != before.words.validated_topology_epoch:
            return Start(triggers.TOPOLOGY_CHANGED.name, ())
        if now.words.assignment_configs != before.words.assignment_configs:
            return Start(triggers.ASSIGNMENT_CONFIGURED.name, ())
        if now.words.metadata_hash != before.words.metadata_hash:
            return Start(triggers.TOPICS_CHANGED.name, ())
        return Start(triggers.METADATA_CHANGED.name, (asker,))


def _asker(call: Call) -> str:
    """Returns the member whose heartbeat the call is; empty if it is something else."""
    request = call.request
    return request.member_id if isinstance(request, (ShareGroupHeartbeatRequest, StreamsGroupHeartbeatRequest)) else ""

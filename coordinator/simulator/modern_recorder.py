"""Records the truth about KIP-848 groups, share groups and streams groups, from their coordinator's state before and
after each call. The differences between these types are in `modern_kinds`.

The coordinator's records are not read here, except for their offsets in the log: who is a member, at which epoch the
group is, and who holds which partition come from the coordinator's own state. The cause of an epoch is in the
coordinator's log lines of the operation, or else in its request.

A member holds a partition until it has given it up. A static member that is away for a while holds nothing. A group
that is converted to a classic one continues with the members that remain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.groups.modern.epochs import AWAY
from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest
from groupledger.coordinator.simulator.modern_kinds import SHARE_PREFIX, STREAMS_PREFIX, Call, Start
from groupledger.coordinator.simulator.truth import Epoch, Holding, TaskHolding, TrueTenure
from groupledger.schemas.kafka.rebalance_reasons import SESSION_EXPIRED_FENCE
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import LeaveCause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.groups.consumer.member import ConsumerMember
    from groupledger.coordinator.model.groups.streams.tasks import Task
    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.model.operation import Batch, Result
    from groupledger.coordinator.simulator.modern_kinds import GroupKind
    from groupledger.coordinator.simulator.topics import Topics
    from groupledger.coordinator.simulator.truth import Truth

PREFIX = "consumer_group_"
PREFIXES = (PREFIX, SHARE_PREFIX, STREAMS_PREFIX)
_JOINED = ("consumer_member_joined", "consumer_static_member_joined")
_LEFT = ("consumer_member_left", "consumer_static_member_left")
_REPLACED = "consumer_static_member_replaced"
_REGEXES, _EPOCH = "regexes_resolved", "group_epoch_bumped"
_FENCED, _NOT_REVOKING = "consumer_member_fenced", "consumer_member_not_revoking"
_UPGRADED = Start(None, ())
_RESOLVED = Start(triggers.METADATA_CHANGED.name, ())  # by the broker, for nobody alone


@dataclass(slots=True)
class _Seen:
    """A group as its coordinator knew it after the last call; `snapshot` is the part of its state that its kind
    compares later."""

    incarnation: int
    snapshot: Any = None
    epoch: Epoch | None = None
    tenures: dict[str, TrueTenure] = field(default_factory=dict)
    holdings: dict[tuple[TopicPartition, str], Holding] = field(default_factory=dict)
    tasks: dict[tuple[Task, str], TaskHolding] = field(default_factory=dict)


class ModernRecorder:
    """Records the truth about groups of the `kinds`. `group_of` returns such a group as its coordinator knows it, and
    `classic_of` a classic group. `begin` returns the number of the incarnation to which a group that has just appeared
    belongs."""

    def __init__(
        self,
        truth: Truth,
        group_of: Callable[[str], Any],
        classic_of: Callable[[str], Group | None],
        begin: Callable[[str], int],
        planted: Mapping[str, str],
        kinds: Iterable[GroupKind],
    ) -> None:
        self._truth = truth
        self._group_of, self._classic_of = group_of, classic_of
        self._incarnation_begun = begin
        self._planted = planted
        self._kinds = (*kinds,)
        self._seen: dict[str, _Seen] = {}
        self._stayed: dict[str, dict[str, TrueTenure]] = {}

    def has(self, group_id: str) -> bool:
        """Returns whether the group is now of one of the kinds that are recorded here."""
        return group_id in self._seen

    def take_stayed(self, group_id: str) -> dict[str, TrueTenure] | None:
        """Returns the tenures of the members with which a group has just become a classic group, once. Returns None if
        it has not become one."""
        return self._stayed.pop(group_id, None)

    def observe(self, result: Result, request: Request | None) -> None:
        """Records what one call of a coordinator changed. `request` is the request that it handled, or None if it
        handled none, as when a timer fires."""
        changed: dict[str, tuple[GroupKind, Batch]] = {}
        for batch in result.batches:
            for record in batch.records:
                if record.record_type.startswith(PREFIXES):
                    kind = next(each for each in self._kinds if record.record_type.startswith(each.prefix))
                    if kind.is_about_members(record.record_type) or record.key["group_id"] not in changed:
                        changed[record.key["group_id"]] = kind, batch
        for group_id, (kind, batch) in changed.items():
            events = [event for event in result.events if event.fields.get("group_id") == group_id]
            self._compare(kind, group_id, batch, events, request)

    def _compare(
        self, kind: GroupKind, group_id: str, batch: Batch, events: list[LogEvent], request: Request | None
    ) -> None:
        now, seen = self._group_of(group_id), self._seen.get(group_id)
        if seen is None:
            seen = self._seen[group_id] = _Seen(self._incarnation_begun(group_id))
        members = {} if now is None else {member.member_id: member for member in now.members.values()}
        classic = self._classic_of(group_id) if now is None else None
        if classic is not None:
            stayed = [name for name in seen.tenures if name in classic.members]
            self._stayed[group_id] = {name: seen.tenures.pop(name) for name in stayed}
        call = Call(request, events, seen.snapshot, now, tuple(each for each in seen.tenures if each not in members))
        self._settle_members(group_id, seen, members, batch, kind, call)
        self._settle_holdings(group_id, seen, members, batch, kind, now)
        if now is not None:
            self._settle_epochs(kind, group_id, seen, batch, call)
            seen.snapshot = kind.snapshot(now, seen.snapshot)
            return
        if seen.epoch is not None:
            seen.epoch.ended_at_ms = batch.timestamp_ms
        del self._seen[group_id]

    def _settle_epochs(self, kind: GroupKind, group_id: str, seen: _Seen, batch: Batch, call: Call) -> None:
        epoch, begun = call.now.epoch, sum(event.kind == _EPOCH for event in call.events)
        last = epoch - max(begun, 1) if seen.epoch is None else seen.epoch.epoch
        starts = kind.starts(call, epoch - last) if epoch > last else []
        for number, start in enumerate(starts, last + 1):
            self._begin(group_id, seen, number, start, batch)

    def _begin(self, group_id: str, seen: _Seen, number: int, start: Start, batch: Batch) -> None:
        if seen.epoch is not None:
            seen.epoch.ended_at_ms = batch.timestamp_ms
        seen.epoch = Epoch(
            group_id=group_id,
            incarnation=seen.incarnation,
            epoch=number,
            kafka_partition=batch.partition,
            trigger=start.trigger,
            member_ids=start.member_ids,
            planted=self._planted.get(group_id),
            started_at_ms=batch.timestamp_ms,
        )
        self._truth.epochs.append(seen.epoch)

    def _settle_members(
        self, group_id: str, seen: _Seen, members: Mapping[str, Any], batch: Batch, kind: GroupKind, call: Call
    ) -> None:
        causes = kind.departures(call)
        for member_id in call.gone:
            tenure = seen.tenures.pop(member_id)
            tenure.left_at_ms, tenure.leave_cause = batch.timestamp_ms, causes.get(member_id)
        for member_id, member in members.items():
            if member_id not in seen.tenures:
                tenure = seen.tenures[member_id] = TrueTenure(
                    group_id=group_id,
                    incarnation=seen.incarnation,
                    member_id=member_id,
                    group_instance_id=getattr(member, "instance_id", None),
                    client_id=member.client_id,
                    client_host=member.client_host,
                    session_timeout_ms=kind.session_timeout_ms,
                    rebalance_timeout_ms=kind.rebalance_timeout_ms(member),
                    joined_at_ms=batch.timestamp_ms,
                )
                self._truth.members.append(tenure)

    def _settle_holdings(
        self, group_id: str, seen: _Seen, members: Mapping[str, Any], batch: Batch, kind: GroupKind, group: Any
    ) -> None:
        end = batch.base_offset + len(batch.records)
        held = {(place, each.member_id): each for each in members.values() for place in kind.held(group, each)}
        done = {(task, each.member_id): each for each in members.values() for task in kind.tasks(each)}
        ended: list[Holding | TaskHolding] = [seen.holdings.pop(key) for key in [*seen.holdings] if key not in held]
        ended += [seen.tasks.pop(task_key) for task_key in [*seen.tasks] if task_key not in done]
        for each in ended:
            each.to_kafka_offset, each.valid_to_ms = end, batch.timestamp_ms
        start: dict[str, Any] = {
            "group_id": group_id,
            "incarnation": seen.incarnation,
            "kafka_partition": batch.partition,
            "from_kafka_offset": end,
            "valid_from_ms": batch.timestamp_ms,
        }
        for key in sorted(held.keys() - seen.holdings.keys()):
            (topic, number), member_id = key
            owner = {"member_id": member_id, "client_id": held[key].client_id}
            seen.holdings[key] = Holding(topic=topic, partition=number, **owner, **start)
            self._truth.holdings.append(seen.holdings[key])
        for task_key in sorted(done.keys() - seen.tasks.keys()):
            (role, name, number), member_id = task_key
            owner = {"member_id": member_id, "client_id": done[task_key].client_id}
            seen.tasks[task_key] = TaskHolding(role=role, subtopology=name, partition=number, **owner, **start)
            self._truth.tasks.append(seen.tasks[task_key])


class ConsumerKind:
    """Determines the truth about KIP-848 groups (see `modern_kinds`)."""

    prefix = PREFIX

    def __init__(self, config: Config, topics: Topics) -> None:
        self.session_timeout_ms = config.group_consumer_session_timeout_ms
        self._topics = topics

    def is_about_members(self, _: str) -> bool:
        return True

    def snapshot(self, _: ConsumerGroup, __: None) -> None:
        """Returns nothing, because the coordinator's log lines give the cause of an epoch."""

    def rebalance_timeout_ms(self, member: ConsumerMember) -> int | None:
        return member.rebalance_timeout_ms

    def held(self, _: ConsumerGroup, member: ConsumerMember) -> Iterator[TopicPartition]:
        for partitions in () if member.epoch == AWAY else (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                yield from (TopicPartition(self._topics.name_of(topic_id), number) for number in numbers)

    def tasks(self, _: ConsumerMember) -> Iterable[Task]:
        return ()

    def departures(self, call: Call) -> Mapping[str, str]:
        return dict(_departures(call.events))

    def starts(self, call: Call, count: int) -> list[Start]:
        if not any(event.kind == _EPOCH for event in call.events):
            return [_UPGRADED] * count
        logged = _starts(call.events)
        found = [next(logged, _unlogged_cause(call.request)) for _ in range(count)]
        return [*found[:-1], _RESOLVED] if _ends_in_resolution(call.events) else found


def _departures(events: Sequence[LogEvent]) -> Iterator[tuple[str, str]]:
    """Yields the members that went, with the cause."""
    for event in events:
        fields = event.fields
        if event.kind in _LEFT:
            yield fields["member_id"], triggers.LEFT.name
        elif event.kind == _REPLACED:
            yield fields["previous_member_id"], LeaveCause.REPLACED
        elif event.kind == _FENCED and fields["reason"] == SESSION_EXPIRED_FENCE:
            yield fields["member_id"], triggers.SESSION_EXPIRED.name
        elif event.kind in (_FENCED, _NOT_REVOKING):
            yield fields["member_id"], triggers.REBALANCE_TIMEOUT.name


def _starts(events: Sequence[LogEvent]) -> Iterator[Start]:
    """Yields the cause of each epoch, in order. A static member that replaces itself begins none."""
    for event in events:
        if event.kind in _JOINED:
            yield Start(triggers.JOINED.name, (event.fields["member_id"],))
    for member_id, cause in _departures(events):
        if cause != LeaveCause.REPLACED:
            yield Start(cause, (member_id,))


def _ends_in_resolution(events: Sequence[LogEvent]) -> bool:
    """Whether the last epoch of these events began because regular expressions stand for other topics now."""
    kinds = [event.kind for event in events]
    return _REGEXES in kinds and _EPOCH in kinds[kinds.index(_REGEXES) :]


def _unlogged_cause(request: Request | None) -> Start:
    """Returns the cause of an epoch that is not logged: another subscription, or else other topics."""
    if isinstance(request, ConsumerGroupHeartbeatRequest) and request.subscribed_topic_names is not None:
        return Start(triggers.METADATA_CHANGED.name, (request.member_id,))
    return Start(triggers.TOPICS_CHANGED.name, ())

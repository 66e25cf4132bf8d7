"""Writes the truth about KIP-848 groups while it happens, from what their coordinator knows before and after each call.

The coordinator's records are not read here, except for their offsets in the log: who is a member, at which epoch the
group is, and who holds what is the coordinator's own state. What began an epoch is what the coordinator logs of the
operation, or else what its request asked for. A member holds a partition until it has given it up; one that is away for
a while (`group.instance.id`) holds nothing. A group that becomes a classic one goes on with the members that stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from groupledger.coordinator.model.consumer.member import AWAY
from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest
from groupledger.coordinator.simulator.truth import Epoch, Holding, Tenure
from groupledger.schemas.kafka.rebalance_reasons import SESSION_EXPIRED_FENCE
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.schemas.kinds import triggers
from groupledger.schemas.words import LeaveCause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from groupledger.coordinator.model.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.consumer.member import ConsumerMember
    from groupledger.coordinator.model.group import Group
    from groupledger.coordinator.model.log_lines import LogEvent
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.model.operation import Batch, Result
    from groupledger.coordinator.simulator.truth import Truth

PREFIX = "consumer_group_"
_JOINED = ("consumer_member_joined", "consumer_static_member_joined")
_LEFT = ("consumer_member_left", "consumer_static_member_left")
_REPLACED = "consumer_static_member_replaced"
_REGEXES, _EPOCH = "regexes_resolved", "group_epoch_bumped"
_FENCED, _NOT_REVOKING = "consumer_member_fenced", "consumer_member_not_revoking"


class _Start(NamedTuple):
    """What began an epoch, and the members to whom it was done."""

    trigger: str | None
    member_ids: tuple[str, ...]


_UPGRADED = _Start(None, ())
_RESOLVED = _Start(triggers.METADATA_CHANGED.name, ())  # by the broker, for nobody alone


@dataclass(slots=True)
class _Seen:
    """A group as its coordinator knew it after the last call."""

    incarnation: int
    epoch: Epoch | None = None
    tenures: dict[str, Tenure] = field(default_factory=dict)
    holdings: dict[tuple[TopicPartition, str], Holding] = field(default_factory=dict)


class ModernRecorder:
    """`group_of` and `classic_of` return a group as its coordinator knows it, `topic_of` the name of a topic by its id,
    and `begin` the incarnation that a group of KIP-848 begins or goes on with."""

    def __init__(
        self,
        truth: Truth,
        group_of: Callable[[str], ConsumerGroup | None],
        classic_of: Callable[[str], Group | None],
        begin: Callable[[str], int],
        topic_of: Callable[[str], str],
        planted: Mapping[str, str],
        session_timeout_ms: int,
    ) -> None:
        self._truth = truth
        self._group_of, self._classic_of = group_of, classic_of
        self._incarnation_begun = begin
        self._topic_of = topic_of
        self._planted = planted
        self._session_timeout_ms = session_timeout_ms
        self._seen: dict[str, _Seen] = {}
        self._stayed: dict[str, dict[str, Tenure]] = {}

    def has(self, group_id: str) -> bool:
        """Returns whether the group is one of KIP-848 now."""
        return group_id in self._seen

    def take_stayed(self, group_id: str) -> dict[str, Tenure] | None:
        """Returns the members with which a group has just become a classic one; None if it has not."""
        return self._stayed.pop(group_id, None)

    def observe(self, result: Result, request: Request | None) -> None:
        """Takes one call of a coordinator: its result, and the request, if it was one."""
        changed: dict[str, Batch] = {}
        for batch in result.batches:
            for record in batch.records:
                if record.record_type.startswith(PREFIX):
                    changed[record.key["group_id"]] = batch
        for group_id, batch in changed.items():
            events = [event for event in result.events if event.fields.get("group_id") == group_id]
            self._compare(group_id, batch, events, request)

    def _compare(self, group_id: str, batch: Batch, events: list[LogEvent], request: Request | None) -> None:
        now, seen = self._group_of(group_id), self._seen.get(group_id)
        if seen is None:
            seen = self._seen[group_id] = _Seen(self._incarnation_begun(group_id))
        members = {} if now is None else {member.member_id: member for member in now.members.values()}
        classic = self._classic_of(group_id) if now is None else None
        if classic is not None:
            stayed = [name for name in seen.tenures if name in classic.members]
            self._stayed[group_id] = {name: seen.tenures.pop(name) for name in stayed}
        self._settle_members(group_id, seen, members, batch, events)
        self._settle_holdings(group_id, seen, members, batch)
        if now is not None:
            self._settle_epochs(group_id, seen, now.epoch, batch, events, request)
            return
        if seen.epoch is not None:
            seen.epoch.ended_at_ms = batch.timestamp_ms
        del self._seen[group_id]

    def _settle_epochs(
        self, group_id: str, seen: _Seen, epoch: int, batch: Batch, events: list[LogEvent], request: Request | None
    ) -> None:
        begun = sum(event.kind == _EPOCH for event in events)
        last = epoch - max(begun, 1) if seen.epoch is None else seen.epoch.epoch
        starts = _starts(events) if begun else iter(())
        asked = _UPGRADED if seen.epoch is None and not begun else _asked(request)
        for number in range(last + 1, epoch + 1):
            is_of_regex = number == epoch and _ends_in_resolution(events)
            self._begin(group_id, seen, number, _RESOLVED if is_of_regex else next(starts, asked), batch)

    def _begin(self, group_id: str, seen: _Seen, number: int, start: _Start, batch: Batch) -> None:
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
        self, group_id: str, seen: _Seen, members: Mapping[str, ConsumerMember], batch: Batch, events: list[LogEvent]
    ) -> None:
        causes = dict(_departures(events))
        for member_id in [each for each in seen.tenures if each not in members]:
            tenure = seen.tenures.pop(member_id)
            tenure.left_at_ms, tenure.leave_cause = batch.timestamp_ms, causes.get(member_id)
        for member_id, member in members.items():
            if member_id not in seen.tenures:
                tenure = seen.tenures[member_id] = Tenure(
                    group_id=group_id,
                    incarnation=seen.incarnation,
                    member_id=member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    session_timeout_ms=self._session_timeout_ms,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    joined_at_ms=batch.timestamp_ms,
                )
                self._truth.members.append(tenure)

    def _settle_holdings(self, group_id: str, seen: _Seen, members: Mapping[str, ConsumerMember], batch: Batch) -> None:
        end = batch.base_offset + len(batch.records)
        held = {(place, each.member_id): each for each in members.values() for place in self._held(each)}
        for key in [key for key in seen.holdings if key not in held]:
            holding = seen.holdings.pop(key)
            holding.to_kafka_offset, holding.valid_to_ms = end, batch.timestamp_ms
        for key in sorted(held.keys() - seen.holdings.keys()):
            place, member_id = key
            holding = seen.holdings[key] = Holding(
                group_id=group_id,
                incarnation=seen.incarnation,
                topic=place.topic,
                partition=place.partition,
                member_id=member_id,
                client_id=held[key].client_id,
                kafka_partition=batch.partition,
                from_kafka_offset=end,
                valid_from_ms=batch.timestamp_ms,
            )
            self._truth.holdings.append(holding)

    def _held(self, member: ConsumerMember) -> Iterator[TopicPartition]:
        for partitions in () if member.epoch == AWAY else (member.assigned, member.pending_revocation):
            for topic_id, numbers in partitions.items():
                yield from (TopicPartition(self._topic_of(topic_id), number) for number in numbers)


def _departures(events: list[LogEvent]) -> Iterator[tuple[str, str]]:
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


def _starts(events: list[LogEvent]) -> Iterator[_Start]:
    """Yields what began an epoch each, in order: a static member that takes its own place begins none."""
    for event in events:
        if event.kind in _JOINED:
            yield _Start(triggers.JOINED.name, (event.fields["member_id"],))
    for member_id, cause in _departures(events):
        if cause != LeaveCause.REPLACED:
            yield _Start(cause, (member_id,))


def _ends_in_resolution(events: list[LogEvent]) -> bool:
    """Whether the last epoch of these events began because regular expressions stand for other topics now."""
    kinds = [event.kind for event in events]
    return _REGEXES in kinds and _EPOCH in kinds[kinds.index(_REGEXES) :]


def _asked(request: Request | None) -> _Start:
    """Returns what began an epoch of which nothing is logged: another subscription, or else other topics."""
    if isinstance(request, ConsumerGroupHeartbeatRequest) and request.subscribed_topic_names is not None:
        return _Start(triggers.METADATA_CHANGED.name, (request.member_id,))
    return _Start(triggers.TOPICS_CHANGED.name, ())

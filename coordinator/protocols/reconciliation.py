"""Models the consumer rebalance protocol (KIP-848): the broker assigns, and each member moves to its target on its own.

No member waits for all others. A change starts a new group epoch with a target for every member. By heartbeats a member
first learns which partitions to give up, acknowledges that, and then gets those that others have given up. A member
whose partitions do not change notices nothing. A static member that leaves in good order keeps its assignment for a
session, and its replacement takes the assignment over without a new epoch. All members subscribe to the same topics
here. Source: GroupMetadataManager, CurrentAssignmentBuilder, UniformHomogeneousAssignmentBuilder of 4.2; KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.protocols.member import Group, Member, Offsets
from groupledger.coordinator.protocols.world import Reply
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.protocols.consumption import Consumption
    from groupledger.coordinator.protocols.world import Steps, World
    from groupledger.schemas.kafka.topic_partition import TopicPartition

SESSION_MS: Final = 45_000
HEARTBEAT_MS: Final = 5_000
REBALANCE_TIMEOUT_MS: Final = 300_000
AUTO_COMMIT_MS: Final = 5_000
LEAVING: Final = -1
LEAVING_STATIC: Final = -2
RESTARTS_AFTER_MS: Final = 1_000  # who finds its instance taken ends, and something starts it again


@dataclass(slots=True)
class ReconcilingMember:
    """A member in the broker's view: its epoch, the partitions assigned to it, and in `pending` those that it still has
    to give up."""

    member_id: str
    instance_id: str | None = None
    is_away: bool = False
    epoch: int = 0
    assigned: dict[TopicPartition, None] = field(default_factory=dict)
    pending: dict[TopicPartition, None] = field(default_factory=dict)
    deadline_ms: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The response to a heartbeat."""

    error: Error
    epoch: int = -1
    assignment: tuple[TopicPartition, ...] = ()


class ConsumerProtocolCoordinator:
    """The coordinator of one group: its epoch, every member's target, and who holds each partition. A member holds a
    partition until it reports that it has given it up."""

    def __init__(self, world: World, group: ConsumerProtocolGroup) -> None:
        self.world = world
        self.group = group
        self.epoch = 0
        self.members: dict[str, ReconcilingMember] = {}
        self.target: dict[str, list[TopicPartition]] = {}
        self._holders: dict[TopicPartition, str] = {}

    def heartbeat(
        self, who: tuple[str, str | None], epoch: int, said: frozenset[TopicPartition] | None, reply: Reply
    ) -> None:
        member_id, instance_id = who
        member = self.members.get(member_id)
        former = self._of_instance(instance_id)
        if epoch == 0 and member is None and former is not None:
            if not former.is_away:
                reply.give(HeartbeatAnswer(Error.UNRELEASED_INSTANCE_ID))
                return
            member = self._in_place_of(former, member_id)
        elif epoch == 0 and member is None:
            member = self.members[member_id] = ReconcilingMember(member_id, instance_id)
            self.new_epoch(f"{member_id} joined")
        elif member is None:
            reply.give(HeartbeatAnswer(Error.UNKNOWN_MEMBER_ID))
            return
        elif epoch == LEAVING:
            self._remove(member, f"{member_id} left")
            reply.give(HeartbeatAnswer(Error.NONE, LEAVING))
            return
        elif epoch == LEAVING_STATIC:
            member.is_away = True
            self._satisfy(member)
            reply.give(HeartbeatAnswer(Error.NONE, LEAVING_STATIC))
            return
        elif epoch not in (0, member.epoch):
            reply.give(HeartbeatAnswer(Error.FENCED_MEMBER_EPOCH))
            return
        self._satisfy(member)
        self._reconcile(member, said)
        reply.give(HeartbeatAnswer(Error.NONE, member.epoch, tuple(member.assigned)))

    def _of_instance(self, instance_id: str | None) -> ReconcilingMember | None:
        if instance_id is None:
            return None
        return next((each for each in self.members.values() if each.instance_id == instance_id), None)

    def _in_place_of(self, former: ReconcilingMember, member_id: str) -> ReconcilingMember:
        """Returns the member that replaces a static one: it has the former one's partitions under a new id."""
        self._release(former.pending)
        member = ReconcilingMember(member_id, former.instance_id, epoch=former.epoch, assigned=former.assigned)
        self.members = {
            (member_id if each is former else each.member_id): (member if each is former else each)
            for each in self.members.values()
        }
        self.target[member_id] = self.target.pop(former.member_id)
        self._holders.update(dict.fromkeys(member.assigned, member_id))
        self.world.has_rebalanced(former.member_id)
        return member

    def new_epoch(self, why: str) -> None:
        """Raises the group epoch and computes a new target for every member. `why` goes to the trace."""
        self.epoch += 1
        self.world.log("coordinator", f"epoch {self.epoch}: {why}")
        self.target = uniform(self.group.partitions(), self.target, list(self.members))
        self.world.assigns(
            {
                partition: member.instance_id or member.member_id
                for member in self.members.values()
                for partition in self.target[member.member_id]
            }
        )
        for member in self.members.values():
            self._note_progress(member)
        self.world.count_round()

    def _reconcile(self, member: ReconcilingMember, said: frozenset[TopicPartition] | None) -> None:
        """Takes a member as far towards its target as is possible now."""
        if member.pending:
            if said is None or any(partition in said for partition in member.pending):
                return
            self._release(member.pending)
            member.pending = {}
        target = dict.fromkeys(self.target[member.member_id])
        surplus = {partition: None for partition in member.assigned if partition not in target}
        if surplus:
            member.assigned = {partition: None for partition in member.assigned if partition in target}
            member.pending = surplus
            epoch = member.epoch
            self.world.after(self.group.rebalance_timeout_ms, lambda: self._fence(member, epoch, surplus))
        else:
            free = [partition for partition in target if self._holders.get(partition) is None]
            member.assigned.update(dict.fromkeys(free))
            self._holders.update(dict.fromkeys(free, member.member_id))
            member.epoch = self.epoch
        self._note_progress(member)

    def _fence(self, member: ReconcilingMember, epoch: int, pending: dict[TopicPartition, None]) -> None:
        is_stuck = member.epoch == epoch and member.pending is pending
        if is_stuck and self.members.get(member.member_id) is member:
            self._remove(member, f"{member.member_id} did not give up its partitions in time")

    def _note_progress(self, member: ReconcilingMember) -> None:
        has_all = set(member.assigned) == set(self.target[member.member_id])
        if has_all and member.epoch == self.epoch and not member.pending:
            self.world.has_rebalanced(member.member_id)
        else:
            self.world.begins_to_rebalance(member.member_id)

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self._holders[partition]

    def _satisfy(self, member: ReconcilingMember) -> None:
        member.deadline_ms = self.world.now_ms + self.group.session_ms
        self.world.at(member.deadline_ms, lambda: self._expire(member))

    def _expire(self, member: ReconcilingMember) -> None:
        if self.members.get(member.member_id) is member and member.deadline_ms <= self.world.now_ms:
            self._remove(member, f"{member.member_id} was silent for {self.group.session_ms} ms")

    def _remove(self, member: ReconcilingMember, why: str) -> None:
        del self.members[member.member_id]
        self._release([*member.assigned, *member.pending])
        self.world.has_rebalanced(member.member_id)
        self.new_epoch(why)

    def commits(self, member_id: str, epoch: int) -> Error:
        """Returns the error that answers a commit."""
        member = self.members.get(member_id)
        if member is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if epoch == member.epoch else Error.STALE_MEMBER_EPOCH


def uniform(
    partitions: list[TopicPartition], before: dict[str, list[TopicPartition]], members: list[str]
) -> dict[str, list[TopicPartition]]:
    """Returns an even target. Each member keeps as many partitions of its target `before` as an even share allows."""
    if not members:
        return {}
    each, more = divmod(len(partitions), len(members))
    known = dict.fromkeys(partitions)
    target: dict[str, list[TopicPartition]] = {}
    for member in members:
        staying = [partition for partition in before.get(member, ()) if partition in known]
        share = each + (1 if more and len(staying) > each else 0)
        more -= share > each
        target[member] = staying[:share]
    stays_somewhere = {partition for staying in target.values() for partition in staying}
    rest = [partition for partition in partitions if partition not in stays_somewhere]
    for member in members:
        while rest and len(target[member]) < each:
            target[member].append(rest.pop(0))
    for member in members:
        if rest and len(target[member]) == each:
            target[member].append(rest.pop(0))
    return target


class ConsumerProtocolGroup(Group):
    """A group of consumers that use KIP-848."""

    def __init__(
        self,
        world: World,
        consumption: Consumption,
        topics: Iterable[tuple[str, int]],
        *,
        is_static: bool = False,
        session_ms: int = SESSION_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        rebalance_timeout_ms: int = REBALANCE_TIMEOUT_MS,
    ) -> None:
        super().__init__(world, consumption, topics)
        self.is_static = is_static
        self.session_ms = session_ms
        self.heartbeat_ms = heartbeat_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.coordinator = ConsumerProtocolCoordinator(world, self)
        self.lives = 0

    def make(self, name: str) -> Member:
        self.lives += 1
        return ConsumerProtocolConsumer(self, name, f"{name}-{self.lives}")

    def topic_grew(self) -> None:
        """Starts a new epoch, because the broker itself watches topics."""
        self.coordinator.new_epoch("a topic grew")


class ConsumerProtocolConsumer(Member):
    """A consumer with two threads: one sends heartbeats, and the application's thread gives up and takes partitions."""

    def __init__(self, group: ConsumerProtocolGroup, name: str, member_id: str) -> None:
        super().__init__(group.world, name, group.consumption)
        self.group = group
        self.coordinator = group.coordinator
        self.who = member_id, name if group.is_static else None
        self.epoch = 0
        self._assignment: tuple[TopicPartition, ...] = ()
        self._reconciles = False
        self._owned_to_say: frozenset[TopicPartition] | None = frozenset()
        self._is_leaving = False
        self._woken = Reply()

    def begin(self) -> None:
        self.start(self._heartbeats())
        self.start(self._commits())

    @property
    def _leaving(self) -> int:
        return LEAVING_STATIC if self.group.is_static else LEAVING

    def slow(self, for_ms: int) -> None:
        super().slow(for_ms)
        self.after(self.group.rebalance_timeout_ms, self._wake)

    def _wake(self) -> None:
        self._woken.give()

    def _heartbeats(self) -> Steps:
        yield self.call("FindCoordinator", lambda reply: reply.give())
        while not self._is_leaving:
            if self.is_busy and self.world.now_ms - self.busy_from_ms >= self.group.rebalance_timeout_ms:
                yield self.call("ConsumerGroupHeartbeat", self._request(self._leaving, None))
                yield from self._start_anew()
            said, self._owned_to_say = self._owned_to_say, None
            answer: HeartbeatAnswer = yield self.call("ConsumerGroupHeartbeat", self._request(self.epoch, said))
            if answer.error is Error.UNRELEASED_INSTANCE_ID:
                self._owned_to_say = said
                yield RESTARTS_AFTER_MS
                continue
            if answer.error is not Error.NONE:
                self.world.notifications += 1
                self.world.log(self.name, "learns that it is out")
                yield from self._start_anew()
                continue
            self.epoch = answer.epoch
            if answer.assignment != self._assignment:
                self.world.notifications += 1
                self._assignment = answer.assignment
                self.world.log(self.name, f"epoch {self.epoch}: {', '.join(map(str, answer.assignment))}")
                self._wake_to_reconcile()
            if self._owned_to_say is None:
                self._woken = woken = Reply()
                self.after(self.group.heartbeat_ms, woken.give)
                yield woken

    def _request(self, epoch: int, said: frozenset[TopicPartition] | None) -> Any:
        return lambda reply: self.coordinator.heartbeat(self.who, epoch, said, reply)

    def _start_anew(self) -> Steps:
        """Gives all up without a commit, as soon as the application lets it, and joins again."""
        yield from self.until_idle()
        self.give_up(self.owned)
        self.epoch, self._assignment, self._owned_to_say = 0, (), frozenset()

    def _wake_to_reconcile(self) -> None:
        if not self._reconciles:
            self.start(self._reconcile())

    def _reconcile(self) -> Steps:
        self._reconciles = True
        yield from self.until_idle()
        while set(self.owned) != set(self._assignment):
            wanted = self._assignment
            surplus = [partition for partition in self.owned if partition not in wanted]
            offsets = self.positions(surplus)
            self.give_up(surplus)
            yield from self._commit(offsets)
            added = [partition for partition in wanted if partition not in self.owned]
            if added:
                yield self.call("OffsetFetch", lambda reply: reply.give())
                self.take(added)
        self._reconciles = False
        self._owned_to_say = frozenset(self.owned)
        self._woken.give()

    def _commits(self) -> Steps:
        while True:
            yield AUTO_COMMIT_MS
            yield from self.until_idle()
            yield from self._commit(self.positions())

    def _commit(self, offsets: Offsets) -> Steps:
        """Yields the steps of a commit. One with an old epoch is tried again with the new one."""
        error = Error.STALE_MEMBER_EPOCH if offsets else Error.NONE
        while error is Error.STALE_MEMBER_EPOCH:
            error = yield self.call("OffsetCommit", self._commit_request(offsets))

    def _commit_request(self, offsets: Offsets) -> Any:
        member_id, epoch = self.who[0], self.epoch

        def serve(reply: Reply) -> None:
            error = self.coordinator.commits(member_id, epoch)
            if error is Error.NONE:
                self.consumption.commit(offsets)
            reply.give(error)

        return serve

    def goodbye(self) -> Steps:
        yield from self.until_idle()
        offsets = self.positions()
        self.give_up(self.owned)
        yield from self._commit(offsets)
        self._is_leaving = True
        yield self.call("ConsumerGroupHeartbeat", self._request(self._leaving, None))

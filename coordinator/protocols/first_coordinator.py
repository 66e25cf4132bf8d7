"""Models the first coordinator on a broker (trunk, 2015, in no release): the broker assigns, and the JoinGroup response
carries the assignment.

There is no SyncGroup. A heartbeat with a wrong generation, or while a rebalance is open, is answered with
ILLEGAL_GENERATION, and its client rejoins. Clients send heartbeats only when the application asks for records. The
broker watches the topics itself. A rebalance waits for the longest session timeout of a member. Source: core
coordinator package at 4833d8a8c34b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.assignors import ASSIGNORS
from groupledger.coordinator.assignors.subscriptions import Subscription, TopicPartitions
from groupledger.coordinator.protocols.member import Group, Member, Offsets
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.protocols.consumption import Consumption
    from groupledger.coordinator.protocols.world import Reply, Steps, World
    from groupledger.schemas.kafka.topic_partition import TopicPartition

SESSION_MS: Final = 30_000
HEARTBEAT_MS: Final = 3_000
POLL_MS: Final = 100
AUTO_COMMIT_MS: Final = 5_000
NOT_ASSIGNED: Final = "COMMITTING_PARTITIONS_NOT_ASSIGNED"  # code 27, which later became another error


@dataclass(slots=True)
class WaitingMember:
    """A member in the broker's view. `parked` is the response to its JoinGroup, which waits for the rebalance to
    end."""

    member_id: str
    deadline_ms: int = 0
    parked: Reply | None = None


class FirstCoordinator:
    """The coordinator of one group, which is Stable, PreparingRebalance or Dead. A Dead group starts again at
    generation 0."""

    def __init__(self, world: World, group: FirstCoordinatorGroup) -> None:
        self.world = world
        self.group = group
        self.is_preparing = False
        self.generation = 0
        self.members: dict[str, WaitingMember] = {}
        self.assignment: dict[str, list[TopicPartition]] = {}
        self._round = 0

    def join(self, member_id: str, reply: Reply) -> None:
        known = self.members.get(member_id)
        if known is None and member_id:
            reply.give((Error.UNKNOWN_MEMBER_ID, "", 0, []))
        elif known is not None and not self.is_preparing:
            self._satisfy(known)
            reply.give(self._answer(known))
        else:
            member = known or WaitingMember(self.world.random.uuid())
            self.members[member.member_id] = member
            member.parked = reply
            self.prepare()

    def prepare(self) -> None:
        """Opens a rebalance, unless one is open, and ends it at once if all members have joined."""
        if not self.is_preparing:
            self.is_preparing = True
            self._round += 1
            number = self._round
            self.world.after(SESSION_MS, lambda: self._complete(number))
        if all(member.parked is not None for member in self.members.values()):
            self._complete(self._round)

    def _complete(self, number: int) -> None:
        if not self.is_preparing or number != self._round:
            return
        self.is_preparing = False
        self.members = {each.member_id: each for each in self.members.values() if each.parked is not None}
        if not self.members:
            self.generation = 0
            return
        self.generation += 1
        self.world.count_round()
        topics = {topic: TopicPartitions(count) for topic, count in self.group.topics.items()}
        everything = Subscription(topics=tuple(topics))
        self.assignment = ASSIGNORS["range"](topics, dict.fromkeys(sorted(self.members), everything))
        self.world.log("coordinator", f"generation {self.generation}: {len(self.members)} members")
        for member in self.members.values():
            reply, member.parked = member.parked, None
            self._satisfy(member)
            if reply is not None:
                reply.give(self._answer(member))

    def _answer(self, member: WaitingMember) -> tuple[Error, str, int, list[TopicPartition]]:
        return Error.NONE, member.member_id, self.generation, self.assignment[member.member_id]

    def _satisfy(self, member: WaitingMember) -> None:
        member.deadline_ms = self.world.now_ms + SESSION_MS
        self.world.at(member.deadline_ms, lambda: self._expire(member))

    def _expire(self, member: WaitingMember) -> None:
        is_due = member.parked is None and member.deadline_ms <= self.world.now_ms
        if is_due and self.members.get(member.member_id) is member:
            del self.members[member.member_id]
            if not self.is_preparing:  # who expires while a round is open does not end it: the round's time does
                self.prepare()

    def heartbeat(self, member_id: str, generation: int, reply: Reply) -> None:
        known = self.members.get(member_id)
        if known is None:
            reply.give(Error.UNKNOWN_MEMBER_ID)
        elif generation != self.generation or self.is_preparing:
            reply.give(Error.ILLEGAL_GENERATION)
        else:
            self._satisfy(known)
            reply.give(Error.NONE)

    def leave(self, member_id: str, reply: Reply) -> None:
        reply.give(Error.NONE if self.members.pop(member_id, None) else Error.UNKNOWN_MEMBER_ID)
        self.prepare()

    def commits(self, member_id: str, generation: int, offsets: Offsets) -> Error | str:
        """Returns the response to a commit, which does not depend on whether a rebalance is open."""
        if member_id not in self.members:
            return Error.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return Error.ILLEGAL_GENERATION
        is_its_own = all(partition in self.assignment[member_id] for partition, _ in offsets)
        return Error.NONE if is_its_own else NOT_ASSIGNED


class FirstCoordinatorGroup(Group):
    """A group of consumers to which the broker assigns partitions."""

    def __init__(self, world: World, consumption: Consumption, topics: Iterable[tuple[str, int]]) -> None:
        super().__init__(world, consumption, topics)
        self.coordinator = FirstCoordinator(world, self)

    def make(self, name: str) -> Member:
        return FirstCoordinatorConsumer(self, name)

    def topic_grew(self) -> None:
        self.world.after(self.world.latency_ms(), self.coordinator.prepare)


class FirstCoordinatorConsumer(Member):
    """A consumer with one thread for everything, so that a slow batch delays its heartbeats, too."""

    def __init__(self, group: FirstCoordinatorGroup, name: str) -> None:
        super().__init__(group.world, name, group.consumption)
        self.coordinator = group.coordinator
        self.member_id = ""
        self.generation = -1

    def begin(self) -> None:
        self.start(self._life())
        self.start(self._commits())

    def _life(self) -> Steps:
        yield self.call("ConsumerMetadata", lambda reply: reply.give())
        yield from self._join()
        while True:
            yield HEARTBEAT_MS + self.world.random.between(0, POLL_MS)
            yield from self.until_idle()
            error = yield self.call("Heartbeat", self._heartbeat)
            if error is not Error.NONE:
                self.world.notifications += 1
                self.member_id = "" if error is Error.UNKNOWN_MEMBER_ID else self.member_id
                yield from self._join()

    def _heartbeat(self, reply: Reply) -> None:
        self.coordinator.heartbeat(self.member_id, self.generation, reply)

    def _join(self) -> Steps:
        self.world.begins_to_rebalance(self.life)
        offsets = self.positions()
        self.give_up(self.owned)
        if self.member_id:
            yield from self._commit(offsets)
        while True:
            error, member_id, generation, assigned = yield self.call("JoinGroup", self._join_request())
            self.member_id = member_id
            if error is Error.NONE:
                break
        self.generation = generation
        self.world.log(self.name, f"generation {generation}: {', '.join(map(str, assigned))}")
        if assigned:
            yield self.call("OffsetFetch", lambda reply: reply.give())
        self.take(assigned)
        self.world.has_rebalanced(self.life)

    def _join_request(self) -> Any:
        member_id = self.member_id
        return lambda reply: self.coordinator.join(member_id, reply)

    def _commits(self) -> Steps:
        while True:
            yield AUTO_COMMIT_MS
            yield from self.until_idle()
            yield from self._commit(self.positions())

    def _commit(self, offsets: Offsets) -> Steps:
        if not offsets:
            return
        member_id, generation = self.member_id, self.generation

        def serve(reply: Reply) -> None:
            error = self.coordinator.commits(member_id, generation, offsets)
            if error is Error.NONE:
                self.consumption.commit(offsets)
            reply.give(error)

        yield self.call("OffsetCommit", serve)

    def goodbye(self) -> Steps:
        yield from self.until_idle()
        offsets = self.positions()
        self.give_up(self.owned)
        yield from self._commit(offsets)
        yield self.call("LeaveGroup", lambda reply: self.coordinator.leave(self.member_id, reply))

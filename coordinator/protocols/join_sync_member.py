"""Models the client's half of the Join/Sync protocol: a consumer that rebalances eagerly, statically or cooperatively.

An eager member gives up all partitions before JoinGroup. A cooperative member joins with its partitions and continues
to consume; it gives up those that the assignment lacks, and then joins again at once. A static member sends nothing
when it shuts down, and takes its place again if it comes back within its session. One thread sends heartbeats; the
application's thread, which a slow batch blocks, joins and commits. Offsets are committed every 5 s and before
partitions are given up. Source: kafka-clients ConsumerCoordinator, AbstractCoordinator; KIP-62, KIP-345, KIP-429.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.assignors import ASSIGNORS
from groupledger.coordinator.assignors.subscriptions import Subscription, TopicPartitions
from groupledger.coordinator.protocols.join_sync import JoinSyncCoordinator, Release
from groupledger.coordinator.protocols.member import Group, Member, Offsets
from groupledger.coordinator.protocols.world import Reply
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from groupledger.coordinator.protocols.consumption import Consumption
    from groupledger.coordinator.protocols.world import Steps, World
    from groupledger.schemas.kafka.topic_partition import TopicPartition

RETRY_BACKOFF_MS: Final = 100  # the heartbeat thread looks so often whether one is due
AUTO_COMMIT_MS: Final = 5_000
METADATA_MAX_AGE_MS: Final = 300_000
MAX_POLL_INTERVAL_MS: Final = 300_000


class JoinSyncGroup(Group):
    """A group of consumers with one coordinator."""

    def __init__(
        self,
        world: World,
        consumption: Consumption,
        topics: Iterable[tuple[str, int]],
        *,
        release: Release | None = None,
        is_static: bool = False,
        is_cooperative: bool = False,
        assignor: str = "range",
    ) -> None:
        super().__init__(world, consumption, topics)
        self.release = release or Release()
        self.is_static = is_static
        self.is_cooperative = is_cooperative
        self.assignor = "cooperative-sticky" if is_cooperative else assignor
        self.heartbeat_ms = self.release.heartbeat_ms
        self.max_poll_interval_ms = self.release.rebalance_timeout_ms or MAX_POLL_INTERVAL_MS
        self.coordinator = JoinSyncCoordinator(world, self.release)

    def make(self, name: str) -> Member:
        return Consumer(self, name)

    def topic_grew(self) -> None:
        """Does nothing, because clients find the new partitions when they refresh their metadata."""


class JoinSyncMember(Member):
    """A client of the Join/Sync protocol; subclasses define its metadata and the effect of an assignment."""

    def __init__(self, group: JoinSyncGroup, name: str) -> None:
        super().__init__(group.world, name, group.consumption)
        self.group = group
        self.coordinator = group.coordinator
        self.member_id = ""
        self.instance_id = name if group.is_static else None
        self.generation = -1
        self.is_leader = False
        self._must_join = True
        self._is_lost = False  # the generation is over for it, which it reports to the application before it joins
        self._is_stable = False
        self._stable_from_ms = 0
        self._is_leaving = False
        self._woken = Reply()

    def metadata(self) -> Any:
        """Returns the metadata that the member sends in its JoinGroup."""
        raise NotImplementedError

    def assign(self, members: Mapping[str, tuple[str | None, Any]]) -> Mapping[str, Any]:
        """Returns the assignment of each member. It is called only if this member leads the group."""
        raise NotImplementedError

    def before_join(self) -> Steps:
        """Yields the steps that the member takes before it sends JoinGroup."""
        raise NotImplementedError

    def assigned(self, assignment: Any) -> Steps:
        """Yields the steps by which an assignment takes effect."""
        raise NotImplementedError

    def begin(self) -> None:
        self.start(self._life())
        self.start(self._heartbeats())
        self.start(self._commits())

    def goodbye(self) -> Steps:
        yield from self.until_idle()
        # No heartbeat more, whose answer would let it join again.
        self._is_leaving, self._is_stable = True, False
        stopped = self.positions()
        self.give_up(self.owned)
        yield from self.commit(stopped)
        if self.instance_id is None and self.member_id:
            yield self.call("LeaveGroup", lambda reply: self.coordinator.leave(self.member_id, reply))

    def join_again(self) -> None:
        """Lets the application's thread join as soon as possible."""
        self._must_join = True
        self._woken.give()

    def _life(self) -> Steps:
        yield self.call("FindCoordinator", lambda reply: reply.give())
        while not self._is_leaving:
            if self._must_join:
                yield from self._rejoin()
            else:
                self._woken = Reply()
                yield self._woken

    def _rejoin(self) -> Steps:
        self.world.begins_to_rebalance(self.life)
        yield from self.until_idle()
        self._forget_if_lost()
        yield from self.before_join()
        self._is_stable = self._must_join = False
        assignment = yield from self._join_and_sync()
        self._is_stable, self._stable_from_ms = not self._is_leaving, self.world.now_ms
        yield from self.assigned(assignment)
        if not self._must_join:
            self.world.has_rebalanced(self.life)

    def _forget_if_lost(self) -> None:
        """Gives up the member's partitions without committing if the coordinator has given them to others long ago."""
        if self._is_lost:
            self.give_up(self.owned)
            self._is_lost = False
            self.generation = -1

    def _join_and_sync(self) -> Any:
        while True:
            if self._is_leaving:
                yield Reply()
            joined = yield self.call("JoinGroup", self._join_request())
            if joined.error is not Error.NONE:
                self.member_id = joined.member_id
                if joined.error is Error.UNKNOWN_MEMBER_ID:
                    self._is_lost = True
                    self._forget_if_lost()
                continue
            self.member_id, self.generation = joined.member_id, joined.generation
            self.is_leader = joined.leader == joined.member_id
            assignments = self.assign(joined.members) if self.is_leader else {}
            error, assignment = yield self.call("SyncGroup", self._sync_request(assignments))
            if error is Error.NONE:
                self.world.log(self.name, f"generation {self.generation}: {shown(assignment)}")
                return assignment
            if error is not Error.REBALANCE_IN_PROGRESS:
                self._is_lost = True
                self._forget_if_lost()
                self.member_id = "" if error is Error.UNKNOWN_MEMBER_ID else self.member_id

    def _join_request(self) -> Any:
        said = self.metadata()
        return lambda reply: self.coordinator.join(self.name, self.member_id, self.instance_id, said, reply)

    def _sync_request(self, assignments: Mapping[str, Any]) -> Any:
        generation = self.generation
        return lambda reply: self.coordinator.sync(self.member_id, generation, assignments, reply)

    def _heartbeats(self) -> Steps:
        while True:
            yield self.world.looks_until_ms(self.group.heartbeat_ms, RETRY_BACKOFF_MS)
            while self.world.now_ms < self._stable_from_ms + self.group.heartbeat_ms:
                yield self._stable_from_ms + self.group.heartbeat_ms - self.world.now_ms
            if self.group.release.rebalance_timeout_ms is None:
                yield from self.until_idle()
            if not self._is_stable:
                continue
            generation = self.generation
            error = yield self.call("Heartbeat", self._heartbeat_request(generation))
            if generation == self.generation and self._is_stable:
                self._hear(error)

    def slow(self, for_ms: int) -> None:
        super().slow(for_ms)
        if self.group.release.rebalance_timeout_ms is not None:
            self.start(self._leaves_if_too_slow(self.world.now_ms))

    def _leaves_if_too_slow(self, busy_from_ms: int) -> Steps:
        yield self.group.max_poll_interval_ms
        if self.is_busy and self.busy_from_ms == busy_from_ms and self._is_stable:
            # A static member only stops its heartbeats.
            if self.instance_id is None:
                yield self.call("LeaveGroup", lambda reply: self.coordinator.leave(self.member_id, reply))
            self._lose("")

    def _heartbeat_request(self, generation: int) -> Any:
        return lambda reply: self.coordinator.heartbeat(self.member_id, generation, reply)

    def _hear(self, error: Error) -> None:
        if error is Error.REBALANCE_IN_PROGRESS:
            self.world.notifications += not self._must_join
            self.join_again()
        elif error is not Error.NONE:
            self._lose("" if error is Error.UNKNOWN_MEMBER_ID else self.member_id)

    def _lose(self, member_id: str) -> None:
        self.world.log(self.name, "learns that it is out")
        self.member_id, self._is_lost, self._is_stable = member_id, True, False
        self.join_again()

    def _commits(self) -> Steps:
        while True:
            yield AUTO_COMMIT_MS
            yield from self.until_idle()
            if self._is_stable and self.owned:
                yield from self.commit(self.positions())

    def commit(self, offsets: Offsets) -> Steps:
        """Yields the steps of a commit. If the coordinator refuses it, the offsets are not stored."""
        if not offsets:
            return
        member_id, generation = self.member_id, self.generation

        def serve(reply: Reply) -> None:
            error = self.coordinator.commits(member_id, generation)
            if error is Error.NONE:
                self.consumption.commit(offsets)
            reply.give(error)

        yield self.call("OffsetCommit", serve)


class Consumer(JoinSyncMember):
    """A consumer that subscribes to all topics of its group."""

    group: JoinSyncGroup

    def __init__(self, group: JoinSyncGroup, name: str) -> None:
        super().__init__(group, name)
        self._known_topics = dict(group.topics)
        self._assigned_topics = self._known_topics

    def begin(self) -> None:
        super().begin()
        self.start(self._metadata_refreshes())

    def _metadata_refreshes(self) -> Steps:
        while True:
            yield METADATA_MAX_AGE_MS
            self._known_topics = dict(self.group.topics)
            if self.is_leader and self._is_stable and self._known_topics != self._assigned_topics:
                self.join_again()

    def metadata(self) -> Subscription:
        return Subscription(
            topics=tuple(self._known_topics),
            owned_partitions=tuple(self.owned) if self.group.is_cooperative else (),
            generation_id=self.generation if self.group.is_cooperative else -1,
        )

    def assign(self, members: Mapping[str, tuple[str | None, Any]]) -> Mapping[str, Any]:
        self._assigned_topics = self._known_topics
        topics = {topic: TopicPartitions(count) for topic, count in self._known_topics.items()}
        subscriptions = {
            member_id: Subscription(
                topics=said.topics,
                owned_partitions=said.owned_partitions,
                generation_id=said.generation_id,
                group_instance_id=instance_id,
            )
            for member_id, (instance_id, said) in members.items()
        }
        return ASSIGNORS[self.group.assignor](topics, subscriptions)

    def before_join(self) -> Steps:
        offsets = self.positions()
        if not self.group.is_cooperative:
            self.give_up(self.owned)
        yield from self.commit(offsets)

    def assigned(self, assignment: list[TopicPartition] | None) -> Steps:
        mine = dict.fromkeys(assignment or ())
        revoked = [partition for partition in self.owned if partition not in mine]
        if revoked:
            offsets = self.positions(revoked)
            self.give_up(revoked)
            yield from self.commit(offsets)
            self.join_again()
        added = [partition for partition in mine if partition not in self.owned]
        if added:
            yield self.call("OffsetFetch", lambda reply: reply.give())
            self.take(added)


def shown(assignment: Any) -> str:
    return ", ".join(map(str, assignment)) if isinstance(assignment, list) else str(assignment)

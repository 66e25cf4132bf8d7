"""Models the high-level consumer of Kafka 0.8, in which each member decides alone: it reads all registrations, computes
its own share and claims it, first come, first served.

There is no leader and no generation, so two members can work from different views, and then both claim the owner node
of one partition. A member whose try fails gives up everything, waits and tries again, four times in all. After that it
owns nothing until the next notification. Source: kafka/consumer/ZookeeperConsumerConnector at 0.8.2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.protocols.member import Group, Member, Offsets
from groupledger.coordinator.protocols.zookeeper import PING_MS, Session, ZooKeeper
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from groupledger.coordinator.protocols.consumption import Consumption
    from groupledger.coordinator.protocols.world import Steps, World

TRIES: Final = 4
BACKOFF_MS: Final = 2_000
AUTO_COMMIT_MS: Final = 60_000
BROKERS: Final = 3
IDS: Final = "/consumers/G/ids"


class ZooKeeperGroup(Group):
    """A group of consumers that share only a ZooKeeper. Its servers lag by a random time between the bounds of
    `lag_ms`."""

    def __init__(
        self,
        world: World,
        consumption: Consumption,
        topics: Iterable[tuple[str, int]],
        *,
        lag_ms: tuple[int, int] = (1, 40),
    ) -> None:
        super().__init__(world, consumption, topics)
        self.zookeeper = ZooKeeper(world, lag_ms)
        self.give_ups = 0
        self.conflicts = 0
        for server in self.zookeeper.servers:
            server.nodes.update({topic_path(topic): str(count) for topic, count in self.topics.items()})

    def make(self, name: str) -> Member:
        return ZooKeeperConsumer(self, name)

    def topic_grew(self) -> None:
        for topic, count in self.topics.items():
            for server in self.zookeeper.servers:
                if server.nodes[topic_path(topic)] != str(count):
                    server.apply(topic_path(topic), str(count), self.world.random.between(1, 40))


class ZooKeeperConsumer(Member):
    """One consumer with one stream for each topic."""

    def __init__(self, group: ZooKeeperGroup, name: str) -> None:
        super().__init__(group.world, name, group.consumption)
        self.group = group
        self.zookeeper = group.zookeeper
        self.session: Session
        self._rebalances = False
        self._has_news = False

    def begin(self) -> None:
        self.session = self.zookeeper.connect()
        self.start(self._joins())
        self.start(self._pings())
        self.start(self._commits())

    def _joins(self) -> Steps:
        yield from self._register()
        yield from self._rebalances_until_quiet()

    def _register(self) -> Steps:
        session, path = self.session, f"{IDS}/{self.life}"
        yield self.call("create", lambda reply: self.zookeeper.create(session, path, self.life, reply))
        for topic in self.group.topics:
            session.server.watch(session, topic_path(topic), self._watcher(topic_path(topic)))
        session.server.watch(session, f"{IDS}/", self._watcher(f"{IDS}/"))
        yield from self._reads(1 + len(self.group.topics))

    def _watcher(self, watched: str) -> Any:
        session = self.session

        def fired() -> None:
            if session is not self.session or not self.is_alive:
                return
            session.server.watch(session, watched, fired)
            self.after(0, self._hear)

        return fired

    def _hear(self) -> None:
        """Notes that something changed. Changes during a rebalance cause one more."""
        self._has_news = True
        if not self._rebalances:
            self.start(self._rebalances_until_quiet())

    def _rebalances_until_quiet(self) -> Steps:
        if self._rebalances:
            self._has_news = True
            return
        self._rebalances = True
        self.world.begins_to_rebalance(self.life)
        is_first = True
        while is_first or self._has_news:
            is_first = self._has_news = False
            yield from self._tries()
        self._rebalances = False
        self.world.has_rebalanced(self.life)

    def _tries(self) -> Steps:
        for _ in range(TRIES):
            self.world.count_round()
            if (yield from self._rebalance()):
                return
            self.group.conflicts += 1
            yield BACKOFF_MS
        self.group.give_ups += 1
        self.world.log(self.name, "gives up and owns nothing")

    def _rebalance(self) -> Any:
        """Makes one try and returns whether it succeeded. Lists are read before the nodes that they name."""
        yield from self._reads(1 + BROKERS)
        yield from self._reads(2 + BROKERS)
        offsets = self.positions()
        self.give_up(self.owned)
        yield from self._write_offsets(offsets)
        for partition, _ in offsets:  # by path, whoever made the node
            yield self.call("delete", self._delete_request(owner_path(partition)))
        yield from self._reads(1 + len(self.group.topics))
        registered = self.session.server.children(IDS)
        yield from self._reads(2 + len(registered))
        share = [partition for topic in self.group.topics for partition in self._share(topic, registered)]
        yield from self._reads(len(share))
        claimed: list[TopicPartition] = []
        for partition in share:
            if not (yield self.call("create", self._create_request(owner_path(partition)))):
                self.world.log(self.name, f"finds {partition} owned")
                for mine in claimed:
                    yield self.call("delete", self._delete_request(owner_path(mine)))
                return False
            claimed.append(partition)
        self.world.log(self.name, f"owns {', '.join(map(str, share))}")
        self.take(share)
        return True

    def _share(self, topic: str, registered: list[str]) -> list[TopicPartition]:
        """Returns this member's part by range: contiguous, and one more for the first."""
        if self.life not in registered:
            return []
        count = int(self.session.server.nodes[topic_path(topic)])
        each, more = divmod(count, len(registered))
        place = registered.index(self.life)
        begin = each * place + min(place, more)
        return [TopicPartition(topic, number) for number in range(begin, begin + each + (place < more))]

    def _reads(self, count: int) -> Steps:
        """Yields the time that reads take, one after the other."""
        self.world.requests["read"] += count
        yield sum(2 * self.world.latency_ms() for _ in range(count))

    def _create_request(self, path: str) -> Any:
        session = self.session
        return lambda reply: self.zookeeper.create(session, path, self.life, reply)

    def _delete_request(self, path: str) -> Any:
        session = self.session
        return lambda reply: self.zookeeper.delete(session, path, reply)

    def _write_offsets(self, offsets: Offsets) -> Steps:
        """Yields the steps of a commit. Nobody asks whether the writer still owns the partitions."""
        if offsets:
            self.world.requests["write offset"] += len(offsets)
            yield sum(2 * self.world.latency_ms() for _ in offsets)
            self.consumption.commit(offsets)

    def _commits(self) -> Steps:
        while True:
            yield AUTO_COMMIT_MS
            yield from self._write_offsets(self.positions())

    def _pings(self) -> Steps:
        while True:
            yield PING_MS
            if not self.session.ping():
                self.world.log(self.name, "learns that its session is over")
                yield 2 * self.world.latency_ms()
                self.give_up(self.owned)  # no commit: others own them
                self.session = self.zookeeper.connect()
                yield from self._register()
                yield from self._rebalances_until_quiet()

    def goodbye(self) -> Steps:
        offsets = self.positions()
        self.give_up(self.owned)
        yield from self._write_offsets(offsets)
        yield self.world.latency_ms()
        self.session.close()


def topic_path(topic: str) -> str:
    return f"/brokers/topics/{topic}"


def owner_path(partition: TopicPartition) -> str:
    return f"/consumers/G/owners/{partition.topic}/{partition.partition}"

"""Simulates a cluster of brokers: which broker coordinates which `__consumer_offsets` partition, and the partitions'
logs.

When a broker crashes, the soft state of its groups is lost. After the election other brokers lead its partitions; they
are loading at first, and refuse requests until they have read the log. When the broker is back, it leads its partitions
again, and the other brokers unload them in good order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.modern.topics import KnownTopics
from groupledger.coordinator.model.groups.streams.assignors import keeping
from groupledger.coordinator.model.operation import Result
from groupledger.coordinator.offsets_partition import partition_for
from groupledger.coordinator.simulator.partition_log import PartitionLog

if TYPE_CHECKING:
    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.groups.share.group import ShareGroup
    from groupledger.coordinator.model.groups.streams.group import StreamsGroup
    from groupledger.coordinator.model.messages import Request


class Brokers:
    def __init__(self, config: Config, broker_count: int, *, is_compacted_first: bool = False) -> None:
        partitions = range(config.offsets_topic_num_partitions)
        self.config = config
        self.topics = KnownTopics()  # by name, as all coordinators know them
        self._assign = keeping(config.group_streams_num_standby_replicas)
        self.coordinators = {broker: self._new_coordinator() for broker in range(broker_count)}
        self.is_up = dict.fromkeys(self.coordinators, True)
        self.leaders = [partition % broker_count for partition in partitions]
        self.logs = [PartitionLog(is_compacted_first=is_compacted_first) for _ in partitions]

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(self.config, self.topics, self._assign)

    def start(self, now_ms: int) -> None:
        for partition, broker in enumerate(self.leaders):
            self.coordinators[broker].load(partition, (), now_ms=now_ms)

    # Requests

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, len(self.leaders))

    def coordinator_of(self, group_id: str) -> int | None:
        """Returns the id of the broker that coordinates a group. Returns None while that broker is down."""
        broker = self.leaders[self.partition_for(group_id)]
        return broker if self.is_up[broker] else None

    def generation_of(self, group_id: str) -> int | None:
        """Returns the generation of a classic group, or the epoch of a group of another type. Returns None if there is
        no such group."""
        group, modern = self.classic_group(group_id), self.modern_group(group_id)
        if modern is not None:
            return modern.epoch
        return None if group is None else group.generation_id

    def classic_group(self, group_id: str) -> Group | None:
        """Returns the coordinator's state of the classic group, or None. Callers only read it."""
        return self._leader_of(group_id).group(group_id)

    def modern_group(self, group_id: str) -> ConsumerGroup | ShareGroup | StreamsGroup | None:
        """Returns the coordinator's state of the KIP-848, share or streams group, or None. Callers only read it."""
        leader = self._leader_of(group_id)
        return leader.consumer_group(group_id) or leader.share_group(group_id) or leader.streams_group(group_id)

    def streams_group(self, group_id: str) -> StreamsGroup | None:
        """Returns the coordinator's state of the streams group, or None. Callers only read it."""
        return self._leader_of(group_id).streams_group(group_id)

    def _leader_of(self, group_id: str) -> Coordinator:
        return self.coordinators[self.leaders[self.partition_for(group_id)]]

    def handle(self, broker: int, request: Request, now_ms: int) -> Result:
        """Lets a broker's coordinator handle a request, after the timers that are due by now. Returns the result of
        both."""
        coordinator = self.coordinators[broker]
        deadline_ms = coordinator.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return self.append(coordinator.handle(request, now_ms=now_ms))
        due = coordinator.advance(now_ms)
        return self.append(Result.of((due, coordinator.handle(request, now_ms=now_ms))))

    def advance(self, broker: int, now_ms: int) -> Result:
        return self.append(self.coordinators[broker].advance(now_ms))

    def append(self, result: Result) -> Result:
        for batch in result.batches:
            self.logs[batch.partition].append(batch)
        return result

    # Leadership

    def crash(self, broker: int) -> list[int]:
        """Crashes a broker, and returns the partitions that it led."""
        self.is_up[broker] = False
        self.coordinators[broker] = self._new_coordinator()
        return [partition for partition, leader in enumerate(self.leaders) if leader == broker]

    def elect(self, partitions: list[int]) -> None:
        """Makes brokers that are up the leaders of these partitions. They begin to load them."""
        survivors = [broker for broker, is_up in self.is_up.items() if is_up]
        for partition in partitions:
            broker = survivors[partition % len(survivors)]
            self.leaders[partition] = broker
            self.coordinators[broker].start_loading(partition)

    def take_back(self, broker: int, partitions: list[int], now_ms: int) -> list[tuple[int, Result]]:
        """Starts a broker again and makes it the leader of these partitions. Returns the results of unloading them,
        each with the id of the broker that led the partition."""
        self.is_up[broker] = True
        results = []
        for partition in partitions:
            other = self.leaders[partition]
            results.append((other, self.coordinators[other].unload(partition, now_ms=now_ms)))
            self.leaders[partition] = broker
            self.coordinators[broker].start_loading(partition)
        return results

    def load(self, partitions: list[int], now_ms: int) -> list[tuple[int, Result]]:
        """Loads partitions whose logs have been read. Returns the results, each with the id of the broker that loaded
        the partition."""
        results = []
        for partition in partitions:
            broker = self.leaders[partition]
            batches = self.logs[partition].batches
            results.append((broker, self.append(self.coordinators[broker].load(partition, batches, now_ms=now_ms))))
        return results

"""A coordinator with topics, to which members of one consumer group of KIP-848 speak."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.assignors import in_turn
from groupledger.coordinator.model.log_lines import render
from groupledger.coordinator.model.messages import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.groups.streams.assignors import StreamsAssignor
    from groupledger.coordinator.model.messages import Request
    from groupledger.coordinator.model.operation import Batch, Result

GROUP = "billing"
ORDERS = Topic("orders", "AAAAAAAAAAAAAAAAAAAAAQ", 6)
PAYMENTS = Topic("payments", "AAAAAAAAAAAAAAAAAAAAAg", 3)


class Cluster:
    """`log` has the written records, `answers` the answers, `said` the server log; `now_ms` goes on by a millisecond
    with each request."""

    def __init__(self, streams_assignor: StreamsAssignor = in_turn, **settings: Any) -> None:
        self.config = Config(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0, **settings)
        self.coordinator = Coordinator(self.config, streams_assignor=streams_assignor)
        self.coordinator.topics.update({topic.name: topic for topic in (ORDERS, PAYMENTS)})
        self.now_ms = 0
        self.log: list[Batch] = []
        self.answers: list[Any] = []
        self.said: list[str] = []
        self._requests = count()
        self.coordinator.load(0, [], now_ms=0)

    def ask(self, kind: type[Request], **fields: Any) -> Any:
        """Returns the answer, and None to a request that waits for others."""
        self.wait(1)
        request = kind(next(self._requests), **fields)
        results = [self.coordinator.handle(request, now_ms=self.now_ms), self.coordinator.advance(self.now_ms)]
        for result in results:
            self._take(result)
            self.answers += result.responses
        own = (each for result in results for each in result.responses if each.request_id == request.request_id)
        return next(own, None)

    def wait(self, milliseconds: int) -> list[str]:
        """Returns the types of the records that were written meanwhile."""
        self.now_ms += milliseconds
        result = self.coordinator.advance(self.now_ms)
        self._take(result)
        return [record.record_type for record in result.records]

    def _take(self, result: Result) -> None:
        self.log.extend(result.batches)
        self.said += map(render, result.events)

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        return self.ask(
            ConsumerGroupHeartbeatRequest,
            **{"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, "client_id": "client", **fields},
        )

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        names = topics or (ORDERS.name,)
        words = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, "owned": {}}
        return self.beat(member_id, 0, **{**words, **fields})

    @property
    def group(self) -> ConsumerGroup:
        group = self.coordinator.consumer_group(GROUP)
        assert group is not None
        return group

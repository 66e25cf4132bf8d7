"""Speaks Kafka's protocol for the coordinator, without sockets and clock: frames go in, frames come out.

    opened / received / closed    events of a connection; a connection has one request at a time, as in Kafka, where a
                                  broker reads the next one when it has answered the one before
    advance, next_deadline_ms     timers: of the coordinators, of Fetches that wait, and of the script of faults

Answers go out through the connection's `send`, at once or from a later call. An invalid request only closes its
connection, with a reason. If the world `is_recorded`, `outputs` collects requests and records in the simulator's form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model import messages as model
from groupledger.coordinator.model.messages import refusal
from groupledger.coordinator.simulator.network import Exchange, OnTheWire
from groupledger.coordinator.simulator.simulation import Outputs, watermarks
from groupledger.jobs.coordinator import cluster_answers, log_answers, topic_answers
from groupledger.jobs.coordinator.answers import to_wire
from groupledger.jobs.coordinator.frames import Incoming, decode, encode
from groupledger.jobs.coordinator.logged_bodies import body_of
from groupledger.jobs.coordinator.requests import GROUP_REQUESTS, Asker, to_model
from groupledger.jobs.coordinator.transactions import Transactions
from groupledger.schemas.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.groups.consumer.group import ConsumerGroup
    from groupledger.coordinator.model.operation import Result
    from groupledger.jobs.coordinator.faults import Fault
    from groupledger.jobs.coordinator.world import World
    from groupledger.schemas.kafka.errors import Error

LOADING_MS = 50  # from the moment at which another node coordinates a group to the one at which it has read the log
FETCH_WAIT_MS_MAX = 300_000  # a client that asks for more, and goes, is forgotten then
_HOST = "/127.0.0.1"
UNKNOWN_SOFTWARE = ("unknown", "unknown")  # as Kafka's request log has it for a client that does not say


@dataclass(slots=True, eq=False)
class ClientConnection:
    """A connection. `send` takes the frame of a response; `close` closes the connection, with a reason for the
    operator."""

    connection_id: int
    node: int
    send: Callable[[bytes], None]
    close: Callable[[str], None]
    client_host: str = _HOST
    client_id: str = ""
    software: tuple[str, str] = UNKNOWN_SOFTWARE
    pending: PendingRequest | None = None  # the request that waits for its answer
    is_open: bool = True


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request without a response yet. `request` is its form for the coordinator, or None if it is not about a
    group."""

    incoming: Incoming
    received_at_ms: int
    request: model.Request | None = None
    delay_ms: int = 0
    is_lost: bool = False  # the answer is, on purpose


class Service:
    def __init__(self, world: World, faults: Iterable[Fault] = (), *, say: Callable[[str], None]) -> None:
        self.world = world
        self.outputs = Outputs()
        self.set_clock_rate: Callable[[float], None] = lambda _: None  # the clock is the caller's
        self.connections: set[ClientConnection] = set()
        self._say = say
        self._now_ms = world.began_at_ms
        self._numbers = count(1)
        self._pending: dict[int, ClientConnection] = {}  # by request id
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._transactions = Transactions(self._write_marker, self._after, lambda: next(world.producer_ids))
        self._faults: list[Fault] = []
        for fault in faults:
            self.plan(fault)

    # Time

    def next_deadline_ms(self) -> int | None:
        """Returns when `advance` has to be called next; None if there is no such time."""
        coordinators = self.world.brokers.coordinators.values()
        times = [time_ms for each in coordinators if (time_ms := each.next_deadline_ms()) is not None]
        if self._heap:
            times.append(self._heap[0][0])
        return min(times, default=None)

    def advance(self, now_ms: int) -> None:
        """Handles everything that is due. Times never go back."""
        self._now_ms = max(now_ms, self._now_ms)
        while self._heap and self._heap[0][0] <= self._now_ms:
            heappop(self._heap)[2]()
        for node, coordinator in self.world.brokers.coordinators.items():
            deadline_ms = coordinator.next_deadline_ms()
            if deadline_ms is not None and deadline_ms <= self._now_ms:
                self._settle(node, self.world.brokers.advance(node, self._now_ms))

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._at(self._now_ms + delay_ms, action)

    def _at(self, time_ms: int, action: Callable[[], None]) -> None:
        heappush(self._heap, (time_ms, next(self._numbers), action))

    # Connections

    def opened(self, connection: ClientConnection) -> None:
        self.connections.add(connection)

    def closed(self, connection: ClientConnection) -> None:
        """Removes a connection. A request of it that has no response yet is still carried out, and the response is
        lost."""
        connection.is_open = False
        self.connections.discard(connection)

    def end(self, connection: ClientConnection, reason: str) -> None:
        """Closes a connection from this side, if it is open. `reason` is for the operator."""
        if connection.is_open:
            self.closed(connection)
            connection.close(reason)

    # Requests

    def received(self, connection: ClientConnection, frame: bytes, now_ms: int) -> None:
        """Takes one request. Raises MalformedError if it is invalid."""
        self.advance(now_ms)
        incoming = decode(frame)
        connection.client_id = incoming.client_id or connection.client_id
        if incoming.api is ApiKey.API_VERSIONS:
            connection.software = cluster_answers.software_of(incoming) or connection.software
        asked = connection.pending = PendingRequest(incoming, self._now_ms)
        if self._faults and self._is_caught(connection, asked):
            return
        error = self._transactions.refused(incoming)
        if error:
            self._refuse(connection, asked, error)
        elif incoming.api in GROUP_REQUESTS:
            self._ask_coordinator(connection, asked)
        elif incoming.api is ApiKey.FETCH:
            wait_ms = min(max(incoming.body.max_wait_ms, 0), FETCH_WAIT_MS_MAX)
            self._fetch(connection, asked, self._now_ms + wait_ms)
        else:
            self._answer(connection, asked, self._of_cluster(incoming, connection.node))

    def _ask_coordinator(self, connection: ClientConnection, asked: PendingRequest) -> None:
        asker = Asker(next(self._numbers), connection.client_host)
        request = asked.request = to_model(asked.incoming, asker, self.world.cluster)
        self._pending[request.request_id] = connection
        self._settle(connection.node, self.world.brokers.handle(connection.node, request, self._now_ms))

    def _settle(self, node: int, result: Result) -> None:
        """Sends the responses of a coordinator to their clients, and records its output."""
        for response in result.responses:
            connection = self._pending.pop(response.request_id, None)
            if connection is not None and connection.pending is not None:
                self._respond(connection, connection.pending, response)
        if self.world.is_recorded:
            self.outputs.events += [(node, event) for event in result.events]

    def _respond(self, connection: ClientConnection, asked: PendingRequest, response: model.Response) -> None:
        message = to_wire(response, asked.incoming, self.world.cluster)
        self._record(connection, asked, response, message)
        self._answer(connection, asked, message)

    def _answer(self, connection: ClientConnection, asked: PendingRequest, message: Any) -> None:
        if asked.delay_ms:
            delay_ms, asked.delay_ms = asked.delay_ms, 0
            self._at(self._now_ms + delay_ms, lambda: self._answer(connection, asked, message))
            return
        connection.pending = None
        if asked.is_lost:
            self.end(connection, "the script of faults says that the answer is lost")
        if connection.is_open and message is not None:
            connection.send(encode(asked.incoming.correlation_id, message))

    def _of_cluster(self, incoming: Incoming, node: int) -> Any:
        """Answers requests that concern no group; None if the client wants no response."""
        of_transactions = _OF_TRANSACTIONS.get(incoming.api)
        if of_transactions is not None:
            return of_transactions(self._transactions, incoming)
        of_topics = _OF_TOPICS.get(incoming.api)
        if of_topics is not None:
            return of_topics(incoming, self.world, self._now_ms)
        of_cluster = _OF_CLUSTER.get(incoming.api)
        if of_cluster is not None:
            return of_cluster(incoming, self.world)
        return _OF_LOGS[incoming.api](incoming, self.world, node, self._now_ms)

    def _fetch(self, connection: ClientConnection, asked: PendingRequest, until_ms: int) -> None:
        """Answers when there is a record or an error, or when the wait is over."""
        if not connection.is_open:
            return
        answer, is_due = log_answers.fetch(asked.incoming, self.world, connection.node, self._now_ms)
        if is_due or self._now_ms >= until_ms:
            self._answer(connection, asked, answer)
            return
        next_ms = log_answers.next_record_ms(asked.incoming, self.world, self._now_ms)
        again_ms = until_ms if next_ms is None else min(max(next_ms, self._now_ms + 1), until_ms)
        self._at(again_ms, lambda: self._fetch(connection, asked, until_ms))

    def _write_marker(self, group_id: str, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Writes the end of a transaction into the log of its group's coordinator; tries again while that loads."""
        brokers = self.world.brokers
        partition = brokers.partition_for(group_id)
        node = brokers.leaders[partition]
        request = model.WriteTxnMarkerRequest(
            next(self._numbers),
            partition=partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        )
        result = brokers.handle(node, request, self._now_ms)
        self._settle(node, result)
        if not result.batches:
            self._after(LOADING_MS, lambda: self._write_marker(group_id, producer_id, producer_epoch, committed))

    def _record(
        self, connection: ClientConnection, asked: PendingRequest, response: model.Response, message: Any
    ) -> None:
        if not self.world.is_recorded or asked.request is None:
            return
        api, version, number, _, body = asked.incoming  # the log of a broker shows the client's own number
        self.outputs.exchanges.append(
            Exchange(
                request=replace(asked.request, request_id=number),
                response=replace(response, request_id=number),
                broker_id=connection.node,
                connection_id=connection.connection_id,
                client_id=asked.incoming.client_id,
                client_host=connection.client_host,
                received_at_ms=asked.received_at_ms,
                sent_at_ms=self._now_ms,
                planted=None,
                software=connection.software,
                on_the_wire=OnTheWire(api, version, lambda: (body_of(body, version), body_of(message, version))),
            )
        )

    def take(self) -> Outputs:
        """Returns the outputs since the last call, and the present ends of all partitions. Records after the start of
        an open transaction are returned only when it has ended."""
        outputs, self.outputs = self.outputs, Outputs()
        world = self.world
        for log in world.brokers.logs:
            outputs.batches += log.take_committed()
        for each in watermarks(world.brokers, world.offsets_topic_id, world.topics, self._now_ms):
            stored = world.stored_log(each.topic, each.partition)
            end = each.high_watermark if stored is None else stored.end_offset(self._now_ms)
            stable = each.last_stable_offset if stored is None else end
            outputs.watermarks.append(replace(each, high_watermark=end, last_stable_offset=stable))
        return outputs

    # Faults

    def plan(self, fault: Fault) -> None:
        """Adds a fault to the script. Its `at_s` counts from now."""
        if fault.at_s is None:
            self._faults.append(fault)
        else:
            self._at(self._now_ms + round(fault.at_s * 1_000), lambda: self.do(fault))

    def _is_caught(self, connection: ClientConnection, asked: PendingRequest) -> bool:
        """Lets the faults happen that come with this request; returns whether it needs no answer any more."""
        for fault in [each for each in self._faults if each.fits(asked.incoming)]:
            if fault.do == "answer" and fault.error is not None:
                self._say(f"{asked.incoming.api.name} of {connection.client_id!r} is answered with {fault.error.name}")
                self._refuse(connection, asked, fault.error)
                return True
            if fault.do == "delay":
                asked.delay_ms = fault.delay_ms or 0
            elif fault.do == "lose":
                asked.is_lost = True
            elif fault.do == "disconnect":
                self.end(connection, "the script of faults says so")
                return True
            else:
                self.do(fault)
        return False

    def _refuse(self, connection: ClientConnection, asked: PendingRequest, error: Error) -> None:
        request = to_model(asked.incoming, Asker(0, connection.client_host), self.world.cluster)
        asked.request = request
        self._respond(connection, asked, _refused(request, error))

    def do(self, fault: Fault) -> None:
        """Carries out a fault that does not concern a request."""
        self._say(f"fault: {fault.do} {fault.group or fault.topic or fault.client_id or fault.rate}")
        if fault.do == "expire":
            self.expire(fault.group or "", fault.member)
        elif fault.do == "rebalance":
            self.rebalance(fault.group or "")
        elif fault.do == "move":
            self.move(fault.group or "")
        elif fault.do == "add_partitions":
            self.world.add_partitions(fault.topic or "", fault.partitions or 0, self._now_ms)
        elif fault.do == "clock":
            self.set_clock_rate(fault.rate or 1.0)
        elif fault.do == "disconnect":
            for connection in [each for each in self.connections if each.client_id == fault.client_id]:
                self.end(connection, "the script of faults says so")

    def expire(self, group_id: str, client_id: str | None = None) -> None:
        """Ends the sessions of a group's members with this client id, or of all its members if it is None."""
        node, coordinator = self._coordinator(group_id)
        group = coordinator.group(group_id) or coordinator.consumer_group(group_id)
        for member in list(group.members.values()) if group is not None else ():
            if client_id in (None, member.client_id):
                result = coordinator.expire_member(group_id, member.member_id, now_ms=self._now_ms)
                self._settle(node, self.world.brokers.append(result))

    def rebalance(self, group_id: str) -> None:
        node, coordinator = self._coordinator(group_id)
        result = coordinator.begin_rebalance(group_id, now_ms=self._now_ms)
        self._settle(node, self.world.brokers.append(result))

    def move(self, group_id: str) -> None:
        """Moves the group's partition of `__consumer_offsets` to the next node, which takes LOADING_MS to load it."""
        brokers = self.world.brokers
        partition = brokers.partition_for(group_id)
        to_node = (brokers.leaders[partition] + 1) % self.world.node_count
        for node, result in brokers.take_back(to_node, [partition], self._now_ms):
            self._settle(node, result)
        self._at(self._now_ms + LOADING_MS, lambda: self._load(partition))

    def _load(self, partition: int) -> None:
        for node, result in self.world.brokers.load([partition], self._now_ms):
            self._settle(node, result)

    # For tests

    def group(self, group_id: str) -> Group | None:
        group: Group | None = self._coordinator(group_id)[1].group(group_id)
        return group

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Returns the group, or None if it is not a consumer group of KIP-848."""
        group: ConsumerGroup | None = self._coordinator(group_id)[1].consumer_group(group_id)
        return group

    def committed(self, group_id: str) -> list[tuple[str, int, int]]:
        """Returns (topic, partition, offset) of the group's committed offsets."""
        shard = self._coordinator(group_id)[1].shard(self.world.brokers.partition_for(group_id))
        offsets = [] if shard is None else shard.offsets.committed.of_group(group_id)
        return [(topic, partition, stored.value["offset"]) for topic, partition, stored in offsets]

    def _coordinator(self, group_id: str) -> tuple[int, Any]:
        brokers = self.world.brokers
        node = brokers.leaders[brokers.partition_for(group_id)]
        return node, brokers.coordinators[node]


def _refused(request: model.Request, error: Error) -> model.Response:
    """Returns the answer that refuses a whole request, also where its groups are answered one by one."""
    if isinstance(request, model.OffsetFetchRequest):
        fetched = tuple(model.FetchedGroup(each.group_id, error) for each in request.groups)
        return model.OffsetFetchResponse(request.request_id, fetched)
    if isinstance(request, model.DescribeGroupsRequest):
        described = tuple(model.DescribedGroup(group_id=group_id, error=error) for group_id in request.group_ids)
        return model.DescribeGroupsResponse(request.request_id, described)
    if isinstance(request, model.ConsumerGroupDescribeRequest):
        refusals = tuple(model.DescribedConsumerGroup(group_id=group_id, error=error) for group_id in request.group_ids)
        return model.ConsumerGroupDescribeResponse(request.request_id, groups=refusals)
    return refusal(request, error)


_OF_CLUSTER: dict[ApiKey, Callable[[Incoming, World], Any]] = {
    ApiKey.API_VERSIONS: cluster_answers.api_versions,
    ApiKey.METADATA: cluster_answers.metadata,
    ApiKey.FIND_COORDINATOR: cluster_answers.find_coordinator,
    ApiKey.DESCRIBE_CLUSTER: cluster_answers.describe_cluster,
}
_OF_TOPICS: dict[ApiKey, Callable[[Incoming, World, int], Any]] = {
    ApiKey.CREATE_TOPICS: topic_answers.create_topics,
    ApiKey.CREATE_PARTITIONS: topic_answers.create_partitions,
}
_OF_LOGS: dict[ApiKey, Callable[[Incoming, World, int, int], Any]] = {
    ApiKey.LIST_OFFSETS: log_answers.list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: log_answers.epoch_ends,
    ApiKey.PRODUCE: log_answers.produce,
}
_OF_TRANSACTIONS: dict[ApiKey, Callable[[Transactions, Incoming], Any]] = {
    ApiKey.INIT_PRODUCER_ID: Transactions.init_producer_id,
    ApiKey.ADD_OFFSETS_TO_TXN: Transactions.add_offsets,
    ApiKey.END_TXN: Transactions.end,
    ApiKey.DESCRIBE_TRANSACTIONS: Transactions.describe,
}

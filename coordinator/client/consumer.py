"""Models one consumer of a group: Kafka's Java consumer (4.2) without clock, threads and sockets, for any group
protocol.

The parts, and the classes of Kafka's client that they model:

    network              ConsumerNetworkClient      requests on their way, answers not yet looked at
    metadata             Metadata                   topics, partitions, leaders, racks
    coordinator_lookup   AbstractCoordinator        who coordinates the group
    membership           AbstractCoordinator        join, sync, heartbeat, leave
    rebalance            ConsumerCoordinator        what a rebalance does to partitions; the leader's assignment
    heartbeat_membership AbstractMembershipManager  both of these, for members that send nothing but heartbeats:
    modern_membership    ConsumerMembershipManager    in a KIP-848 group
    share_membership     ShareMembershipManager       in a share group (its records are not fetched here)
    streams_membership   StreamsMembershipManager     in a streams group (the consumer is that of one thread)
    ownership            both                       what a member gives up and takes
    commits              ConsumerCoordinator        committing offsets
    positions            OffsetFetcher              where to begin
    fetcher              Fetcher                    records
    reactions            the response handlers      what is done about each error code

It differs from Java's client where Java's behaviour depends on chance: backoffs have no jitter, and the heartbeat
thread wakes exactly when it has something to do, instead of every retry.backoff.ms. A failed join and a failed fetch
wait for retry.backoff.ms; in Java's poll loop this wait depends on the poll timeout and on the state of connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.commits import OffsetCommits
from groupledger.coordinator.client.config import CLASSIC, CONSUMER, SHARE, STREAMS
from groupledger.coordinator.client.coordinator_lookup import CoordinatorLookup
from groupledger.coordinator.client.events import ClientError, FatalError
from groupledger.coordinator.client.fetcher import Fetcher
from groupledger.coordinator.client.heartbeat import Heartbeat
from groupledger.coordinator.client.membership import Membership, MemberState
from groupledger.coordinator.client.messages import Destination
from groupledger.coordinator.client.metadata import Metadata
from groupledger.coordinator.client.modern_membership import ModernMembership
from groupledger.coordinator.client.network import Network
from groupledger.coordinator.client.positions import Positions
from groupledger.coordinator.client.rebalance import Rebalance
from groupledger.coordinator.client.share_membership import ShareMembership
from groupledger.coordinator.client.streams_membership import StreamsMembership
from groupledger.coordinator.client.subscriptions import Subscriptions
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.schemas.kafka.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.events import ConsumerEvent, Polled
    from groupledger.coordinator.client.fetch_state import FetchState
    from groupledger.coordinator.client.heartbeat_membership import HeartbeatMembership, ModernState
    from groupledger.coordinator.client.messages import Sent
    from groupledger.coordinator.model.messages import Response

__all__ = ["Consumer", "MemberState"]

CLOSE_TIMEOUT_MS = 30_000
_MEMBERSHIPS: Mapping[str, type[HeartbeatMembership[Any, Any]]] = {
    CONSUMER: ModernMembership,
    SHARE: ShareMembership,
    STREAMS: StreamsMembership,
}


class Consumer:
    """One consumer, called on behalf of the two threads of a Java consumer: the application's and the heartbeat's.

    No method blocks. To model an application that is blocked in poll(Duration), call `poll` again after each `receive`,
    `advance` and `disconnected`; while the application processes records, call nothing. Between polls, responses wait
    as they do in Java. A member of a classic group reads from the network in the background only while its heartbeat
    thread runs (completing_rebalance, stable); a member of any other group always does. So a simulator calls `receive`
    whenever a response arrives, and the consumer decides when it reads the response. To model a process that is paused,
    call nothing at all; when it resumes, `advance` before `poll` lets the heartbeat thread wake first, and `poll`
    before `advance` the application.
    """

    def __init__(self, config: ConsumerConfig, new_request_id: Callable[[], int], new_uuid: Callable[[], str]) -> None:
        """`new_uuid` returns the random id that the broker would make for a member of a classic group, in Java's form,
        or that a member of any other group makes for itself, in Kafka's form."""
        self.config = config
        self._events: list[ConsumerEvent] = []
        emit = self._events.append
        heartbeat = Heartbeat(config)
        self._network = Network(new_request_id)
        self._subscriptions = Subscriptions()
        self._owned = self._subscriptions
        self._metadata = Metadata(config, self._network, self._subscriptions)
        self._lookup = CoordinatorLookup(config, self._network, self._metadata, heartbeat, emit)
        self._membership: Membership | HeartbeatMembership[Any, Any]
        self._rebalance: Rebalance | HeartbeatMembership[Any, Any]
        if config.group_protocol == CLASSIC:
            classic = Membership(config, self._network, self._lookup, heartbeat, emit=emit, new_uuid=new_uuid)
            self._commits = OffsetCommits(config, self._network, self._lookup, classic, self._subscriptions, emit=emit)
            rebalance = Rebalance(config, self._metadata, self._subscriptions, classic, self._commits, emit=emit)
            self._membership, self._rebalance, classic.hooks = classic, rebalance, rebalance
        else:
            modern = _MEMBERSHIPS[config.group_protocol](
                *(config, self._network, self._lookup, self._metadata, self._subscriptions),
                emit=emit,
                member_id=new_uuid(),
            )
            self._commits = OffsetCommits(config, self._network, self._lookup, modern, self._subscriptions, emit=emit)
            self._membership = self._rebalance = modern
            modern.commits, self._owned = self._commits, modern.owned
        self._positions = Positions(
            config, self._network, self._lookup, self._metadata, self._subscriptions, self._membership, emit=emit
        )
        self._fetcher = Fetcher(config, self._network, self._metadata, self._subscriptions)
        parts = self._network, self._metadata, self._lookup, self._membership, self._rebalance
        self._parts = tuple(dict.fromkeys((*parts, self._commits, self._positions, self._fetcher)))
        self._served_ms = -1
        self._close_until_ms: int | None = None
        self._has_left = False
        self.is_closed = False

    # The application's thread

    def subscribe(self, topics: Iterable[str], now_ms: int, pattern: str = "") -> None:
        """Replaces the subscription, from the next poll on. If there are neither topics nor a pattern, the member
        leaves the group at once. Only a consumer of a KIP-848 group may have a pattern, which the broker resolves."""
        if pattern and self.config.group_protocol != CONSUMER:
            raise IllegalStateError("a broker resolves patterns for the group protocol `consumer` alone")
        topics = tuple(topics)
        if not topics and not pattern and self._subscriptions.is_subscribed:
            self._rebalance.prepare_leave(now_ms)
            self._membership.leave("the consumer unsubscribed from all topics", now_ms)
        if self._subscriptions.subscribe(topics, pattern):
            self._metadata.request_update()

    def poll(self, now_ms: int) -> tuple[Polled, ...]:
        """Does all coordinator work that can be done now, and returns at once the records that have been fetched."""
        if self._close_until_ms is not None:
            raise IllegalStateError("this consumer has been closed")
        polled: tuple[Polled, ...] = ()
        if self._subscriptions.is_subscribed:
            self._membership.polled(now_ms)
        self._serve(now_ms)
        try:
            self._metadata.raise_errors()
            if self._coordinate(now_ms):
                self._positions.update(now_ms)
            polled = self._fetcher.collect(now_ms)
            self._fetcher.send(now_ms)
        except ClientError as error:
            self._events.append(FatalError(now_ms, error.error, error.reason, error.partitions))
        self._metadata.maybe_send(now_ms)
        return polled

    def _coordinate(self, now_ms: int) -> bool:
        """Returns whether committed offsets may be fetched now (Kafka's ConsumerCoordinator#poll)."""
        self._rebalance.notice_metadata()
        self._commits.raise_if_fenced()
        if self._subscriptions.is_subscribed:
            self._membership.raise_heartbeat_failure()
            if not self._lookup.ensure_known(now_ms):
                return False
            self._rebalance.notice_changes(now_ms)
            if not self._membership.ensure_active_group(now_ms):
                return False
        self._commits.maybe_auto_commit(now_ms)
        return True

    def commit(self, now_ms: int, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commits asynchronously, by default the positions of all owned partitions. The outcome is an event."""
        self._commits.commit(offsets, now_ms)

    def close(self, now_ms: int) -> None:
        """Commits if auto-commit is on, and then leaves the group, unless the member is static.

        After this the application calls nothing more. The caller still delivers responses by `receive` and calls
        `advance` until `is_closed`, that is, until the responses have arrived or CLOSE_TIMEOUT_MS has passed. The last
        requests of `take_requests` are sent without waiting for their responses.
        """
        self._close_until_ms = now_ms + CLOSE_TIMEOUT_MS
        self._serve(now_ms)

    def _close(self, until_ms: int, now_ms: int) -> None:
        if not self._has_left:
            try:
                is_over = self._commits.is_settled(now_ms) or now_ms >= until_ms
            except ClientError:  # no coordinator can be found: Java logs this and goes on
                is_over = True
            if not is_over:
                return
            self._has_left = True
            self._rebalance.prepare_leave(now_ms)
            self._membership.leave("the consumer is being closed", now_ms)
        if now_ms >= until_ms or not self._network.is_waiting_for(Destination.COORDINATOR):
            self.is_closed = True

    # The network and the heartbeat thread

    def take_requests(self) -> tuple[Sent, ...]:
        """Returns the requests to send now, in order; each request is returned once."""
        return self._network.take_requests()

    def receive(self, response: Response, now_ms: int) -> None:
        """Takes a response that has arrived. A response that is no longer expected is dropped."""
        self._network.arrive(response)
        self._serve_in_background(now_ms)

    def disconnected(self, destination: Destination, now_ms: int) -> None:
        """Handles a lost connection: all responses still expected from `destination` are lost."""
        self._network.lose(destination)
        if destination is Destination.COORDINATOR:
            self._network.when_served(self._lookup.connection_lost)
        self._serve_in_background(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Returns the time at which to call `advance` next, and then `poll` if the application is blocked in poll. The
        timeouts of requests in flight count, too.

        None means that nothing is due at a known time, or that the consumer is closed. A deadline that has passed, but
        that only the application's thread can handle, does not count: its next poll handles it.
        """
        if self.is_closed:
            return None
        earliest_ms = self._close_until_ms
        if earliest_ms is not None and earliest_ms <= self._served_ms:
            earliest_ms = None
        for part in self._parts:  # a plain loop: a simulation spends a good part of its time here
            for deadline_ms in part.deadlines():
                if deadline_ms > self._served_ms and (earliest_ms is None or deadline_ms < earliest_ms):
                    earliest_ms = deadline_ms
        return earliest_ms

    def advance(self, now_ms: int) -> None:
        """Lets the heartbeat thread act, if it runs: heartbeats, session and poll expiry, look-up, request timeouts."""
        self._serve_in_background(now_ms)

    def _serve_in_background(self, now_ms: int) -> None:
        if self._membership.runs_heartbeats or self._close_until_ms is not None:
            self._serve(now_ms)
        else:
            self._served_ms = max(self._served_ms, now_ms)

    def _serve(self, now_ms: int) -> None:
        """Does the work of both threads when they serve the network."""
        self._served_ms = max(self._served_ms, now_ms)
        self._network.serve(now_ms)
        self._metadata.maybe_send(now_ms)
        self._membership.lead(now_ms)
        self._membership.run_heartbeats(now_ms)
        if self._close_until_ms is not None and not self.is_closed:
            self._close(self._close_until_ms, now_ms)

    # To look at

    def take_events(self) -> tuple[ConsumerEvent, ...]:
        """Returns the events since the last call, in order."""
        taken = tuple(self._events)
        self._events.clear()
        return taken

    @property
    def state(self) -> MemberState | ModernState:
        return self._membership.state

    @property
    def member_id(self) -> str:
        return self._membership.generation.member_id

    @property
    def generation_id(self) -> int:
        return self._membership.generation.generation_id

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """Returns the partitions that the member owns now, or in a share group shares with others."""
        return self._owned.assignment

    def position(self, topic: str, partition: int) -> int | None:
        """Returns the offset of the record that is polled next. Returns None if it is not known yet, or the partition
        is not owned."""
        state = self._subscriptions.partitions.get(TopicPartition(topic, partition))
        return None if state is None or state.position is None else state.position.offset

    def fetch_state(self, topic: str, partition: int) -> FetchState | None:
        """Returns what the consumer does with a partition: it looks for a position, fetches, or waits for a reset or a
        validation of its offset. None if the partition is not owned."""
        state = self._subscriptions.partitions.get(TopicPartition(topic, partition))
        return None if state is None else state.fetch_state

"""Models a member that communicates only by heartbeats: how it joins, reconciles, acknowledges and leaves, and how it
is fenced.

    state          the member                             next event                         -> next state
    UNSUBSCRIBED   is not a member                        the first poll                     -> JOINING
    JOINING        sends all fields, with epoch 0         a target arrives                   -> RECONCILING
    RECONCILING    gives up and takes partitions          both are done                      -> ACKNOWLEDGING
    ACKNOWLEDGING  has to report its partitions           the heartbeat is sent              -> STABLE, RECONCILING
    STABLE         owns its target                        another target arrives             -> RECONCILING
    FENCED         is unknown to the coordinator          it has given up all partitions     -> JOINING
    STALE          left, because nobody polled            the next poll                      -> JOINING
    LEAVING        has to send its last heartbeat         the heartbeat is sent              -> UNSUBSCRIBED
    FATAL          was refused for good                   poll throws

This holds for KIP-848 groups, share groups and streams groups alike. The fields of the heartbeats, and the target, are
in a class for each type (`modern_membership`, `share_membership`, `streams_membership`). The coordinator assigns; the
member sends each field only when it has changed, and all of them when it joins and after a failed heartbeat. A
background thread sends the heartbeats and takes the responses, whatever the application does. There is no rebalance
listener here. It differs from Java's client where chance comes in: backoffs have no jitter, and a member that joins
waits for the backoff like any other.

Source: AbstractMembershipManager, AbstractHeartbeatRequestManager, StreamsMembershipManager and
StreamsGroupHeartbeatRequestManager of Kafka 4.2's clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from groupledger.coordinator.client.events import ClientError, Fenced, Left, PollTimeout
from groupledger.coordinator.client.membership import MemberGeneration
from groupledger.coordinator.client.network import backoff_ms
from groupledger.coordinator.client.ownership import MemberOwnership
from groupledger.coordinator.client.reactions import Reset, Then, reaction_to
from groupledger.coordinator.model.apis import API_OF_REQUEST
from groupledger.coordinator.model.groups.modern.epochs import AWAY, LEFT
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.coordinator_lookup import CoordinatorLookup
    from groupledger.coordinator.client.events import Emit
    from groupledger.coordinator.client.metadata import Metadata
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.client.subscriptions import Subscriptions
    from groupledger.coordinator.model.messages import Request
    from groupledger.schemas.kafka.topic_partition import TopicPartition

JOINING_EPOCH = 0
Target = TypeVar("Target")
"""The partitions or tasks that a member is to have."""
Words = TypeVar("Words")
"""The fields that a heartbeat has only if they have changed since the last one."""


class ModernState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    STALE = "stale"
    LEAVING = "leaving"
    FATAL = "fatal"


_IN_GROUP = (ModernState.JOINING, ModernState.RECONCILING, ModernState.ACKNOWLEDGING, ModernState.STABLE)
_AT_ONCE = (ModernState.JOINING, ModernState.ACKNOWLEDGING)


class PendingCommits(Protocol):
    """The part of the consumer's commits that a membership uses."""

    def is_settled(self, now_ms: int) -> bool:
        """Returns whether the consumed offsets are committed, or need not be. The membership calls this again until it
        is true."""

    def forget_settlement(self) -> None:
        """Forgets the commit that `is_settled` has begun, so that its next call begins another one."""


class HeartbeatMembership(ABC, Generic[Target, Words]):
    """The membership of one consumer and its rebalances. It has those methods of `Membership` and `Rebalance` that a
    consumer calls."""

    commits: PendingCommits  # set once by the consumer, since commits need the membership too
    _api: ClassVar[type[Request]]

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        lookup: CoordinatorLookup,
        metadata: Metadata,
        subscriptions: Subscriptions,
        *,
        emit: Emit,
        member_id: str,
    ) -> None:
        self._config = config
        self._network = network
        self._lookup = lookup
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._emit = emit
        self.owned = self._place_of_owned(subscriptions)
        self._ownership = MemberOwnership(self.owned, emit)
        self._target: Target | None = None
        self._current: Target | None = None  # the last reconciled target; even an empty one is acknowledged
        self._topic_ids: dict[str, str] = {}  # by name, of all topics that the member got by id
        self._said: Words | None = None  # in the last heartbeat
        self._reconciles_until_ms: int | None = None
        self._interval_ms = 0
        self._due_ms = self._not_before_ms = 0
        self._poll_expires_ms = 0
        self._failures = 0
        self._asked_for: int | None = None  # the heartbeat that is on its way; another one is not sent meanwhile
        self._fatal: ClientError | None = None
        self.state = ModernState.UNSUBSCRIBED
        self.generation = MemberGeneration(JOINING_EPOCH, member_id)

    # What each type of group has of its own

    def _place_of_owned(self, subscriptions: Subscriptions) -> Subscriptions:
        """Returns where the partitions are that the member has: those that it fetches, if it fetches any."""
        return subscriptions

    @property
    @abstractmethod
    def _waits_for_poll(self) -> bool:
        """Whether the application's thread has to be in poll while the member gives up and takes."""

    @abstractmethod
    def _request(self, request_id: int, epoch: int) -> Request:
        """Returns a heartbeat, and remembers its fields."""

    @abstractmethod
    def _target_in(self, response: Any) -> Target | None:
        """Returns the target in a response; None if it has none."""

    @abstractmethod
    def _attainable(self, target: Target) -> Target:
        """Returns the target as far as the member can have it now."""

    @abstractmethod
    def _partitions(self, target: Target) -> Sequence[TopicPartition]:
        """Returns the partitions that an attainable target consists of, in order."""

    # How it stands

    @property
    def may_commit(self) -> bool:
        return self.generation.generation_id > JOINING_EPOCH

    @property
    def _is_in_group(self) -> bool:
        return self.state in _IN_GROUP

    def _at_epoch(self, epoch: int) -> None:
        self.generation = MemberGeneration(epoch, self.generation.member_id)

    # The application's thread

    def polled(self, now_ms: int) -> None:
        self._poll_expires_ms = now_ms + self._config.max_poll_interval_ms
        if self.state in (ModernState.UNSUBSCRIBED, ModernState.STALE):
            self._join()

    def raise_heartbeat_failure(self) -> None:
        if self._fatal is not None:
            raise self._fatal

    def notice_metadata(self) -> None:
        """Does nothing: a member that lacks a topic's name looks for it in the metadata each time it reconciles."""

    def notice_changes(self, now_ms: int) -> None:
        """Does nothing: a changed subscription is sent with the next heartbeat that is due."""

    def ensure_active_group(self, now_ms: int) -> bool:
        """Reconciles if the reconciliation was waiting for a poll, and sends a heartbeat if one is due. Always returns
        True, since committed offsets may be fetched at any time."""
        self._reconcile(now_ms, is_polled=True)
        self.run_heartbeats(now_ms)
        return True

    def prepare_leave(self, now_ms: int) -> None:
        self._ownership.give_up(self.owned.assignment, now_ms, is_lost=not self.may_commit)

    def leave(self, reason: str, now_ms: int) -> None:
        """Leaves the group. A static member announces that it will come back."""
        if self._is_in_group and self._lookup.is_known:
            self._leave(reason, now_ms)
        self.state = ModernState.UNSUBSCRIBED
        self._at_epoch(JOINING_EPOCH)

    # The thread in the background

    @property
    def runs_heartbeats(self) -> bool:
        return self.state is not ModernState.UNSUBSCRIBED

    def lead(self, now_ms: int) -> None:
        """Does nothing, because the coordinator assigns partitions and no member does."""

    def run_heartbeats(self, now_ms: int) -> None:
        """Does the work of the background thread."""
        self._reconcile(now_ms, is_polled=False)
        if not self._is_in_group:
            return
        if not self._lookup.is_known:
            self._lookup.ask_again(now_ms)
        elif now_ms >= self._poll_expires_ms:
            self._emit(PollTimeout(now_ms, self.generation.generation_id, self.generation.member_id))
            self._leave("nobody polled for max.poll.interval.ms", now_ms)
            self._release(now_ms, ModernState.STALE)
        elif self._asked_for is None and now_ms >= self._next_heartbeat_ms:
            self._send(self.generation.generation_id, now_ms)

    @property
    def _next_heartbeat_ms(self) -> int:
        return self._not_before_ms if self.state in _AT_ONCE else max(self._due_ms, self._not_before_ms)

    def deadlines(self) -> list[int]:
        deadlines = [] if self._reconciles_until_ms is None else [self._reconciles_until_ms]
        if self._is_in_group and self._lookup.is_known:
            deadlines += [self._poll_expires_ms, *([self._next_heartbeat_ms] if self._asked_for is None else [])]
        return deadlines

    def _leave(self, reason: str, now_ms: int) -> None:
        self.state = ModernState.LEAVING
        self._send(LEFT if self._config.group_instance_id is None else AWAY, now_ms)
        self._emit(Left(now_ms, self.generation.member_id, reason))

    def _join(self) -> None:
        self.state = ModernState.JOINING
        self._at_epoch(JOINING_EPOCH)
        self._target, self._current, self._said = None, None, None

    # Heartbeats

    def _send(self, epoch: int, now_ms: int) -> None:
        """Sends a heartbeat with the fields that have changed; a member that joins or has lost its connection sends
        all."""
        request = self._request(self._network.new_request_id(), epoch)
        self._asked_for, self._due_ms = request.request_id, now_ms + self._interval_ms
        if self.state is ModernState.ACKNOWLEDGING:
            self.state = ModernState.STABLE if self._current == self._target else ModernState.RECONCILING

        def answered(response: Any, then_ms: int) -> None:
            if self._asked_for == request.request_id:
                self._asked_for = None
                self._answered(response, then_ms)

        def lost(then_ms: int) -> None:
            if self._asked_for == request.request_id:
                self._asked_for = None
                self._failed(then_ms)

        self._lookup.send(request, now_ms, answered, lost)

    def _answered(self, response: Any, now_ms: int) -> None:
        if response.error is not Error.NONE:
            self._refused(response.error, now_ms)
            return
        self._failures = 0
        if response.heartbeat_interval_ms != self._interval_ms:
            self._interval_ms = response.heartbeat_interval_ms
            self._due_ms = now_ms + self._interval_ms
        if not self._is_in_group:
            return
        self._at_epoch(response.member_epoch)
        target = self._target_in(response)
        if target is None:
            return
        self._target = target
        if self._target != self._current:
            self.state = ModernState.RECONCILING
        elif self.state in (ModernState.JOINING, ModernState.RECONCILING):
            self.state = ModernState.STABLE

    def _refused(self, error: Error, now_ms: int) -> None:
        reaction = reaction_to(error, self._api)
        if reaction.rediscover:
            self._said = None
            self._lookup.give_up(f"error response {error.name}", now_ms)
        elif reaction.then is Then.BACK_OFF:
            self._failed(now_ms)
        elif reaction.reset is Reset.NOTHING:
            self._release(now_ms, ModernState.FATAL)
            api = "".join(word.capitalize() for word in API_OF_REQUEST[self._api].name.split("_"))
            self._fatal = ClientError(error, f"{api} failed: {error.name}")
            if error is Error.FENCED_INSTANCE_ID:
                self._emit(Fenced(now_ms, self._config.group_instance_id or ""))
        elif self._is_in_group:
            self._release(now_ms, ModernState.FENCED)
            self._join()

    def _failed(self, now_ms: int) -> None:
        self._said = None
        self._not_before_ms = now_ms + backoff_ms(self._config, self._failures)
        self._failures += 1

    # What the member has

    def _release(self, now_ms: int, state: ModernState) -> None:
        """Gives up everything, without a commit, since the membership is lost."""
        self.state = state
        self._reconciles_until_ms = None
        self.commits.forget_settlement()
        self._at_epoch(JOINING_EPOCH)
        self._ownership.give_up(self.owned.assignment, now_ms, is_lost=True)
        self._target, self._current = None, None

    def _reconcile(self, now_ms: int, *, is_polled: bool) -> None:
        """Goes to the target as far as it is attainable. Partitions that are given up are committed before, where that
        is automatic, for as long as the rebalance timeout."""
        if self.state is not ModernState.RECONCILING or (self._waits_for_poll and not is_polled):
            return
        wanted = None if self._target is None else self._attainable(self._target)
        if wanted is None or wanted == self._current:
            return
        if self._reconciles_until_ms is None:
            self._reconciles_until_ms = now_ms + self._config.max_poll_interval_ms
        if not self.commits.is_settled(now_ms) and now_ms < self._reconciles_until_ms:
            return
        assigned = self._partitions(wanted)
        self._ownership.give_up(tuple(each for each in self.owned.assignment if each not in assigned), now_ms)
        self._ownership.take(assigned, self.generation, now_ms, protocol_name=self._config.server_assignor or "")
        self._current, self._reconciles_until_ms = wanted, None
        self.commits.forget_settlement()
        self.state = ModernState.ACKNOWLEDGING

    def commit_refused(self, error: Error, sent_for: MemberGeneration, now_ms: int) -> None:
        """Does nothing: only a heartbeat can end the membership."""

"""Models how a member joins, syncs, heartbeats and leaves (the member half of Kafka's AbstractCoordinator).

    UNJOINED              is not a member, or no longer           JoinGroup is sent        -> PREPARING_REBALANCE
    PREPARING_REBALANCE   JoinGroup is out                        it succeeds              -> COMPLETING_REBALANCE
    COMPLETING_REBALANCE  SyncGroup is out                        it succeeds              -> STABLE
    STABLE                has an assignment                       the next JoinGroup       -> PREPARING_REBALANCE
    any                   membership lost (error, leave, poll expiry)                      -> UNJOINED

Two threads act on it. The application's thread, inside poll, starts and completes every rebalance
(`ensure_active_group`). The heartbeat thread (`run_heartbeats`) runs from the JoinGroup's success until the membership
is lost or the next JoinGroup is sent. So a member whose application does not poll while its JoinGroup is out sends no
heartbeats, and does not see the answer. A JoinGroup carries the latest reason for a rejoin, and the broker logs it.
`RebalanceHooks`, which rebalance.py implements, gives up and takes partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from groupledger.coordinator.client.events import ClientError, Fenced, Left, PollTimeout, RejoinRequested
from groupledger.coordinator.client.reactions import Reset, Then, exception_name, reaction_to
from groupledger.coordinator.model.apis import API_OF_REQUEST
from groupledger.coordinator.model.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from groupledger.coordinator.model.messages import (
    NO_GENERATION,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.kafka.rebalance_reasons import POLL_TIMEOUT_REASON

if TYPE_CHECKING:
    from collections.abc import Callable

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.coordinator_lookup import CoordinatorLookup
    from groupledger.coordinator.client.events import Emit
    from groupledger.coordinator.client.heartbeat import Heartbeat
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.model.messages import Protocols, Request, Response


JOIN_GROUP_TIMEOUT_LAPSE_MS = 5_000  # a JoinGroup may wait for the rebalance timeout, and some time more
MAX_REASON_LENGTH = 255


class MemberState(Enum):
    UNJOINED = "unjoined"
    PREPARING_REBALANCE = "preparing_rebalance"
    COMPLETING_REBALANCE = "completing_rebalance"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class MemberGeneration:
    generation_id: int = NO_GENERATION
    member_id: str = ""
    protocol_name: str | None = None

    def __str__(self) -> str:
        """Returns Java's toString, which can become the reason of a join."""
        return (
            f"Generation{{generationId={self.generation_id}, memberId='{self.member_id}',"
            f" protocol='{self.protocol_name or 'null'}'}}"
        )


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """A rebalance from JoinGroup to SyncGroup; `name` is that of the exception that it failed with."""

    leading: JoinGroupResponse | None = None  # the assignment is still to be made
    assignment: bytes | None = None
    failed: Then | None = None
    name: str = ""
    error: Error | None = None

    def fail(self, then: Then, name: str, error: Error | None = None) -> None:
        self.failed, self.name, self.error = then, name, error


Assignments = tuple[tuple[str, bytes], ...]
"""A leader's assignment: (member id, bytes) of every member."""


class RebalanceHooks(Protocol):
    """The functions that a membership calls, which Kafka's AbstractCoordinator leaves to its subclasses."""

    def prepare_join(self, generation: MemberGeneration, now_ms: int) -> bool:
        """Returns whether a JoinGroup may be sent now. The membership calls this again until it is true."""

    def protocols(self, generation: MemberGeneration) -> Protocols:
        """Returns the protocols in the JoinGroup."""

    def assign(self, response: JoinGroupResponse, now_ms: int) -> Assignments | None:
        """Returns the leader's assignment, or None while it cannot be made yet. Raises ClientError if it can never be
        made."""

    def complete_join(self, generation: MemberGeneration, assignment: bytes, now_ms: int) -> None:
        """Takes over the partitions of the member's assignment."""


class Membership:
    hooks: RebalanceHooks  # set once by the consumer, since the hooks need the membership too

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        lookup: CoordinatorLookup,
        heartbeat: Heartbeat,
        *,
        emit: Emit,
        new_uuid: Callable[[], str],
    ) -> None:
        self._config = config
        self._network = network
        self._lookup = lookup
        self._heartbeat = heartbeat
        self._emit = emit
        self._new_uuid = new_uuid
        self._attempt: _Attempt | None = None
        self._next_join_ms = 0
        self._rejoin_needed = True
        self._rejoin_reason = ""
        self._needs_join_prepare = True
        self._heartbeat_failure: ClientError | None = None
        self.state = MemberState.UNJOINED
        self.generation = MemberGeneration()

    @property
    def is_static(self) -> bool:
        return self._config.group_instance_id is not None

    @property
    def is_rebalancing(self) -> bool:
        return self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)

    @property
    def may_commit(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def rejoin_needed(self) -> bool:
        """Returns whether a rebalance is needed or in progress."""
        return self._rejoin_needed or self._attempt is not None

    # The application's thread

    def polled(self, now_ms: int) -> None:
        self._heartbeat.polled(now_ms)

    def raise_heartbeat_failure(self) -> None:
        if self._heartbeat_failure is not None:
            failure, self._heartbeat_failure = self._heartbeat_failure, None
            raise failure

    def ensure_active_group(self, now_ms: int) -> bool:
        """Takes the steps that are possible now of a rebalance that is due. Returns whether no rebalance is due any
        more."""
        while self.rejoin_needed:
            if not self._lookup.ensure_known(now_ms):
                return False
            if self._needs_join_prepare:
                if not self.hooks.prepare_join(self.generation, now_ms):
                    return False
                self._needs_join_prepare = False
            if self._attempt is None:
                if now_ms < self._next_join_ms:
                    return False
                self._attempt = _Attempt()
                self._join(self._attempt, now_ms)
            if not self._conclude(self._attempt, now_ms):
                return False
        return True

    def _conclude(self, attempt: _Attempt, now_ms: int) -> bool:
        """Ends an attempt that has succeeded or failed. Returns whether the next step may follow at once."""
        if attempt.assignment is not None:
            if self.state is MemberState.STABLE:
                self.hooks.complete_join(self.generation, attempt.assignment, now_ms)
                self._needs_join_prepare = True
            else:
                reason = (
                    "rebalance failed since the generation/state was modified by heartbeat thread to"
                    f" {self.generation}/{self.state.name} before the rebalance callback triggered"
                )
                self._reset_and_rejoin(reason, now_ms, forget_member=True)
            self._attempt = None
            return True
        if attempt.failed is None:
            return False
        self._attempt = None
        if attempt.error is not Error.MEMBER_ID_REQUIRED:  # whose handler gave a better reason
            self.request_rejoin(f"rebalance failed due to {attempt.name}", now_ms)
        if attempt.failed is Then.RAISE:
            raise ClientError(attempt.error, f"rebalance failed due to {attempt.name}")
        if attempt.failed is Then.BACK_OFF:
            self._next_join_ms = now_ms + self._config.retry_backoff_ms
        return attempt.failed is Then.AT_ONCE

    # Join and sync

    def _join(self, attempt: _Attempt, now_ms: int) -> None:
        self.state = MemberState.PREPARING_REBALANCE
        sent_for = self.generation
        request = JoinGroupRequest(
            self._network.new_request_id(),
            self._config.group_id,
            member_id=sent_for.member_id,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=self.hooks.protocols(sent_for),
            new_member_uuid=self._new_uuid(),
            group_instance_id=self._config.group_instance_id,
            reason=self._rejoin_reason[:MAX_REASON_LENGTH],
            client_id=self._config.client_id,
            client_host=self._config.client_host,
        )

        def joined(response: JoinGroupResponse, then_ms: int) -> None:
            if response.error is Error.NONE:
                self._joined(response, attempt, then_ms)
            elif response.error is Error.MEMBER_ID_REQUIRED:
                self.generation = MemberGeneration(member_id=response.member_id)
                self.request_rejoin(f"need to re-join with the given member-id: {response.member_id}", then_ms)
                attempt.fail(Then.AT_ONCE, "", response.error)
            else:
                self._failed(JoinGroupRequest, response.error, sent_for, attempt, then_ms)

        timeout_ms = self._config.max_poll_interval_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS
        self._send(request, joined, attempt, now_ms, timeout_ms)

    def _joined(self, response: JoinGroupResponse, attempt: _Attempt, now_ms: int) -> None:
        if response.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            attempt.fail(Then.RAISE, "InconsistentGroupProtocolException", Error.INCONSISTENT_GROUP_PROTOCOL)
        elif self.state is not MemberState.PREPARING_REBALANCE:  # the member has left in the meantime
            attempt.fail(Then.BACK_OFF, "UnjoinedGroupException")
        else:
            self.state = MemberState.COMPLETING_REBALANCE
            self._heartbeat.reset(now_ms)
            self.generation = MemberGeneration(response.generation_id, response.member_id, response.protocol_name)
            if response.leader == response.member_id:
                attempt.leading = response
                self.lead(now_ms)
            else:
                self._sync((), attempt, now_ms)

    def lead(self, now_ms: int) -> None:
        """Makes the assignment, if this member leads a generation that waits for it and its metadata is fresh."""
        attempt = self._attempt
        if attempt is None or attempt.leading is None:
            return
        if self.state is not MemberState.COMPLETING_REBALANCE:
            attempt.leading = None
            attempt.fail(Then.AT_ONCE, "IllegalGenerationException", Error.ILLEGAL_GENERATION)
            return
        try:
            assignments = self.hooks.assign(attempt.leading, now_ms)
        except ClientError as error:
            attempt.leading = None
            attempt.fail(Then.RAISE, error.reason)
            return
        if assignments is not None:
            attempt.leading = None
            self._sync(assignments, attempt, now_ms)

    def _sync(self, assignments: Assignments, attempt: _Attempt, now_ms: int) -> None:
        if not self._lookup.is_known:
            attempt.fail(Then.BACK_OFF, "CoordinatorNotAvailableException", Error.COORDINATOR_NOT_AVAILABLE)
            return
        sent_for = self.generation
        request = SyncGroupRequest(
            self._network.new_request_id(),
            self._config.group_id,
            generation_id=sent_for.generation_id,
            member_id=sent_for.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=sent_for.protocol_name,
            assignments=assignments,
        )

        def synced(response: SyncGroupResponse, then_ms: int) -> None:
            if response.error is not Error.NONE:
                self._failed(SyncGroupRequest, response.error, sent_for, attempt, then_ms)
            elif self.state is not MemberState.COMPLETING_REBALANCE:  # the heartbeat thread lost the membership
                attempt.fail(Then.AT_ONCE, "IllegalGenerationException", Error.ILLEGAL_GENERATION)
            elif response.protocol_name != sent_for.protocol_name:
                attempt.fail(Then.RAISE, "InconsistentGroupProtocolException", Error.INCONSISTENT_GROUP_PROTOCOL)
            else:
                self.state = MemberState.STABLE
                self._rejoin_needed, self._rejoin_reason = False, ""
                attempt.assignment = response.assignment

        self._send(request, synced, attempt, now_ms)

    def _send(
        self, request: Request, handler: Callable[..., None], attempt: _Attempt, now_ms: int, timeout_ms: int = 0
    ) -> None:
        def lost(_: int) -> None:
            attempt.fail(Then.BACK_OFF, "DisconnectException")

        self._lookup.send(request, now_ms, handler, lost, timeout_ms)

    def _failed(
        self, api: type[Request], error: Error, sent_for: MemberGeneration, attempt: _Attempt, now_ms: int
    ) -> None:
        self.react(api, error, sent_for, now_ms)
        if error is Error.FENCED_INSTANCE_ID:
            self.fenced(now_ms)
        attempt.fail(reaction_to(error, api).then, exception_name(error, api), error)

    # What errors do to the membership

    def react(self, api: type[Request], error: Error, sent_for: MemberGeneration, now_ms: int) -> None:
        """Gives up the coordinator, or resets the membership, as the error demands. An error resets nothing if its
        request was sent for an earlier generation."""
        reaction = reaction_to(error, api)
        if reaction.rediscover:
            self._lookup.give_up(f"error response {error.name}", now_ms)
        if reaction.reset is not Reset.NOTHING and self.generation == sent_for:
            self.reset_on_error(api, error, now_ms)

    def commit_refused(self, error: Error, sent_for: MemberGeneration, now_ms: int) -> ClientError | None:
        """Handles the error of a commit. Returns the exception that ends the consumer, or None if the consumer can
        continue."""
        is_stale = self.generation != sent_for
        if error is Error.REBALANCE_IN_PROGRESS:
            self.request_rejoin("offset commit failed since group is already rebalancing", now_ms)
        elif error is Error.FENCED_INSTANCE_ID and not is_stale:
            return self.fenced(now_ms)
        elif reaction_to(error, OffsetCommitRequest).reset is not Reset.NOTHING and not (
            # Unlike other requests, a stale commit resets too, unless the next rebalance has begun already.
            is_stale and self.state is MemberState.PREPARING_REBALANCE
        ):
            self.reset_on_error(OffsetCommitRequest, error, now_ms)
        return None

    def reset_on_error(self, api: type[Request], error: Error, now_ms: int) -> None:
        reason = f"encountered {error.name} from {API_OF_REQUEST[api].name} response"
        self._reset_and_rejoin(reason, now_ms, forget_member=reaction_to(error, api).reset is Reset.MEMBER)

    def _reset_and_rejoin(self, reason: str, now_ms: int, *, forget_member: bool) -> None:
        self.state = MemberState.UNJOINED
        self.generation = MemberGeneration(member_id="" if forget_member else self.generation.member_id)
        self._needs_join_prepare = True
        self.request_rejoin(reason, now_ms)

    def request_rejoin(self, reason: str, now_ms: int) -> None:
        self._rejoin_needed, self._rejoin_reason = True, reason
        self._emit(RejoinRequested(now_ms, reason))

    def request_rejoin_if_not_needed(self, reason: str, now_ms: int) -> None:
        if not self._rejoin_needed:
            self.request_rejoin(reason, now_ms)

    # The heartbeat thread

    @property
    def runs_heartbeats(self) -> bool:
        is_member = self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)
        return is_member and self._heartbeat_failure is None

    def run_heartbeats(self, now_ms: int) -> None:
        """Does the work of the heartbeat thread."""
        if not self.runs_heartbeats:
            return
        if self._lookup.is_known and now_ms >= self._heartbeat.session_expires_ms:
            self._lookup.give_up("session timed out without receiving a heartbeat response", now_ms)
        if not self._lookup.is_known:
            self._lookup.ask_again(now_ms)
        elif now_ms >= self._heartbeat.poll_expires_ms:
            self._emit(PollTimeout(now_ms, self.generation.generation_id, self.generation.member_id))
            self.leave(POLL_TIMEOUT_REASON, now_ms)
        elif now_ms >= self._heartbeat.due_ms:
            self._heartbeat.sent(now_ms)
            self._send_heartbeat(now_ms)

    def _send_heartbeat(self, now_ms: int) -> None:
        sent_for = self.generation
        request = HeartbeatRequest(
            self._network.new_request_id(),
            self._config.group_id,
            generation_id=sent_for.generation_id,
            member_id=sent_for.member_id,
            group_instance_id=self._config.group_instance_id,
        )

        def answered(response: HeartbeatResponse, then_ms: int) -> None:
            self._heartbeat_answered(response.error, sent_for, then_ms)

        self._lookup.send(request, now_ms, answered, self._heartbeat.failed)

    def _heartbeat_answered(self, error: Error, sent_for: MemberGeneration, now_ms: int) -> None:
        reaction = reaction_to(error, HeartbeatRequest)
        is_stale = reaction.reset is not Reset.NOTHING and self.generation != sent_for
        if error is Error.NONE or is_stale or reaction.then is Then.IGNORE:
            if error is Error.REBALANCE_IN_PROGRESS and self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing", now_ms)
            self._heartbeat.received(now_ms)
            return
        self.react(HeartbeatRequest, error, sent_for, now_ms)
        if reaction.then is Then.RAISE:
            self._heartbeat_failure = self.fenced(now_ms)
        else:
            self._heartbeat.failed(now_ms)

    def fenced(self, now_ms: int) -> ClientError:
        self._emit(Fenced(now_ms, self._config.group_instance_id or ""))
        return ClientError(Error.FENCED_INSTANCE_ID, "the group.instance.id was taken by another consumer")

    # Leave

    def leave(self, reason: str, now_ms: int) -> None:
        """Gives up the membership. A static member sends no LeaveGroup: the broker's session timer ends it later."""
        member_id = self.generation.member_id
        if not self.is_static and self._lookup.is_known and self.state is not MemberState.UNJOINED and member_id:
            leaving = LeavingMember(member_id, reason=reason[:MAX_REASON_LENGTH])
            request = LeaveGroupRequest(self._network.new_request_id(), self._config.group_id, (leaving,))
            self._lookup.send(request, now_ms, _ignore, _ignore)
            self._emit(Left(now_ms, member_id, reason))
        self._reset_and_rejoin("consumer pro-actively leaving the group", now_ms, forget_member=True)

    def deadlines(self) -> list[int]:
        beats = self.runs_heartbeats and self._lookup.is_known
        return [self._next_join_ms, *([self._heartbeat.deadline_ms()] if beats else [])]


def _ignore(*_: Response | int) -> None:
    """Does nothing: a LeaveGroup is not repeated, whether it is answered or lost."""

"""Commits offsets: on request, every auto.commit.interval.ms, before a rejoin, and at close.

A commit carries the positions and the generation, or the member epoch, at the time when it is sent. Only a stable
member sends one (in a KIP-848 group, any member with an epoch); another member's commit fails at once, and the broker
never sees it. The offsets are those of records that poll has returned. Commits before a rejoin, before partitions are
given up, and at close are awaited, and retried while that can help ("settled" below); all others are tried once.
Source: the offset half of Kafka's ConsumerCoordinator; its requests name topics by name, not by id, also in 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.client.events import CommitFailed, CommitSucceeded
from groupledger.coordinator.client.fetch_state import FetchState
from groupledger.coordinator.client.membership import MemberGeneration
from groupledger.coordinator.client.network import backoff_ms
from groupledger.coordinator.client.reactions import Then, reaction_to
from groupledger.coordinator.model.messages import NO_LEADER_EPOCH, OffsetCommitRequest, OffsetToCommit
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.client.config import ConsumerConfig
    from groupledger.coordinator.client.coordinator_lookup import CoordinatorLookup
    from groupledger.coordinator.client.events import ClientError, Emit
    from groupledger.coordinator.client.heartbeat_membership import HeartbeatMembership
    from groupledger.coordinator.client.membership import Membership
    from groupledger.coordinator.client.network import Network
    from groupledger.coordinator.client.subscriptions import Subscriptions
    from groupledger.coordinator.model.messages import OffsetCommitResponse
    from groupledger.schemas.kafka.topic_partition import TopicPartition

    Offsets = tuple[OffsetToCommit, ...]


@dataclass(slots=True)
class _Commit:
    offsets: Offsets
    is_automatic: bool = False
    is_done: bool = False
    may_retry: bool = False  # once it is done


class OffsetCommits:
    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        lookup: CoordinatorLookup,
        membership: Membership | HeartbeatMembership[Any, Any],
        subscriptions: Subscriptions,
        *,
        emit: Emit,
    ) -> None:
        self._config = config
        self._network = network
        self._lookup = lookup
        self._membership = membership
        self._subscriptions = subscriptions
        self._emit = emit
        self._next_auto_commit_ms: int | None = None
        self._settling: _Commit | None = None
        self._next_settling_ms = 0
        self._failures = 0
        self._fenced: ClientError | None = None

    def raise_if_fenced(self) -> None:
        """Raises ClientError if a commit was fenced. That ends the consumer: every later poll raises it again."""
        if self._fenced is not None:
            raise self._fenced

    def consumed(self) -> Offsets:
        """Returns the positions of all owned partitions that have a valid one, as offsets to commit."""
        return tuple(
            OffsetToCommit(
                topic=topic,
                partition=number,
                offset=at.offset,
                leader_epoch=NO_LEADER_EPOCH if at.epoch is None else at.epoch,
            )
            for (topic, number), state in self._subscriptions.partitions.items()
            for at in (state.position,)
            if state.fetch_state is FetchState.FETCHING and at is not None
        )

    def commit(self, offsets: Mapping[TopicPartition, int] | None, now_ms: int) -> None:
        if offsets is None:
            chosen = self.consumed()
        else:
            chosen = tuple(
                OffsetToCommit(topic=each.topic, partition=each.partition, offset=offsets[each])
                for each in sorted(offsets)
            )
        self._send_when_known(_Commit(chosen), now_ms)

    # Automatic

    def restart_timer(self, now_ms: int) -> None:
        self._next_auto_commit_ms = now_ms + self._config.auto_commit_interval_ms

    def maybe_auto_commit(self, now_ms: int) -> None:
        if self._next_auto_commit_ms is None:
            self.restart_timer(now_ms)
        elif self._config.enable_auto_commit and now_ms >= self._next_auto_commit_ms:
            self.restart_timer(now_ms)
            self._send_when_known(_Commit(self.consumed(), is_automatic=True), now_ms)

    def is_settled(self, now_ms: int) -> bool:
        """Commits the consumed offsets if auto-commit is on, and is called again until it returns True. It does so once
        the commit has succeeded or has failed for good, or if there is nothing to commit."""
        if not self._config.enable_auto_commit:
            return True
        if self._settling is None:
            offsets = self.consumed()
            if not offsets:
                return True
            if now_ms < self._next_settling_ms or not self._lookup.ensure_known(now_ms):
                return False
            self._settling = _Commit(offsets, is_automatic=True)
            self._send(self._settling, now_ms)
        if not self._settling.is_done:
            return False
        if not self._settling.may_retry:
            return True
        self._settling = None
        self._next_settling_ms = now_ms + backoff_ms(self._config, self._failures)
        self._failures += 1
        return False

    def forget_settlement(self) -> None:
        self._settling, self._failures = None, 0

    def deadlines(self) -> list[int]:
        is_on = self._config.enable_auto_commit and self._next_auto_commit_ms is not None
        return [self._next_settling_ms, self._next_auto_commit_ms or 0] if is_on else []

    # Sending

    def _send_when_known(self, commit: _Commit, now_ms: int) -> None:
        if not commit.offsets:
            return
        if self._lookup.is_known:
            self._send(commit, now_ms)
            return

        def looked_up(is_known: bool, then_ms: int) -> None:
            if is_known:
                self._send(commit, then_ms)
            else:
                self._fail(commit, None, MemberGeneration(), then_ms, was_sent=False, may_retry=True)

        self._lookup.when_answered(looked_up, now_ms)

    def _send(self, commit: _Commit, now_ms: int) -> None:
        if not self._subscriptions.is_subscribed:  # it is not a member of the group: nobody checks its commits
            sent_for, group_instance_id = MemberGeneration(), None
        elif self._membership.may_commit:
            sent_for, group_instance_id = self._membership.generation, self._config.group_instance_id
        else:
            self._fail(commit, None, self._membership.generation, now_ms, was_sent=False)
            return
        request = OffsetCommitRequest(
            self._network.new_request_id(),
            self._config.group_id,
            offsets=commit.offsets,
            generation_id=sent_for.generation_id,
            member_id=sent_for.member_id,
            group_instance_id=group_instance_id,
        )

        def answered(response: OffsetCommitResponse, then_ms: int) -> None:
            errors: list[Error] = [result.error for result in response.partitions if result.error is not Error.NONE]
            if errors:
                self._refused(commit, _decisive(errors), sent_for, then_ms)
            else:
                commit.is_done = True
                self._emit(CommitSucceeded(then_ms, commit.offsets, sent_for.generation_id, sent_for.member_id))

        def lost(then_ms: int) -> None:
            self._fail(commit, None, sent_for, then_ms, may_retry=True)

        self._lookup.send(request, now_ms, answered, lost)

    def _refused(self, commit: _Commit, error: Error, sent_for: MemberGeneration, now_ms: int) -> None:
        reaction = reaction_to(error, OffsetCommitRequest)
        if reaction.rediscover:
            self._lookup.give_up(f"error response {error.name}", now_ms)
        self._fenced = self._membership.commit_refused(error, sent_for, now_ms) or self._fenced
        self._fail(commit, error, sent_for, now_ms, may_retry=reaction.then is Then.BACK_OFF)

    def _fail(
        self,
        commit: _Commit,
        error: Error | None,
        sent_for: MemberGeneration,
        now_ms: int,
        *,
        was_sent: bool = True,
        may_retry: bool = False,
    ) -> None:
        commit.is_done, commit.may_retry = True, may_retry
        if commit.is_automatic and may_retry:
            self._next_auto_commit_ms = now_ms + self._config.retry_backoff_ms
        failed = CommitFailed(
            now_ms,
            error=error,
            offsets=commit.offsets,
            generation_id=sent_for.generation_id,
            member_id=sent_for.member_id,
            was_sent=was_sent,
            is_retriable=may_retry,
        )
        self._emit(failed)


def _decisive(errors: list[Error]) -> Error:
    """Returns the first error, or a forbidden topic only if there is no other error."""
    return next((error for error in errors if error is not Error.TOPIC_AUTHORIZATION_FAILED), errors[0])

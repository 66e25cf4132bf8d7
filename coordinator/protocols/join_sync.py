"""Models the broker's half of the Join/Sync protocol in each release: one group, its states and its timers.

The model is small: one group, one protocol name, no records. It has only the differences between releases in who waits
for whom; `coordinator.model` models today's broker to the byte. Members are known by the ids that the coordinator
gives. Source: kafka/coordinator/group/GroupCoordinator at the tags of the releases; KIP-62 (rebalance timeout), KIP-134
(initial delay), KIP-394 (member id first), KIP-345 (static members). A member that never syncs is removed from 3.0 on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.protocols.world import Reply, World
    from groupledger.schemas.kafka.topic_partition import TopicPartition

REBALANCE_TIMEOUT_MS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What differs between releases, and the configured times in ms. If `rebalance_timeout_ms` is None, a rebalance
    waits for the longest session timeout, and clients send heartbeats only when the application asks for records."""

    session_ms: int = 45_000
    rebalance_timeout_ms: int | None = REBALANCE_TIMEOUT_MS
    initial_delay_ms: int = 3_000
    heartbeat_ms: int = 3_000
    needs_member_id: bool = True
    keeps_empty_group: bool = True
    is_patient_while_completing: bool = True  # a heartbeat then is answered without an error (2.6.3)
    removes_who_does_not_sync: bool = True


_UNTIL_2_8 = Release(session_ms=10_000, removes_who_does_not_sync=False)
RELEASES: Final[dict[str, Release]] = {
    "0.9": Release(
        session_ms=30_000,
        rebalance_timeout_ms=None,
        initial_delay_ms=0,
        needs_member_id=False,
        keeps_empty_group=False,
        is_patient_while_completing=False,
        removes_who_does_not_sync=False,
    ),
    "0.10.1": Release(
        session_ms=10_000,
        initial_delay_ms=0,
        needs_member_id=False,
        is_patient_while_completing=False,
        removes_who_does_not_sync=False,
    ),
    "0.11": Release(
        session_ms=10_000,
        needs_member_id=False,
        is_patient_while_completing=False,
        removes_who_does_not_sync=False,
    ),
    "2.3": Release(session_ms=10_000, is_patient_while_completing=False, removes_who_does_not_sync=False),
    "2.8": _UNTIL_2_8,
    "4.2": Release(),
}


@dataclass(slots=True)
class Registered:
    """A member in the coordinator's view. `join` and `sync` are the responses to its JoinGroup and its SyncGroup while
    these wait."""

    member_id: str
    instance_id: str | None
    metadata: Any
    deadline_ms: int = 0
    join: Reply | None = None
    sync: Reply | None = None
    has_synced: bool = False


@dataclass(frozen=True, slots=True)
class Joined:
    """The response to a JoinGroup. Only the leader's has `members`: for each member id the instance id and the
    metadata."""

    error: Error
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    members: Mapping[str, tuple[str | None, Any]] = field(default_factory=dict)


class JoinSyncCoordinator:
    """The coordinator of one group, which is Empty, PreparingRebalance, CompletingRebalance or Stable."""

    def __init__(self, world: World, release: Release, session_ms: int | None = None) -> None:
        self.world = world
        self.release = release
        self.session_ms = session_ms or release.session_ms
        self.state = "Empty"
        self.generation = 0
        self.leader = ""
        self.members: dict[str, Registered] = {}
        self.assignments: dict[str, Any] = {}
        self._expected: dict[str, None] = {}  # ids that were given and not yet used
        self._given = 0
        self._round = 0
        self._waits_for_first = False

    def join(self, name: str, member_id: str, instance_id: str | None, metadata: Any, reply: Reply) -> None:
        known, former = self.members.get(member_id), self._of_instance(instance_id)
        if known is not None:
            self._join_again(known, metadata, reply)
        elif member_id and member_id not in self._expected:
            reply.give(Joined(Error.UNKNOWN_MEMBER_ID))
        elif not member_id and former is not None:
            self._join_for(former, name, metadata, reply)
        elif not member_id and instance_id is None and self.release.needs_member_id:
            self._expected[given := self._new_id(name)] = None
            self.world.after(self.session_ms, lambda: self._expect_no_more(given))
            reply.give(Joined(Error.MEMBER_ID_REQUIRED, given))
        else:
            self._expected.pop(member_id, None)
            member = Registered(member_id or self._new_id(name), instance_id, metadata)
            self.members[member.member_id] = member
            member.join = reply
            self._prepare(f"{member.member_id} joined")

    def _expect_no_more(self, member_id: str) -> None:
        """Forgets an id that nobody has joined with for a session, which a round may wait for."""
        if member_id in self._expected:
            del self._expected[member_id]
            if self.state == "PreparingRebalance":
                self._complete_if_all_joined()

    def _join_again(self, member: Registered, metadata: Any, reply: Reply) -> None:
        is_changed, member.metadata = member.metadata != metadata, metadata
        answers_at_once = self.state == "CompletingRebalance" or (
            self.state == "Stable" and member.member_id != self.leader
        )
        if answers_at_once and not is_changed:
            self._satisfy(member)
            reply.give(self._joined(member))
            return
        member.join = reply
        self._prepare(f"{member.member_id} joined again")

    def _join_for(self, old: Registered, name: str, metadata: Any, reply: Reply) -> None:
        """A static member comes back: it takes the place of its former self, under a new id."""
        member = Registered(self._new_id(name), old.instance_id, metadata)
        self.members = {
            (member.member_id if each is old else each.member_id): (member if each is old else each)
            for each in self.members.values()
        }
        former_leader = self.leader
        if self.leader == old.member_id:
            self.leader = member.member_id
        if self.state == "Stable":
            self.assignments[member.member_id] = self.assignments.pop(old.member_id, None)
            self._satisfy(member)
            # It follows, also where it led: nothing is assigned again.
            reply.give(Joined(Error.NONE, member.member_id, self.generation, former_leader))
        else:
            member.join = reply
            self._prepare(f"{member.instance_id} came back")

    def _of_instance(self, instance_id: str | None) -> Registered | None:
        if instance_id is None:
            return None
        return next((each for each in self.members.values() if each.instance_id == instance_id), None)

    def _new_id(self, name: str) -> str:
        self._given += 1
        return f"{name}-{self._given}"

    def _satisfy(self, member: Registered) -> None:
        """Gives a member a whole session again."""
        member.deadline_ms = self.world.now_ms + self.session_ms
        self.world.at(member.deadline_ms, lambda: self._expire(member))

    def _expire(self, member: Registered) -> None:
        waits = member.join is not None or member.sync is not None
        if self.members.get(member.member_id) is member and not waits and member.deadline_ms <= self.world.now_ms:
            self._remove(member, f"{member.member_id} was silent for {self.session_ms} ms")

    def _remove(self, member: Registered, why: str) -> None:
        del self.members[member.member_id]
        if self.state == "PreparingRebalance":
            self._complete_if_all_joined()
        elif self.state != "Empty":
            self._prepare(why)

    def _prepare(self, why: str) -> None:
        """Opens a round, unless one is open, and ends it if nobody is awaited."""
        if self.state != "PreparingRebalance":
            self.world.log("coordinator", f"prepares a rebalance: {why}")
            self._waits_for_first = self.state == "Empty" and self.release.initial_delay_ms > 0
            for member in self.members.values():
                if member.sync is not None:
                    member.sync.give((Error.REBALANCE_IN_PROGRESS, None))
                    member.sync = None
                    self._satisfy(member)
            self.state = "PreparingRebalance"
            self._round += 1
            if self._waits_for_first:
                self._wait_for_more(self._round, self._wait_at_most_ms(), len(self.members))
                return
            number = self._round
            self.world.after(self._wait_at_most_ms(), lambda: self._complete(number))
        self._complete_if_all_joined()

    def _wait_for_more(self, number: int, at_most_ms: int, known: int) -> None:
        """An empty group waits for its first members, and again as long as more come."""
        wait_ms = min(self.release.initial_delay_ms, at_most_ms)

        def over() -> None:
            left_ms = at_most_ms - wait_ms
            if len(self.members) > known and left_ms > 0:
                self._wait_for_more(number, left_ms, len(self.members))
            else:
                self._complete(number)

        self.world.after(wait_ms, over)

    def _wait_at_most_ms(self) -> int:
        return self.release.rebalance_timeout_ms or self.session_ms

    def _complete_if_all_joined(self) -> None:
        if self._waits_for_first or self._expected:
            return
        if all(member.join is not None for member in self.members.values()):
            self._complete(self._round)

    def _complete(self, number: int) -> None:
        """Ends the round: removes members that have not joined, except static ones; the others have a generation."""
        if self.state != "PreparingRebalance" or number != self._round:
            return
        self._expected.clear()
        self._waits_for_first = False
        absent = [each for each in self.members.values() if each.join is None and each.instance_id is None]
        for member in absent:
            del self.members[member.member_id]
        if self.members and all(each.join is None for each in self.members.values()):
            # Static members that are all away: the round waits for them again, until their sessions are over.
            self.world.after(self._wait_at_most_ms(), lambda: self._complete(number))
            return
        self.generation += 1
        self.assignments = {}
        if not self.members:
            self.state = "Empty"
            self.world.assigns({})
            if not self.release.keeps_empty_group:
                self.generation = 0
            return
        self.state = "CompletingRebalance"
        self.world.count_round()
        joined = [each for each in self.members.values() if each.join is not None]
        if self.leader not in [each.member_id for each in joined]:
            self.leader = joined[0].member_id
        self.world.log("coordinator", f"generation {self.generation}: {', '.join(self.members)}")
        for member in joined:
            reply, member.join, member.has_synced = member.join, None, False
            self._satisfy(member)
            if reply is not None:
                reply.give(self._joined(member))
        if self.release.removes_who_does_not_sync:
            self.world.after(self._wait_at_most_ms(), lambda: self._remove_who_did_not_sync(number))

    def _remove_who_did_not_sync(self, number: int) -> None:
        if number == self._round and self.state in ("CompletingRebalance", "Stable"):
            for member in [each for each in self.members.values() if not each.has_synced and each.sync is None]:
                del self.members[member.member_id]
                self._prepare(f"{member.member_id} did not sync")

    def _joined(self, member: Registered) -> Joined:
        is_leader = member.member_id == self.leader
        members = {each.member_id: (each.instance_id, each.metadata) for each in self.members.values()}
        return Joined(Error.NONE, member.member_id, self.generation, self.leader, members if is_leader else {})

    def sync(self, member_id: str, generation: int, assignments: Mapping[str, Any], reply: Reply) -> None:
        member = self.members.get(member_id)
        if member is None:
            reply.give((Error.UNKNOWN_MEMBER_ID, None))
        elif generation != self.generation:
            reply.give((Error.ILLEGAL_GENERATION, None))
        elif self.state == "PreparingRebalance":
            reply.give((Error.REBALANCE_IN_PROGRESS, None))
        else:
            member.sync, member.has_synced = reply, True
            if self.state == "CompletingRebalance" and member_id == self.leader:
                self.assignments = dict(assignments)
                self.state = "Stable"
                self.world.assigns(self._owners())
            if self.state == "Stable":
                self._answer_syncs()

    def _owners(self) -> dict[TopicPartition, str]:
        return {
            partition: member.instance_id or member.member_id
            for member in self.members.values()
            for partition in _partitions(self.assignments.get(member.member_id))
        }

    def _answer_syncs(self) -> None:
        for member in self.members.values():
            if member.sync is not None:
                reply, member.sync = member.sync, None
                self._satisfy(member)
                reply.give((Error.NONE, self.assignments.get(member.member_id)))

    def heartbeat(self, member_id: str, generation: int, reply: Reply) -> None:
        member = self.members.get(member_id)
        error = self._refusal(member, generation)
        if error is Error.NONE and member is not None:
            is_completing = self.state == "CompletingRebalance"
            if not is_completing or self.release.is_patient_while_completing:
                self._satisfy(member)
            impatient = is_completing and not self.release.is_patient_while_completing
            if self.state == "PreparingRebalance" or impatient:
                error = Error.REBALANCE_IN_PROGRESS
        reply.give(error)

    def _refusal(self, member: Registered | None, generation: int) -> Error:
        if member is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if generation == self.generation else Error.ILLEGAL_GENERATION

    def leave(self, member_id: str, reply: Reply) -> None:
        member = self.members.get(member_id)
        reply.give(Error.UNKNOWN_MEMBER_ID if member is None else Error.NONE)
        if member is not None:
            self._remove(member, f"{member_id} left")

    def commits(self, member_id: str, generation: int) -> Error:
        """Returns the error that answers a commit. An accepted commit extends the session like a heartbeat."""
        member = self.members.get(member_id)
        error = self._refusal(member, generation)
        if error is Error.NONE and member is not None:
            if self.state == "CompletingRebalance":
                return Error.REBALANCE_IN_PROGRESS
            self._satisfy(member)
        return error


def _partitions(assignment: Any) -> list[TopicPartition]:
    """Returns the partitions of a consumer's assignment; Connect's work has none."""
    return assignment if isinstance(assignment, list) else []

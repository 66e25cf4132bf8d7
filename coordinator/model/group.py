"""One classic group: its members, its generation and its state. Everything soft about a group lives here.

The five states, and the states that each may be entered from (Kafka's ClassicGroupState):

    Empty               no members; offsets may remain            from PreparingRebalance
    PreparingRebalance  waits for members to (re)join             from Stable, CompletingRebalance, Empty
    CompletingRebalance waits for the leader's assignment         from PreparingRebalance
    Stable              members have their assignments            from CompletingRebalance
    Dead                unloaded with its partition               from any, Dead included

Rules: `transition_to` is the only way to change state; it refuses what the table lacks and stamps the time. Requests
that wait are ids: `awaiting_join` and `awaiting_sync` of a member hold the request to answer, or None. Members are
kept in a Java HashMap, for its order. After a failover a group is rebuilt from its last record (`from_record`), which
is all that survives: of its protocols, a member keeps the chosen one only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.java_hash_map import JavaHashMap
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.messages import JoinedMember, JoinGroupResponse, Protocols, SyncGroupResponse
from groupledger.coordinator.model.subscription import UnreadableSubscriptionError, topics_of_subscription
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.model.operation import Operation

CONSUMER_PROTOCOL_TYPE = "consumer"
ANSWERED = -1  # stands for a parked request whose answer has gone out


class State(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Mapping[State, tuple[State, ...]] = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
    State.DEAD: tuple(State),
}


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: int | None = None
    awaiting_sync: int | None = None
    is_new: bool = False  # has not been in a completed join phase yet

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise IllegalStateError(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: set[str]) -> str:
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise IllegalStateError(f"member {self.member_id} supports no candidate protocol")

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """A parked request keeps a member alive, unless it is new: then only its join timeout counts."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def __str__(self) -> str:
        """Java's toString: the server log prints a newly elected leader this way."""
        return (
            f"ClassicGroupMember(memberId='{self.member_id}', groupInstanceId='{self.group_instance_id or ''}',"
            f" clientId='{self.client_id}', clientHost='{self.client_host}',"
            f" rebalanceTimeoutMs={self.rebalance_timeout_ms}, sessionTimeoutMs={self.session_timeout_ms},"
            f" protocolType='{self.protocol_type}',"
            f" supportedProtocols=[{', '.join(name for name, _ in self.protocols)}])"
        )


@dataclass(slots=True, eq=False)
class Group:
    """A group is born Empty, at generation 0, with neither protocol nor leader."""

    group_id: str
    current_state_timestamp_ms: int  # -1 if an old record did not tell
    state: State = State.EMPTY
    previous_state: State = State.DEAD
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: JavaHashMap[str, Member] = field(default_factory=JavaHashMap)
    static_members: dict[str, str] = field(default_factory=dict)  # member id by group instance id
    pending_join_members: set[str] = field(default_factory=set)  # ids given out, not joined with yet
    pending_sync_members: JavaHashMap[str, None] = field(default_factory=JavaHashMap)
    num_awaiting_join: int = 0
    supported_protocols: dict[str, int] = field(default_factory=dict)  # how often it is offered, by name
    subscribed_topics: frozenset[str] | None = None  # None: not known
    # The initial rebalance delay, extended while members keep coming and time remains.
    new_member_added: bool = False
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0

    @classmethod
    def from_record(cls, group_id: str, value: Mapping[str, Any]) -> Group:
        """The group as its last record tells it, Stable or Empty. Any value version."""
        group = cls(group_id, value["current_state_timestamp_ms"])
        group.state = State.STABLE if value["members"] else State.EMPTY
        group.generation_id = value["generation"]
        group.protocol_type = value["protocol_type"] or None
        group.protocol_name = value["protocol"]
        group.leader_id = value["leader"]
        for row in value["members"]:
            timeout_ms = row["rebalance_timeout_ms"]
            member = Member(
                member_id=row["member_id"],
                group_instance_id=row["group_instance_id"],
                client_id=row["client_id"],
                client_host=row["client_host"],
                rebalance_timeout_ms=row["session_timeout_ms"] if timeout_ms == -1 else timeout_ms,
                session_timeout_ms=row["session_timeout_ms"],
                protocol_type=value["protocol_type"],
                protocols=((value["protocol"], row["subscription"]),),
                assignment=row["assignment"],
            )
            group.add(member)
        group.compute_subscribed_topics()
        return group

    # State

    def transition_to(self, state: State, now_ms: int) -> None:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise IllegalStateError(f"group {self.group_id}: {self.state} to {state}")
        self.previous_state = self.state
        self.state = state
        self.current_state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[State.PREPARING_REBALANCE]

    def init_next_generation(self, now_ms: int) -> None:
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscribed_topics()
        self.transition_to(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_sync_members.clear()

    # Members

    def add(self, member: Member) -> None:
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members.put(member.member_id, member)
        self._count_protocols(member, 1)
        self.num_awaiting_join += member.awaiting_join is not None
        self.pending_join_members.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member or pending member; the first of the others succeeds a leader."""
        member = self.members.pop(member_id)
        if member is not None:
            self._count_protocols(member, -1)
            self.num_awaiting_join -= member.awaiting_join is not None
            if member.group_instance_id is not None:
                self.static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_members.discard(member_id)
        self.pending_sync_members.pop(member_id)

    def update(
        self,
        member: Member,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        awaiting_join: int | None,
    ) -> None:
        """What a JoinGroup changes about a member. An older parked join is never answered, as in Kafka."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.num_awaiting_join += (awaiting_join is not None) - (member.awaiting_join is not None)
        member.awaiting_join = awaiting_join

    def replace_static_member(self, old_member_id: str, new_member_id: str, operation: Operation) -> Member:
        """The same instance under a new id; whatever the old id waits for is fenced."""
        member = self.members.pop(old_member_id)
        if member is None or member.group_instance_id is None:
            raise IllegalStateError(f"cannot replace {old_member_id}: no static member")
        self.complete_join(member, operation, error=Error.FENCED_INSTANCE_ID)
        self.complete_sync(member, operation, Error.FENCED_INSTANCE_ID)
        member.member_id = new_member_id
        member.is_new = False
        self.members.put(new_member_id, member)
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[member.group_instance_id] = new_member_id
        return member

    def validate_member(self, member_id: str, group_instance_id: str | None, api: str, operation: Operation) -> Error:
        """The instance is checked before the member. `api` names the request in the server log."""
        if group_instance_id is not None:
            existing_member_id = self.static_members.get(group_instance_id)
            if existing_member_id is None:
                return Error.UNKNOWN_MEMBER_ID
            if existing_member_id != member_id:
                operation.log(
                    "member_fenced",
                    member_id=member_id,
                    group_instance_id=group_instance_id,
                    previous_member_id=existing_member_id,
                    operation=api,
                )
                return Error.FENCED_INSTANCE_ID
        return Error.UNKNOWN_MEMBER_ID if self.members.get(member_id) is None else Error.NONE

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.num_awaiting_join and not self.pending_join_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """What the leader is told of the members."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def elect_joined_leader(self, operation: Operation) -> bool:
        """Keep a leader that has rejoined, else take the first member that has. False if none has."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is None or leader.awaiting_join is not None:
            return leader is not None
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        fields = {"member_id": leader.member_id, "group_instance_id": leader.group_instance_id or "None"}
        if joined is None:
            operation.log("no_leader_elected", **fields)
            return False
        self.leader_id = joined.member_id
        operation.log("leader_replaced", **fields, new_leader=str(joined))
        return True

    # Protocols

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self.supported_protocols.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all support; ties in HashMap order."""
        if not self.members:
            raise IllegalStateError("an empty group has no protocol to select")
        candidates = {name for name, count in self.supported_protocols.items() if count == len(self.members)}
        votes: JavaHashMap[str, int] = JavaHashMap()
        for member in self.members.values():
            name = member.vote(candidates)
            votes.put(name, (votes.get(name) or 0) + 1)
        return max(votes.items(), key=lambda vote: vote[1])[0]

    def compute_subscribed_topics(self) -> None:
        """The topics of all members, as far as the broker reads their subscriptions.

        The topics stay what they were if one makes its reader throw.
        """
        topics: frozenset[str] | None = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and (not self.members or self.protocol_name is not None):
            try:
                subscriptions = [member.metadata(self.protocol_name) for member in self.members.values()]
                topics = frozenset().union(*map(topics_of_subscription, subscriptions))
            except UnreadableSubscriptionError:
                topics = None
        self.subscribed_topics = topics

    def is_subscribed_to_topic(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def _count_protocols(self, member: Member, sign: int) -> None:
        for name, _ in member.protocols:
            self.supported_protocols[name] = self.supported_protocols.get(name, 0) + sign

    # Parked requests

    def complete_join(self, member: Member, operation: Operation, **response: Any) -> None:
        """Answer the parked join of a member, if there is one."""
        if member.awaiting_join is None:
            return
        if member.awaiting_join != ANSWERED:
            response.setdefault("member_id", member.member_id)
            operation.responses.append(JoinGroupResponse(member.awaiting_join, **response))
        member.awaiting_join = None
        self.num_awaiting_join -= 1

    def complete_sync(self, member: Member, operation: Operation, error: Error = Error.NONE) -> bool:
        """Answer the parked sync of a member, if there is one, with its assignment or an error. True if there was."""
        if member.awaiting_sync is None:
            return False
        response = SyncGroupResponse(member.awaiting_sync, error)
        if error is Error.NONE:
            names = self.protocol_type, self.protocol_name
            response = SyncGroupResponse(member.awaiting_sync, error, *names, member.assignment)
        operation.responses.append(response)
        member.awaiting_sync = None
        return True

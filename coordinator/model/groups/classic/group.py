"""Models one classic group: its members, its generation and its protocols.

All its state is soft: it changes by explicit calls, and state without a record is lost with the coordinator. `apply` is
the only way to change the group's state (Stable and so on), by the table in states.py, and it sets the state's
timestamp. `awaiting_join` and `awaiting_sync` of a member are the ids of the requests that wait for a response, or
None. Members are in a Java HashMap, for its order. After a failover a group is rebuilt from its last record
(`from_record`): of a member's protocols, only the one that the group had chosen is left.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from groupledger.coordinator.java_hash_map import JavaHashMap
from groupledger.coordinator.model.errors import IllegalStateError
from groupledger.coordinator.model.groups.classic.states import Event, State, next_state
from groupledger.coordinator.model.groups.classic.subscription import topics_of_subscription, unreadable
from groupledger.coordinator.model.messages import JoinedMember, JoinGroupResponse, Protocols, SyncGroupResponse
from groupledger.schemas.codec.records import Record
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.model.config import Config
    from groupledger.coordinator.model.groups.classic.output import Output

CONSUMER_PROTOCOL_TYPE = "consumer"
ANSWERED = -1  # in place of a waiting request that was already answered


@dataclass(slots=True, kw_only=True)
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
        """Returns whether a waiting request counts as a heartbeat of this member. It does not for a new member, which
        has only its join timeout."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def __str__(self) -> str:
        """Returns Java's toString, by which the server log prints a newly elected leader."""
        return (
            f"ClassicGroupMember(memberId='{self.member_id}', groupInstanceId='{self.group_instance_id or ''}',"
            f" clientId='{self.client_id}', clientHost='{self.client_host}',"
            f" rebalanceTimeoutMs={self.rebalance_timeout_ms}, sessionTimeoutMs={self.session_timeout_ms},"
            f" protocolType='{self.protocol_type}',"
            f" supportedProtocols=[{', '.join(name for name, _ in self.protocols)}])"
        )


@dataclass(slots=True, eq=False, kw_only=True)
class Group:
    """A classic group. A new one is at generation 0 and has neither protocol nor leader."""

    group_type: ClassVar[str] = "classic"

    group_id: str
    current_state_timestamp_ms: int  # -1 if an old record does not have it
    birth: InitVar[Event] = Event.CREATED
    state: State = field(init=False)
    previous_state: State | None = field(default=None, init=False)
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

    def __post_init__(self, birth: Event) -> None:
        self.state = next_state(None, birth)

    @classmethod
    def from_record(cls, group_id: str, value: Mapping[str, Any], config: Config) -> Group:
        """Returns the group as a group metadata record describes it, of any value version."""
        group = cls(
            group_id=group_id,
            current_state_timestamp_ms=value["current_state_timestamp_ms"],
            birth=Event.LOADED_WITH_MEMBERS if value["members"] else Event.LOADED_WITHOUT_MEMBERS,
        )
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
        group.compute_subscribed_topics(config)
        return group

    # State

    def apply(self, event: Event, now_ms: int) -> None:
        """Moves the group to the state that follows its state after `event`. Raises IllegalStateError, and changes
        nothing, if no state follows."""
        state = next_state(self.state, event)
        self.previous_state, self.state, self.current_state_timestamp_ms = self.state, state, now_ms

    def init_next_generation(self, now_ms: int, config: Config) -> None:
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.compute_subscribed_topics(config)
        self.apply(Event.MEMBERS_JOINED if self.members else Event.NOBODY_JOINED, now_ms)
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
        """Removes a member or a pending member. If it was the leader, the first remaining member becomes leader."""
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
        """Updates a member by its JoinGroup. An older join that still waits is never answered, as in Kafka."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.num_awaiting_join += (awaiting_join is not None) - (member.awaiting_join is not None)
        member.awaiting_join = awaiting_join

    def replace_static_member(self, old_member_id: str, new_member_id: str, output: Output) -> Member:
        """Gives a static member a new id, and returns the member. Requests that wait under the old id are answered with
        FENCED_INSTANCE_ID."""
        member = self.members.pop(old_member_id)
        if member is None or member.group_instance_id is None:
            raise IllegalStateError(f"cannot replace {old_member_id}: no static member")
        self.complete_join(member, output, error=Error.FENCED_INSTANCE_ID)
        self.complete_sync(member, output, Error.FENCED_INSTANCE_ID)
        member.member_id = new_member_id
        member.is_new = False
        self.members.put(new_member_id, member)
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        self.static_members[member.group_instance_id] = new_member_id
        return member

    def validate_member(self, member_id: str, group_instance_id: str | None, api: str, output: Output) -> Error:
        """Returns the error with which a request of this member is refused, or NONE. The instance id is checked before
        the member id.

        `api` names the request in the server log.
        """
        if group_instance_id is not None:
            existing_member_id = self.static_members.get(group_instance_id)
            if existing_member_id is None:
                return Error.UNKNOWN_MEMBER_ID
            if existing_member_id != member_id:
                output.log(
                    "member_fenced",
                    member_id=member_id,
                    group_instance_id=group_instance_id,
                    previous_member_id=existing_member_id,
                    operation=api,
                )
                return Error.FENCED_INSTANCE_ID
        return Error.UNKNOWN_MEMBER_ID if self.members.get(member_id) is None else Error.NONE

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    def tombstones(self) -> list[Record]:
        return [Record("group_metadata", {"group_id": self.group_id}, None, None)]

    @property
    def has_all_members_joined(self) -> bool:
        return len(self.members) == self.num_awaiting_join and not self.pending_join_members

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Returns the members as the JoinGroup response to the leader lists them."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def elect_joined_leader(self, output: Output) -> bool:
        """Elects the first member that has rejoined as leader, if the present leader has not rejoined. Returns whether
        a leader has rejoined."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is None or leader.awaiting_join is not None:
            return leader is not None
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        fields = {"member_id": leader.member_id, "group_instance_id": leader.group_instance_id or "None"}
        if joined is None:
            output.log("no_leader_elected", **fields)
            return False
        self.leader_id = joined.member_id
        output.log("leader_replaced", **fields, new_leader=str(joined))
        return True

    # Protocols

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        if self.state is State.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(
            self.supported_protocols.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Returns the protocol with most votes. Each member votes for the first of its protocols that all members
        support. If several protocols have most votes, the first in HashMap order wins."""
        if not self.members:
            raise IllegalStateError("an empty group has no protocol to select")
        candidates = {name for name, count in self.supported_protocols.items() if count == len(self.members)}
        votes: JavaHashMap[str, int] = JavaHashMap()
        for member in self.members.values():
            name = member.vote(candidates)
            votes.put(name, (votes.get(name) or 0) + 1)
        return max(votes.items(), key=lambda vote: vote[1])[0]

    def compute_subscribed_topics(self, config: Config) -> None:
        """Sets the topics to which the members subscribe, as a broker of the release reads them from the subscriptions.

        They become None (not known) if the group is not one of consumers, or if a subscription cannot be read and the
        broker catches that. If the broker does not catch it, IllegalStateError is raised, and the topics stay what they
        were.
        """
        topics: frozenset[str] | None = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and (not self.members or self.protocol_name is not None):
            try:
                subscriptions = [member.metadata(self.protocol_name) for member in self.members.values()]
                topics = frozenset().union(*map(topics_of_subscription, subscriptions))
            except unreadable(config):
                topics = None
        self.subscribed_topics = topics

    def is_subscribed_to_topic(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def _count_protocols(self, member: Member, sign: int) -> None:
        for name, _ in member.protocols:
            self.supported_protocols[name] = self.supported_protocols.get(name, 0) + sign

    # Requests that wait

    def complete_join(self, member: Member, output: Output, **response: Any) -> None:
        """Answers the JoinGroup of this member that waits, if there is one."""
        if member.awaiting_join is None:
            return
        if member.awaiting_join != ANSWERED:
            response.setdefault("member_id", member.member_id)
            output.responses.append(JoinGroupResponse(member.awaiting_join, **response))
        member.awaiting_join = None
        self.num_awaiting_join -= 1

    def complete_sync(self, member: Member, output: Output, error: Error = Error.NONE) -> bool:
        """Answers the SyncGroup of this member that waits, with the member's assignment or an error. Returns whether
        one waited."""
        if member.awaiting_sync is None:
            return False
        response = SyncGroupResponse(member.awaiting_sync, error=error)
        if error is Error.NONE:
            response = SyncGroupResponse(
                member.awaiting_sync,
                error=error,
                protocol_type=self.protocol_type,
                protocol_name=self.protocol_name,
                assignment=member.assignment,
            )
        output.responses.append(response)
        member.awaiting_sync = None
        return True

"""Defines the actions of a scenario on a coordinator, either the reference coordinator or a broker.

Defaults are those of Kafka's test context: session timeout 5 s, rebalance timeout 10 s, initial delay 3 s, session
limits 10 ms and 600 s. Methods without a `group_id` argument act on the driver's `group_id`; `other_group_id` is a
second group. A request is *parked* if the coordinator answers it later, as most JoinGroup requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupledger.coordinator.model.messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetToCommit,
    Protocols,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from groupledger.schemas.codec.records import Record

SESSION_MS = 5_000
REBALANCE_MS = 10_000
INITIAL_DELAY_MS = 3_000
TOO_LARGE = 30_000  # bytes of a record that the log does not take


def subscription(*topics: str) -> bytes:
    """Returns the bytes of a consumer subscription of version 0 to these topics, without user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


RANGE: Protocols = (("range", subscription("orders")),)
RANGE_AND_ROUNDROBIN: Protocols = (*RANGE, ("roundrobin", subscription("orders")))
ROUNDROBIN_AND_RANGE: Protocols = (("roundrobin", subscription("orders")), *RANGE)


class Call:
    """A request that was sent. `response` is None while the request is parked, so not answered yet."""

    def __init__(self, request: Request) -> None:
        self.request: Any = request
        self.response: Any = None

    @property
    def error(self) -> Error | None:
        return None if self.response is None else self.response.error

    @property
    def is_parked(self) -> bool:
        return self.response is None


@dataclass(frozen=True)
class Member:
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True)
class StableGroup:
    """The generation and the members of a group that has become Stable; the leader is the first of `members`."""

    generation: int
    members: tuple[Member, ...]

    @property
    def leader(self) -> Member:
        return self.members[0]

    @property
    def follower(self) -> Member:
        return self.members[1]

    def assignments(self) -> dict[str, bytes]:
        """Returns a different assignment for each member."""
        return {member.member_id: f"assignment-{number}".encode() for number, member in enumerate(self.members)}


class Driver(ABC):
    def __init__(self, group_id: str = "g1") -> None:
        self.group_id = group_id
        self.other_group_id = f"{group_id}-other"
        self._request_count = 0

    # Methods that each driver implements

    @abstractmethod
    def send(self, request: Request) -> Call:
        """Sends a request. The answer may come at once, or later while time advances."""

    @abstractmethod
    def advance(self, milliseconds: int) -> None:
        """Lets time pass, and collects the answers that come meanwhile.

        If a scenario stops just before a deadline, `milliseconds` ends in the digit 9 (4_999). A driver in real time
        may then stop somewhat earlier; otherwise it may stop somewhat later.
        """

    @abstractmethod
    def take_records(self) -> list[Record]:
        """Returns the records that were appended since the last call, in the order of the log, without transaction
        markers."""

    @abstractmethod
    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Ends the producer's transaction, with a marker in the partition of the group."""

    # Methods that only some drivers support

    def fail_next_append(self, error: Error) -> None:
        """Makes the next append fail with `error`. For MESSAGE_TOO_LARGE a driver may rely on the scenario, whose next
        record has `TOO_LARGE` bytes."""
        raise NotImplementedError

    def force_state(self, *states: str) -> None:
        """Brings the group through these states without a request."""
        raise NotImplementedError

    def failover(self, **settings: Any) -> None:
        """Restarts the coordinator from its log, with changed settings if there are any."""
        raise NotImplementedError

    def unload(self) -> None:
        """Takes the partition of the group away from the coordinator."""
        raise NotImplementedError

    # Requests

    def next_request_id(self) -> int:
        self._request_count += 1
        return self._request_count

    def join(  # noqa: PLR0913  # a request has as many fields; all but the first by keyword
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group_id: str | None = None,
        api_version: int = 9,
    ) -> Call:
        request_id = self.next_request_id()
        return self.send(
            JoinGroupRequest(
                request_id,
                self.group_id if group_id is None else group_id,
                member_id=member_id,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=protocols,
                new_member_uuid=f"00000000-0000-4000-8000-{request_id:012x}",
                group_instance_id=instance_id,
                client_id="client",
                api_version=api_version,
            )
        )

    def join_with_new_id(self, **options: Any) -> Call:
        """Lets a dynamic member join with two requests: the first gets a member id, and the second joins with it."""
        required = self.join(**options)
        assert required.error is Error.MEMBER_ID_REQUIRED
        return self.join(required.response.member_id, **options)

    def sync(  # noqa: PLR0913  # likewise
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group_id: str | None = None,
        api_version: int = 5,
    ) -> Call:
        return self.send(
            SyncGroupRequest(
                self.next_request_id(),
                self.group_id if group_id is None else group_id,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance_id,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignments=tuple((assignments or {}).items()),
                api_version=api_version,
            )
        )

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str | None = None
    ) -> Error:
        group_id = self.group_id if group_id is None else group_id
        request = HeartbeatRequest(
            self.next_request_id(),
            group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        error: Error = self.answer(request).error
        return error

    def leave(self, *members: Member, group_id: str | None = None, api_version: int = 5) -> Any:
        """Returns the response to one LeaveGroup of these members."""
        leaving = tuple(LeavingMember(member.member_id, member.group_instance_id) for member in members)
        group_id = self.group_id if group_id is None else group_id
        return self.answer(LeaveGroupRequest(self.next_request_id(), group_id, leaving, api_version))

    def commit(self, offset: int = 1, **options: Any) -> Error:
        """Commits one offset of partition 0 of the topic `orders`, and returns the error."""
        offsets = (OffsetToCommit(topic="orders", partition=0, offset=offset),)
        group_id = options.pop("group_id", self.group_id)
        request = OffsetCommitRequest(self.next_request_id(), group_id, offsets=offsets, **options)
        error: Error = self.answer(request).partitions[0].error
        return error

    def txn_commit(self, producer_id: int, offset: int = 1, **options: Any) -> Error:
        """Commits one offset of partition 0 of the topic `orders` within the producer's transaction, and returns the
        error."""
        offsets = (OffsetToCommit(topic="orders", partition=0, offset=offset),)
        group_id = options.pop("group_id", self.group_id)
        request = TxnOffsetCommitRequest(
            self.next_request_id(), group_id, producer_id=producer_id, producer_epoch=0, offsets=offsets, **options
        )
        error: Error = self.answer(request).partitions[0].error
        return error

    def answer(self, request: Request) -> Any:
        """Returns the response to a request that is never parked."""
        call = self.send(request)
        assert call.response is not None
        return call.response

    # Groups

    def state(self) -> str:
        """Returns the group's state as DescribeGroups reports it."""
        return str(self._described().group_state)

    def member_ids(self) -> set[str]:
        """Returns the group's member ids as DescribeGroups reports them."""
        return {member.member_id for member in self._described().members}

    def _described(self) -> Any:
        return self.answer(DescribeGroupsRequest(self.next_request_id(), (self.group_id,))).groups[0]

    def stable_group(self, *instance_ids: str | None, **options: Any) -> StableGroup:
        """Lets members with these instance ids join a new group and sync until it is Stable. None stands for a dynamic
        member."""
        group = self.completing_group(*instance_ids, **options)
        self.sync_all(group, protocol_name=options.get("protocols", RANGE)[0][0])
        return group

    def completing_group(self, *instance_ids: str | None, **options: Any) -> StableGroup:
        """Lets members with these instance ids join a new group, which is in CompletingRebalance then: no member has
        synced."""
        joins = []
        for instance_id in instance_ids:
            if instance_id is None:
                joins.append(self.join_with_new_id(**options))
            else:
                joins.append(self.join(instance_id=instance_id, **options))
        while joins[0].is_parked:
            self.advance(INITIAL_DELAY_MS)
        return self.joined(*joins)

    def joined(self, *joins: Call) -> StableGroup:
        """Returns the group that these joins have formed: the generation of their answers, and the members. All must be
        answered without an error."""
        assert [join.error for join in joins] == [Error.NONE] * len(joins)
        leader_id = joins[0].response.leader
        members = [Member(join.response.member_id, getattr(join.request, "group_instance_id", None)) for join in joins]
        members.sort(key=lambda member: member.member_id != leader_id)
        return StableGroup(joins[0].response.generation_id, tuple(members))

    def sync_all(self, group: StableGroup, protocol_name: str = "range") -> list[Call]:
        """Lets the leader sync with an assignment for each member, and then all other members."""
        syncs = []
        for member in group.members:
            assignments = group.assignments() if member is group.leader else None
            options: dict[str, Any] = {"instance_id": member.group_instance_id, "protocol_name": protocol_name}
            syncs.append(self.sync(member.member_id, group.generation, assignments, **options))
        assert [sync.error for sync in syncs] == [Error.NONE] * len(syncs)
        return syncs

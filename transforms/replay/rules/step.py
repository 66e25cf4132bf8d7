"""Checks whether the reference coordinator would have written a group's next record, given the one before.

The reference coordinator loads the first record and gets the requests that must have followed: members that are gone
leave, new ones join, the others join again, the leader syncs. The record that it writes must equal the next record,
field by field. The log does not show in which order the requests came, so a field is compared only if every order gives
the same value:

    generation, protocol type, protocol        always
    instance, client id and host of a member   if the member stays; a static member may have left and joined again
    timeouts, subscription, assignment         in a revision, of all members but the replaced instance; in a new
                                               generation they are copied from the record and so are always equal
    leader                                     a dynamic leader that stays remains the leader. If the leader is gone and
                                               a member that stays replaces it, that is the first one in the order of
                                               the members' map, which records show; not compared where static members
                                               stay, or where a failover may have built another order

The coordinator makes member ids of the client id (of a static member: the instance id) and a UUID; a step with a new
member whose id has another form is not replayed. Source: Kafka ClassicGroup, GroupMetadataManager; KIP-345 (static
replacement), KIP-394 (pending members).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupledger.coordinator.model.operation import Batch
from groupledger.schemas.codec.records import Record
from groupledger.schemas.kafka.errors import Error
from groupledger.schemas.words import FindingKind
from groupledger.transforms.history.rules.events import CONSUMER
from groupledger.transforms.replay.rules.finding import Contradiction

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.operation import Result
    from groupledger.transforms.history.rules.events import GroupMember, GroupRecord, MemberFacts

    Value = Mapping[str, Any]
    Compared = tuple[str | None, str, Any, Any]  # member id, field, expected, found

_GROUP_ID = "replayed"
_INT32_MAX = (1 << 31) - 1
_CONFIG = Config(
    offsets_topic_num_partitions=1,
    group_min_session_timeout_ms=-_INT32_MAX,
    group_max_session_timeout_ms=_INT32_MAX,
    group_initial_rebalance_delay_ms=0,
)
_ONE_STEP_JOIN = 3  # the last JoinGroup API that takes a new dynamic member at once
_TWO_STEP_JOIN = 4
_NOW_MS = 1
_NO_TOPICS = bytes(10)  # a subscription of version 0 to nothing, with empty user data
_BLOCKER_ID = "replay-1"
_BLOCKER: Final[dict[str, Any]] = {
    "group_instance_id": None,
    "client_id": "replay",
    "client_host": "/127.0.0.1",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "subscription": _NO_TOPICS,
}


def step_contradictions(before: GroupRecord | None, record: GroupRecord) -> Iterator[Contradiction]:
    """Yields a contradiction if the coordinator would have written another value in any compared field. `record`
    follows `before` directly, as the next generation or as a revision; `before` is None if there was no group."""
    if before is not None and before.generation == record.generation:
        if before.members or record.members:
            yield from _revision(before, record)
        return
    known = _facts(before)
    if any(_uuid(facts) is None for member_id, facts in _facts(record).items() if member_id not in known):
        return
    replay = _Replay(before, record)
    replay.rebalance()
    yield from _compare(replay, before, record)


def _revision(before: GroupRecord, record: GroupRecord) -> Iterator[Contradiction]:
    """Checks a record of the same generation: only static members may have been replaced."""
    old, new = _facts(before), _facts(record)
    evidence = {"previous_kafka_offset": before.kafka_offset}
    gone = [facts for member_id, facts in old.items() if member_id not in new]
    come = [facts for member_id, facts in new.items() if member_id not in old]
    dynamic = [facts.member_id for facts in (*gone, *come) if facts.group_instance_id is None]
    if bool(old) != bool(new) or {facts.identity for facts in gone} != {facts.identity for facts in come}:
        is_dynamic = dynamic and old and new
        kind = FindingKind.STATIC_REPLACEMENT_WITHOUT_INSTANCE if is_dynamic else FindingKind.ILLEGAL_TRANSITION
        names = ", ".join(dynamic or [facts.member_id for facts in (*gone, *come)])
        yield Contradiction(
            kind,
            f"Members come or go within generation {record.generation} without being replaced by instance id: {names}.",
            dynamic[0] if dynamic else None,
            evidence={**evidence, "gone": [each.member_id for each in gone], "come": [each.member_id for each in come]},
        )
    elif all(_uuid(facts) is not None for facts in come):
        replay = _Replay(before, record)
        for facts in come:
            replay.join_anew(facts)
        yield from _compare(replay, before, record)


def _facts(record: GroupRecord | None) -> dict[str, MemberFacts]:
    return {} if record is None else {member.facts.member_id: member.facts for member in record.members}


def _uuid(facts: MemberFacts) -> str | None:
    """Returns the UUID in the member's id, or None if the id does not have the form of Kafka's ids."""
    prefix = f"{facts.client_id if facts.group_instance_id is None else facts.group_instance_id}-"
    return facts.member_id[len(prefix) :] if facts.member_id.startswith(prefix) else None


# The record as a coordinator has it


def _value(record: GroupRecord) -> dict[str, Any]:
    return {
        "protocol_type": record.protocol_type,
        "generation": record.generation,
        "protocol": record.protocol,
        "leader": record.leader,
        "current_state_timestamp_ms": -1,
        "members": [_member(member) for member in record.members],
    }


def _member(member: GroupMember) -> dict[str, Any]:
    facts = member.facts
    # Value version 0 has no rebalance timeout, and -1 here: the session timeout then counts.
    timeout_ms = facts.session_timeout_ms if facts.rebalance_timeout_ms == -1 else facts.rebalance_timeout_ms
    return {
        "member_id": facts.member_id,
        "group_instance_id": facts.group_instance_id,
        "client_id": facts.client_id,
        "client_host": facts.client_host,
        "rebalance_timeout_ms": timeout_ms,
        "session_timeout_ms": facts.session_timeout_ms,
        "subscription": _payload(facts.topics, facts.subscription_error, facts.rack_id, member.owned),
        "assignment": _payload(member.assigned, facts.assignment_error),
    }


def _payload(*content: object) -> bytes:
    """Returns bytes that differ where the content does. A coordinator does not read the bytes after the topics."""
    return _NO_TOPICS + json.dumps(content).encode()


class _Replay:
    """Runs a coordinator whose log holds the record before, and keeps what it writes in `written`."""

    def __init__(self, before: GroupRecord | None, record: GroupRecord) -> None:
        self.record = record
        self.value = _value(record)
        self.written: Value = {} if before is None else _value(before)
        self.refusals: list[str] = []
        self._old, self._new = _facts(before), _facts(record)
        self._seats = {row["member_id"]: row for row in self.value["members"]}
        # Members also offer the protocol that was chosen before, though the new record does not say so.
        protocols = (record.protocol, None if before is None else before.protocol)
        self._offers = [name for name in dict.fromkeys(protocols) if name is not None] or ["none"]
        self._coordinator = Coordinator(_CONFIG)
        self._request_id = 0
        key = {"group_id": _GROUP_ID}
        log = (
            []
            if before is None
            else [
                Batch(
                    partition=0,
                    base_offset=0,
                    timestamp_ms=_NOW_MS,
                    records=(Record("group_metadata", key, 3, _value(before)),),
                )
            ]
        )
        self._coordinator.load(0, log, now_ms=_NOW_MS)

    def rebalance(self) -> None:
        """Leads the group to the next generation. A pending member keeps the join phase open until all have joined."""
        self._join(_BLOCKER, "", _TWO_STEP_JOIN)
        if self.record.generation == 0:
            return
        gone = [facts for facts in self._old.values() if facts.member_id not in self._new]
        self._leave(LeavingMember(facts.member_id, facts.group_instance_id) for facts in gone)
        if not self._old and not self._new:
            self._join(_BLOCKER, _BLOCKER_ID, _TWO_STEP_JOIN)
        for facts in self._new.values():
            if facts.member_id not in self._old:
                self.join_anew(facts)
        leader_id = self._group.leader_id
        # A follower's rejoin with nothing new starts no rebalance; the leader's does.
        staying = [member_id for member_id in self._new if member_id in self._old]
        for member_id in sorted(staying, key=lambda member_id: member_id != leader_id):
            self._join(self._seats[member_id], member_id)
        self._leave([LeavingMember(_BLOCKER_ID)])
        self._take(self._coordinator.advance(_NOW_MS))
        self._sync()

    def join_anew(self, facts: MemberFacts) -> None:
        """Lets a new member join, or a static instance under its new id."""
        self._join(self._seats[facts.member_id], "", uuid=_uuid(facts) or "")

    @property
    def _group(self) -> Group:
        group = self._coordinator.group(_GROUP_ID)
        assert group is not None  # noqa: S101  # the first join has created it, if the log did not hold it
        return group

    def _join(self, seat: Value, member_id: str, api_version: int = _ONE_STEP_JOIN, uuid: str = "1") -> None:
        protocols = tuple((name, seat["subscription"]) for name in self._offers)
        request = JoinGroupRequest(
            self._next_request_id(),
            _GROUP_ID,
            member_id=member_id,
            session_timeout_ms=seat["session_timeout_ms"],
            rebalance_timeout_ms=seat["rebalance_timeout_ms"],
            protocol_type=self.record.protocol_type or CONSUMER,
            protocols=protocols,
            new_member_uuid=uuid,
            group_instance_id=seat["group_instance_id"],
            client_id=seat["client_id"],
            client_host=seat["client_host"],
            api_version=api_version,
        )
        self._take(self._coordinator.handle(request, now_ms=_NOW_MS))

    def _leave(self, members: Iterable[LeavingMember]) -> None:
        leaving = tuple(members)
        if leaving:
            request = LeaveGroupRequest(self._next_request_id(), _GROUP_ID, leaving)
            self._take(self._coordinator.handle(request, now_ms=_NOW_MS))

    def _sync(self) -> None:
        """Sends the leader's SyncGroup with the assignment of the record."""
        group = self._group
        leader = group.members.get(group.leader_id or "")
        if leader is None:
            return
        assignments = tuple((row["member_id"], row["assignment"]) for row in self.value["members"])
        request = SyncGroupRequest(
            self._next_request_id(),
            _GROUP_ID,
            generation_id=group.generation_id,
            member_id=leader.member_id,
            group_instance_id=leader.group_instance_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            assignments=assignments,
        )
        self._take(self._coordinator.handle(request, now_ms=_NOW_MS))

    def _next_request_id(self) -> int:
        self._request_id += 1
        return self._request_id

    def _take(self, result: Result) -> None:
        for record in result.records:
            self.written = record.value or {}
        self.refusals += [
            response.error.name
            for response in result.responses
            if isinstance(response, JoinGroupResponse | SyncGroupResponse)
            and response.error not in (Error.NONE, Error.MEMBER_ID_REQUIRED)
        ]


def _compare(replay: _Replay, before: GroupRecord | None, record: GroupRecord) -> Iterator[Contradiction]:
    expected, actual = replay.written, replay.value
    fields = ["generation", "protocol_type", "protocol"]
    if before is not None and _is_leader_decided(before, record, expected):
        fields.append("leader")
    compared = [(None, name, expected.get(name), actual[name]) for name in fields]
    differences = [
        (member_id, name, _printed(wanted), _printed(found))
        for member_id, name, wanted, found in (*compared, *_compared_members(expected, actual, _facts(before)))
        if wanted != found
    ]
    if not differences:
        return
    member_id, name, wanted, found = differences[0]
    why = f"{name}{f' of {member_id}' if member_id else ''} is {found!r}, where a coordinator writes {wanted!r}"
    if name in ("subscription", "assignment"):  # too long for a sentence
        why = f"the {name} of {member_id} is another than before"
    if name == "generation" and replay.refusals:
        why = f"a coordinator answers {replay.refusals[0]}"
    yield Contradiction(
        FindingKind.ILLEGAL_TRANSITION,
        f"No requests lead here from {'nothing' if before is None else f'generation {before.generation}'}: {why}.",
        member_id,
        evidence={
            "previous_kafka_offset": before and before.kafka_offset,
            "differences": differences,
            "refusals": replay.refusals,
        },
    )


def _compared_members(expected: Value, actual: Value, before: Collection[str]) -> Iterator[Compared]:
    wanted = {row["member_id"]: row for row in expected.get("members", ())}
    found = {row["member_id"]: row for row in actual["members"]}
    yield None, "members", sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    for member_id, row in found.items():
        for name, value in row.items() if member_id in wanted else ():
            # A replaced instance keeps the client id and host of its predecessor; a new member has its own.
            if member_id in before or not name.startswith("client_"):
                yield member_id, name, wanted[member_id][name], value


def _is_leader_decided(before: GroupRecord, record: GroupRecord, expected: Value) -> bool:
    """Returns whether every order of requests gives the same leader, which then is the replay's."""
    if before.generation == record.generation or not record.members:
        return True
    old = _facts(before)
    staying = [member for member in record.members if member.facts.member_id in old]
    dynamic = {member.facts.member_id for member in staying if member.facts.group_instance_id is None}
    if before.leader in dynamic:
        return True
    maps = (old, _facts(record), [row["member_id"] for row in expected.get("members", ())])
    first, *others = ([member_id for member_id in each if member_id in dynamic] for each in maps)
    return record.leader in dynamic and len(dynamic) == len(staying) and others == [first, first]


def _printed(value: object) -> object:
    return value[len(_NO_TOPICS) :].decode() if isinstance(value, bytes) else value

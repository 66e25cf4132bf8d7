"""Makes random sequences of group requests with Hypothesis, and plays them.

A sequence is data: a list of steps, each a method of `Player` with arguments. The arguments are indices instead of ids,
and are resolved while the sequence plays, so any part of a sequence is a sequence, too. Only the initial rebalance
delay ends during a test, and the broker must have set it to 0; session and rebalance timeouts are longer than any test.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from groupledger.coordinator.model.groups.classic.states import State
from groupledger.coordinator.model.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetToCommit,
    TxnOffsetCommitRequest,
)
from groupledger.schemas.kafka.names import ZERO_UUID
from groupledger.schemas.kafka.topic_partition import TopicPartition
from lab.kafka.broker_driver import TOPICS
from lab.scenarios.driver import subscription

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.classic.group import Group
    from groupledger.coordinator.model.messages import Protocols
    from lab.kafka.broker_driver import BrokerDriver

LONG_MS = 600_000

BOTH = subscription("orders", "other")
ORDERS = subscription("orders")
PROTOCOLS: list[Protocols] = [
    (("range", ORDERS),),
    (("range", BOTH), ("roundrobin", BOTH)),
    (("roundrobin", ORDERS), ("range", ORDERS)),
    (("cooperative-sticky", ORDERS), ("range", ORDERS)),
    (("range", b"\0"),),  # a number is cut off: the broker does not know the topics
    (("range", b"\0\0\0\0\0\1\xff\xff"),),  # a topic without a name: the broker's reader throws
    (("sticky", ORDERS),),
]
INSTANCES = ["instance-1", "instance-2"]
JOIN_VERSIONS = [0, 2, 3, 4, 5, 6, 7, 8, 9]
INSTANCE_SINCE = {"join": 5, "sync": 3, "commit": 7}
TOPIC_IDS_SINCE = 10
RETENTION_UP_TO = 4
RETENTION_MS = 3_600_000

Step = tuple[str, dict[str, Any]]

group = st.sampled_from([0, 0, 0, 1])
who = st.integers(0, 9)
shift = st.sampled_from([0, 0, 0, 0, 0, -1, 1])
instance = st.sampled_from([None, None, *INSTANCES])
claim = st.sampled_from(["own", "own", "own", "own", None, *INSTANCES, "unknown"])
# By topic, as requests nest them.
places = st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)), min_size=1, max_size=3, unique=True).map(
    lambda found: sorted(found, key=lambda place: place[0])
)


@dataclass
class Player:
    """Plays one sequence: resolves the arguments of its steps, and sends their requests."""

    driver: BrokerDriver
    given_ids: list[list[str]] = field(default_factory=lambda: [["never-given"], ["never-given"]])
    open_producers: set[int] = field(default_factory=set)

    def play(self, steps: list[Step]) -> None:
        for name, arguments in steps:
            getattr(self, name)(**arguments)
        self.driver.finish()

    def _group_id(self, group: int) -> str:
        return (self.driver.group_id, self.driver.other_group_id)[group]

    def _group(self, group: int) -> Group | None:
        return self.driver.model.coordinator.group(self._group_id(group))

    def _members(self, group: int) -> list[Any]:
        found = self._group(group)
        return [] if found is None else found.members.values()

    def _generation(self, group: int, shift: int) -> int:
        found = self._group(group)
        return (0 if found is None else found.generation_id) + shift

    def _identity(self, group: int, who: int, claim: str | None) -> tuple[str, str | None]:
        """Returns a member id (of a present member, or one of the newest two that were ever given), and an instance
        id."""
        known = {member.member_id: member.group_instance_id for member in self._members(group)}
        candidates = [*known, *self.given_ids[group][-2:]]
        member_id = candidates[who % len(candidates)]
        return member_id, known.get(member_id) if claim == "own" else claim

    # Membership

    def join(self, group: int, instance: str | None, protocols: Protocols, protocol_type: str, version: int) -> None:
        options: dict[str, Any] = {
            "instance_id": instance if version >= INSTANCE_SINCE["join"] else None,
            "protocols": protocols,
            "protocol_type": protocol_type,
        }
        self._join(group, "", version, options)

    def rejoin(self, group: int, who: int, claim: str | None, protocols: Protocols | None, version: int) -> None:
        """Lets a member join again with these protocols. None stands for those that it offered before."""
        member_id, instance_id = self._identity(group, who, claim)
        if protocols is None:
            offered = {member.member_id: member.protocols for member in self._members(group)}
            protocols = offered.get(member_id, PROTOCOLS[0])
        instance_id = instance_id if version >= INSTANCE_SINCE["join"] else None
        self._join(group, member_id, version, {"instance_id": instance_id, "protocols": protocols})

    def _join(self, group: int, member_id: str, version: int, options: dict[str, Any]) -> None:
        timeouts: dict[str, Any] = {"session_ms": LONG_MS, "rebalance_ms": LONG_MS if version else -1}
        call = self.driver.join(member_id, group_id=self._group_id(group), api_version=version, **timeouts, **options)
        given = [member.member_id for member in self._members(group)]
        if call.response is not None and call.response.member_id:
            given.append(call.response.member_id)
        past = self.given_ids[group]
        past.extend(one for one in given if one not in past)

    def everybody_rejoins(self, group: int) -> None:
        for member in self._members(group):
            found = self._group(group)
            if found is not None and found.state is State.PREPARING_REBALANCE and member.awaiting_join is None:
                options = {"instance_id": member.group_instance_id, "protocols": member.protocols}
                self._join(group, member.member_id, 9, options)

    def everybody_syncs(self, group: int, leader_first: bool, how_many: int) -> None:
        found = self._group(group)
        if found is None:
            return
        assignments = {member_id: member_id.encode() for member_id in list(found.members)[:how_many]}
        members = sorted(self._members(group), key=lambda one: (one.member_id == found.leader_id) != leader_first)
        for member in members:
            self.driver.sync(
                member.member_id,
                found.generation_id,
                assignments if member.member_id == found.leader_id else None,
                instance_id=member.group_instance_id,
                protocol_name=found.protocol_name,
                protocol_type=found.protocol_type,
                group_id=found.group_id,
            )

    def form(self, group: int, instances: list[str | None], protocols: Protocols) -> None:
        """Lets members join, rejoin until all have joined, and sync, as well-behaved clients do. `instances` has an
        instance id for each member, or None for a dynamic one."""
        for instance in instances:
            self.join(group, instance, protocols, "consumer", 9)
            given = self.given_ids[group][-1]
            found = self._group(group)
            if instance is None and found is not None and given in found.pending_join_members:
                self._join(group, given, 9, {"protocols": protocols})
            self.everybody_rejoins(group)
        self.everybody_syncs(group, leader_first=True, how_many=9)

    def sync(self, group: int, who: int, claim: str | None, shift: int, names: str, version: int) -> None:
        member_id, instance_id = self._identity(group, who, claim)
        found = self._group(group)
        chosen = {
            "right": ("consumer", None if found is None else found.protocol_name),
            "wrong": ("consumer", "wrong"),
            "none": (None, None),
        }[names]
        self.driver.sync(
            member_id,
            self._generation(group, shift),
            {member.member_id: b"assigned" for member in self._members(group)},
            instance_id=instance_id if version >= INSTANCE_SINCE["sync"] else None,
            protocol_type=chosen[0] if version >= 5 else None,
            protocol_name=chosen[1] if version >= 5 else None,
            group_id=self._group_id(group),
            api_version=version,
        )

    def heartbeat(self, group: int, who: int, claim: str | None, shift: int) -> None:
        member_id, instance_id = self._identity(group, who, claim)
        generation = self._generation(group, shift)
        self.driver.send(
            HeartbeatRequest(
                self._id(),
                self._group_id(group),
                generation_id=generation,
                member_id=member_id,
                group_instance_id=instance_id,
            )
        )

    def leave(self, group: int, leaving: list[tuple[int, str | None, bool]], version: int) -> None:
        """Sends one LeaveGroup for several members. The last element of each tuple says whether the request names the
        member by its instance id alone."""
        identities = []
        for who, claim, by_instance in leaving:
            member_id, instance_id = self._identity(group, who, claim)
            identities.append(LeavingMember("" if by_instance else member_id, instance_id))
        if version < 3:
            identities = [LeavingMember(identities[0].member_id)]
        self.driver.send(LeaveGroupRequest(self._id(), self._group_id(group), tuple(identities), version))

    # Offsets

    def commit(
        self, group: int, who: int | None, claim: str | None, shift: int, places: list[Any], offset: int, version: int
    ) -> None:
        member_id, instance_id = ("", None) if who is None else self._identity(group, who, claim)
        request = OffsetCommitRequest(
            self._id(),
            self._group_id(group),
            offsets=self._offsets(places, offset, named=version < TOPIC_IDS_SINCE),
            generation_id=-1 if who is None else self._generation(group, shift),
            member_id=member_id,
            group_instance_id=instance_id if version >= INSTANCE_SINCE["commit"] else None,
            retention_time_ms=RETENTION_MS if version <= RETENTION_UP_TO else -1,
            api_version=version,
        )
        self.driver.send(request)

    def _offsets(self, places: list[Any], offset: int, *, named: bool = True) -> tuple[OffsetToCommit, ...]:
        ids = dict.fromkeys(TOPICS, ZERO_UUID) if named else self.driver.broker.topic_ids
        texts = itertools.cycle(["", None, "x" * 4_097, "metadata"])
        return tuple(
            OffsetToCommit(topic=topic, partition=partition, offset=offset, metadata=text, topic_id=ids[topic])
            for (topic, partition), text in zip(places, texts, strict=False)
        )

    def commit_in_transaction(
        self, group: int, producer: int, who: int | None, claim: str | None, shift: int, places: list[Any], offset: int
    ) -> None:
        member_id, instance_id = ("", None) if who is None else self._identity(group, who, claim)
        request = TxnOffsetCommitRequest(
            self._id(),
            self._group_id(group),
            producer_id=producer,
            producer_epoch=0,
            offsets=self._offsets(places, offset),
            generation_id=-1 if who is None else self._generation(group, shift),
            member_id=member_id,
            group_instance_id=instance_id,
            api_version=5 if producer % 2 else 3,
        )
        self.open_producers.add(producer)
        self.driver.send(request)

    def end_transaction(self, producer: int, committed: bool) -> None:
        if producer in self.open_producers:
            self.open_producers.remove(producer)
            self.driver.end_transaction(producer, committed=committed)

    def fetch(self, groups: list[int], places: list[Any] | None, require_stable: bool) -> None:
        asked = None if places is None else tuple(TopicPartition(*place) for place in places)
        wanted = tuple(OffsetFetchGroup(self._group_id(group), asked) for group in groups)
        self.driver.send(OffsetFetchRequest(self._id(), wanted, require_stable))

    def delete_offsets(self, group: int, places: list[Any]) -> None:
        self.driver.send(
            OffsetDeleteRequest(self._id(), self._group_id(group), tuple(TopicPartition(*place) for place in places))
        )

    # Administration

    def describe(self, groups: list[int], version: int) -> None:
        self.driver.send(DescribeGroupsRequest(self._id(), tuple(map(self._group_id, groups)), version))

    def list_groups(self, states: list[str], types: list[str]) -> None:
        self.driver.send(ListGroupsRequest(self._id(), tuple(states), tuple(types)))

    def delete_groups(self, groups: list[int]) -> None:
        self.driver.send(DeleteGroupsRequest(self._id(), tuple(map(self._group_id, groups))))

    def _id(self) -> int:
        return self.driver.next_request_id()


def _step(name: str, **arguments: Any) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


_protocols = st.sampled_from(PROTOCOLS)
_groups = st.sampled_from([[0], [0], [1], [0, 1]])
_maybe = st.one_of(st.none(), who, who)

FORM = _step(
    "form",
    group=group,
    instances=st.lists(instance, min_size=1, max_size=4, unique_by=lambda one: one or object()),
    protocols=st.sampled_from(PROTOCOLS[:4]),
)
JOIN = _step(
    "join",
    group=group,
    instance=instance,
    protocols=_protocols,
    protocol_type=st.sampled_from(["consumer"] * 8 + ["connect", ""]),
    version=st.sampled_from(JOIN_VERSIONS),
)
REJOIN = _step(
    "rejoin",
    group=group,
    who=who,
    claim=claim,
    protocols=st.one_of(st.none(), st.none(), _protocols),
    version=st.sampled_from([5, 8, 9]),
)
SYNC = _step(
    "sync",
    group=group,
    who=who,
    claim=claim,
    shift=shift,
    names=st.sampled_from(["right", "right", "wrong", "none"]),
    version=st.sampled_from([0, 3, 4, 5]),
)
LEAVE = _step(
    "leave",
    group=group,
    leaving=st.lists(st.tuples(who, claim, st.booleans()), min_size=1, max_size=3),
    version=st.sampled_from([2, 3, 5, 5]),
)
COMMIT = _step(
    "commit",
    group=group,
    who=_maybe,
    claim=claim,
    shift=shift,
    places=places,
    offset=st.integers(-1, 99),
    version=st.sampled_from([2, 5, 6, 8, 9, 10]),
)
TXN_COMMIT = _step(
    "commit_in_transaction",
    group=group,
    producer=st.integers(1, 2),
    who=_maybe,
    claim=claim,
    shift=shift,
    places=places,
    offset=st.integers(0, 99),
)
STEPS: list[st.SearchStrategy[Step]] = [
    FORM,
    JOIN,
    JOIN,
    REJOIN,
    REJOIN,
    _step("everybody_rejoins", group=group),
    _step("everybody_rejoins", group=group),
    _step("everybody_syncs", group=group, leader_first=st.booleans(), how_many=st.integers(0, 4)),
    _step("everybody_syncs", group=group, leader_first=st.booleans(), how_many=st.integers(0, 4)),
    SYNC,
    _step("heartbeat", group=group, who=who, claim=claim, shift=shift),
    LEAVE,
    COMMIT,
    COMMIT,
    TXN_COMMIT,
    _step("end_transaction", producer=st.integers(1, 2), committed=st.booleans()),
    _step("fetch", groups=_groups, places=st.one_of(st.none(), places), require_stable=st.booleans()),
    _step("delete_offsets", group=group, places=places),
    _step("describe", groups=_groups, version=st.sampled_from([0, 3, 4, 5, 6])),
    _step(
        "list_groups",
        states=st.lists(st.sampled_from(["Stable", "empty", "PreparingRebalance", "Dead"]), max_size=2),
        types=st.lists(st.sampled_from(["classic", "Consumer"]), max_size=1),
    ),
    _step("delete_groups", groups=_groups),
]
STEPS_MIN, STEPS_MAX = 10, 30
SEQUENCES = st.builds(
    lambda first, others: [first, *others], FORM, st.lists(st.one_of(STEPS), min_size=STEPS_MIN, max_size=STEPS_MAX)
)

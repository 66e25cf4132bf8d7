"""Goal: members of streams groups join, take tasks and give them up, leave and are taken out in time, as
`lab.kafka.streams_differential` shows it on a broker, and by timers, failures and loads, which it does not play."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupledger.coordinator.model.coordinator import Coordinator
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.assignors import IllegalTargetError, TasksToAssign, in_turn
from groupledger.coordinator.model.groups.streams.configured import StatusCode
from groupledger.coordinator.model.groups.streams.endpoints import EndpointPartitions
from groupledger.coordinator.model.groups.streams.member import Endpoint, StreamsMemberState
from groupledger.coordinator.model.groups.streams.tasks import Task, Tasks, TasksByRole
from groupledger.coordinator.model.groups.streams.topology import Subtopology, TopicInfo, Topology
from groupledger.coordinator.model.handlers.streams.messages import (
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
)
from groupledger.coordinator.model.messages import WriteTxnMarkerRequest
from groupledger.schemas.kafka.errors import Error
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS, Cluster
from tests.coordinator.model.streams_applications import (
    CHANGELOG,
    COUNTS,
    LEFT,
    PASSED_ON,
    TOPOLOGY,
    beat,
    group_of,
    join,
    streams_cluster,
    types,
)

ALL = (("0", (0, 1, 2, 3, 4, 5)), ("1", (0, 1, 2)))
FIRST_HALF, SECOND_HALF = (("0", (0, 2, 4)), ("1", (0, 2))), (("0", (1, 3, 5)), ("1", (1,)))
TARGET = ["target_assignment_member", "target_assignment_metadata"]
OUT = ["current_member_assignment", "target_assignment_member", "member_metadata", "metadata"]

OF_A = {"member_id": "a", "member_epoch": 2, "topology": None}
COUNTS_OF_SIX = replace(COUNTS, state_changelog_topics=(TopicInfo(CHANGELOG.name, 6),))


def codes(answer: Any) -> list[int]:
    return [status.code for status in answer.status]


def described(cluster: Cluster) -> Any:
    return cluster.ask(StreamsGroupDescribeRequest, group_ids=(GROUP,)).groups[0]


# Joining, and going on to the target


def test_first_member() -> None:
    """Goal: the first epoch of a group is 2, and its first member has all tasks at once."""
    cluster = streams_cluster()
    joined = join(cluster, "a")
    assert (joined.error, joined.member_epoch, joined.status) == (Error.NONE, 2, ())
    assert joined.assignment == TasksByRole(active=ALL)
    assert types(cluster) == ["member_metadata", "topology", "metadata", *TARGET, "current_member_assignment"]
    again = beat(cluster, "a", 2)
    assert (again.error, again.member_epoch, again.assignment) == (Error.NONE, 2, None)
    assert len(cluster.log) == 1
    assert group_of(cluster).state == "Stable"


def test_tasks_move() -> None:
    """Goal: a task goes to another member only after its owner has said that it no longer has it."""
    cluster = streams_cluster()
    join(cluster, "a")
    joined = join(cluster, "b")
    assert (joined.member_epoch, joined.assignment) == (3, TasksByRole())
    assert group_of(cluster).members["b"].state is StreamsMemberState.UNRELEASED_TASKS
    response = beat(cluster, "a", 2, owned=ALL)
    assert (response.member_epoch, response.assignment) == (2, TasksByRole(active=FIRST_HALF))
    assert beat(cluster, "b", 3).assignment is None
    assert beat(cluster, "a", 2).member_epoch == 2, "it says nothing of what it has"
    assert beat(cluster, "a", 2, owned=FIRST_HALF).member_epoch == 3
    assert beat(cluster, "b", 3).assignment == TasksByRole(active=SECOND_HALF)
    assert group_of(cluster).state == "Stable"
    kept, taken = Task("active", "0", 0), Task("active", "0", 1)
    assert (group_of(cluster).members["a"].assigned[kept], group_of(cluster).members["b"].assigned[taken]) == (2, 3)


def test_copies_wait_for_their_process() -> None:
    """Goal: a standby waits while its process has the task active, and an active one while its process has a copy."""
    active, standby = Task("active", "0", 0), Task("standby", "0", 0)
    targets: list[dict[str, Tasks]] = [
        {"a": frozenset({active})},
        {"a": frozenset(), "b": frozenset({active}), "c": frozenset({standby})},
    ]

    def assignor(asked: TasksToAssign) -> dict[str, Tasks]:
        return targets[0] if len(asked.processes) < len(targets[1]) else targets[1]

    cluster = streams_cluster(streams_assignor=assignor)
    one = Topology(0, (Subtopology(subtopology_id="0", source_topics=("single",)),))
    cluster.coordinator.topics["single"] = Topic("single", "AAAAAAAAAAAAAAAAAAAABA", 1)
    join(cluster, "a", topology=one, process_id="p1")
    join(cluster, "b", topology=one, process_id="p2")
    waiting = join(cluster, "c", topology=one, process_id="p1")
    assert (waiting.member_epoch, waiting.assignment) == (4, TasksByRole())
    assert group_of(cluster).members["c"].state is StreamsMemberState.UNRELEASED_TASKS
    beat(cluster, "a", 2, owned=(("0", (0,)),))
    beat(cluster, "a", 2, owned=())
    assert beat(cluster, "c", 4).assignment == TasksByRole(standby=(("0", (0,)),))
    assert beat(cluster, "b", 3).assignment == TasksByRole(active=(("0", (0,)),))


def test_illegal_targets() -> None:
    """Goal: an assignor that loses a task, gives it twice, or gives a process a copy of a task that it has, is found
    out."""
    asked = TasksToAssign(group_id=GROUP, processes={"a": "p1", "b": "p1"}, task_counts={"0": 1}, before={})
    active, standby = Task("active", "0", 0), Task("standby", "0", 0)
    illegal: list[dict[str, Tasks]] = [
        {"a": frozenset()},
        {"a": frozenset({active}), "b": frozenset({active})},
        {"a": frozenset({active}), "b": frozenset({standby})},
        {"a": frozenset({active}), "z": frozenset()},
        {"a": frozenset({active, Task("standby", "0", 1)})},
    ]
    for target in illegal:
        cluster = streams_cluster(streams_assignor=lambda _, target=target: target)
        one = Topology(0, (Subtopology(subtopology_id="0", source_topics=("single",)),))
        cluster.coordinator.topics["single"] = Topic("single", "AAAAAAAAAAAAAAAAAAAABA", 1)
        with pytest.raises(IllegalTargetError):
            join(cluster, "a", topology=one)
    assert in_turn(asked) == {"a": frozenset({active}), "b": frozenset()}


# Epochs, words and refusals


def test_epochs() -> None:
    """Goal: a member may repeat the epoch before if it owns nothing beyond its tasks, or join again; no other epoch is
    taken."""
    cluster = streams_cluster()
    join(cluster, "a")
    beat(cluster, "a", 2, rack_id="rack-1")
    assert group_of(cluster).members["a"].epoch == 3
    assert beat(cluster, "a", 2, owned=(("0", (0,)),)).member_epoch == 3
    for epoch, owned in ((2, None), (2, (("0", (9,)),)), (4, ()), (1, ())):
        assert beat(cluster, "a", epoch, owned=owned).error is Error.FENCED_MEMBER_EPOCH
    again = join(cluster, "a")
    assert (again.member_epoch, again.assignment) == (3, TasksByRole(active=ALL))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": " "}, Error.INVALID_REQUEST),
        ({"group_id": ""}, Error.INVALID_REQUEST),
        ({"rack_id": ""}, Error.INVALID_REQUEST),
        ({"instance_id": "static"}, Error.INVALID_REQUEST),
        ({"member_epoch": -2}, Error.INVALID_REQUEST),
        ({"topology": None}, Error.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Error.INVALID_REQUEST),
        ({"active_tasks": None}, Error.INVALID_REQUEST),
        ({"active_tasks": (("0", (0,)),)}, Error.INVALID_REQUEST),
        ({"member_epoch": 2}, Error.INVALID_REQUEST),  # with a topology
        ({"member_epoch": 2, "topology": None, "standby_tasks": None}, Error.INVALID_REQUEST),
        ({**OF_A, "active_tasks": (("0", (6,)),)}, Error.INVALID_REQUEST),
        ({**OF_A, "active_tasks": (("2", ()),)}, Error.INVALID_REQUEST),
        ({"topology": replace(TOPOLOGY, epoch=2)}, Error.INVALID_REQUEST),
        ({"topology": Topology(1, (COUNTS,))}, Error.INVALID_REQUEST),
        ({"topology": Topology(1, (COUNTS_OF_SIX,))}, Error.STREAMS_INVALID_TOPOLOGY),
        ({"topology": Topology(1, (COUNTS, COUNTS))}, Error.UNKNOWN_SERVER_ERROR),
        ({"member_epoch": 2, "topology": None}, Error.UNKNOWN_MEMBER_ID),
        ({"member_epoch": LEFT, "topology": None}, Error.UNKNOWN_MEMBER_ID),
        ({"member_epoch": 2, "topology": None, "group_id": "absent"}, Error.GROUP_ID_NOT_FOUND),
        ({"member_epoch": LEFT, "topology": None, "group_id": "absent"}, Error.GROUP_ID_NOT_FOUND),
    ],
)
def test_refusals(fields: dict[str, Any], error: Error) -> None:
    """Goal: a heartbeat that is refused writes nothing."""
    cluster = streams_cluster()
    join(cluster, "a")
    cluster.log.clear()
    words = {"member_id": "b", "member_epoch": 0, "rebalance_timeout_ms": 60_000, "topology": TOPOLOGY, **fields}
    member_id, epoch = words.pop("member_id"), words.pop("member_epoch")
    assert beat(cluster, member_id, epoch, owned=(), **words).error is error
    assert cluster.log == []


def test_full_group() -> None:
    """Goal: a full group takes nobody, not even who joins again."""
    cluster = streams_cluster(group_streams_max_size=1)
    join(cluster, "a")
    assert [join(cluster, name).error for name in ("b", "a")] == [Error.GROUP_MAX_SIZE_REACHED] * 2


def test_shutdown() -> None:
    """Goal: a member that asks for a shutdown is announced to all, until the group is empty."""
    cluster = streams_cluster()
    join(cluster, "a")
    join(cluster, "b")
    beat(cluster, "b", 3, shutdown_application=True)
    assert codes(beat(cluster, "a", 2)) == [StatusCode.SHUTDOWN_APPLICATION]
    for name in ("a", "b"):
        beat(cluster, name, LEFT)
    assert codes(join(cluster, "c")) == []


def test_stale_topology() -> None:
    """Goal: a member that joins with an older topology gets the status STALE_TOPOLOGY, and the group keeps its own
    topology."""
    cluster = streams_cluster()
    join(cluster, "a")
    joined = join(cluster, "b", topology=Topology(0, (PASSED_ON,)))
    assert (joined.error, codes(joined)) == (Error.NONE, [StatusCode.STALE_TOPOLOGY])
    assert group_of(cluster).topology == TOPOLOGY


def test_endpoints() -> None:
    """Goal: members learn which partitions others have, and where, if that is newer than their own knowledge."""
    cluster = streams_cluster()
    endpoint = Endpoint("host", 8080)
    joined = join(cluster, "a", user_endpoint=endpoint)
    partitions = ((CHANGELOG.name, ALL[0][1]), (ORDERS.name, ALL[0][1]), (PAYMENTS.name, ALL[1][1]))[1:]
    assert joined.endpoints == (EndpointPartitions(endpoint, partitions, ()),)
    assert joined.endpoint_information_epoch == 0, "of a group that is not there yet"
    assert beat(cluster, "a", 2).endpoints is None
    assert join(cluster, "b", user_endpoint=Endpoint("other", 1)).endpoint_information_epoch == 1
    response = beat(cluster, "a", 2, endpoint_information_epoch=1)
    assert (response.endpoint_information_epoch, len(response.endpoints)) == (2, 2), "it has less by now"
    assert beat(cluster, "a", 2, endpoint_information_epoch=2).endpoints is None


# Topics


def test_missing_topics() -> None:
    """Goal: while source or internal topics are missing nobody has a task; each change of that is an epoch."""
    cluster = streams_cluster()
    del cluster.coordinator.topics[CHANGELOG.name], cluster.coordinator.topics[PAYMENTS.name]
    joined = join(cluster, "a")
    assert (codes(joined), joined.assignment) == ([StatusCode.MISSING_SOURCE_TOPICS], TasksByRole())
    assert joined.status[0].detail == f"Source topics {PAYMENTS.name} are missing."
    assert group_of(cluster).state == "NotReady"
    cluster.coordinator.topics[PAYMENTS.name] = PAYMENTS
    found = beat(cluster, "a", 2)
    assert (found.member_epoch, codes(found)) == (3, [StatusCode.MISSING_INTERNAL_TOPICS])
    assert found.status[0].detail == f"Internal topics are missing: {CHANGELOG.name}"
    cluster.coordinator.topics[CHANGELOG.name] = CHANGELOG
    given = beat(cluster, "a", 3)
    assert (given.member_epoch, given.status, given.assignment) == (4, (), TasksByRole(active=ALL))
    cluster.coordinator.topics[CHANGELOG.name] = replace(CHANGELOG, partition_count=7)
    assert codes(beat(cluster, "a", 4)) == [StatusCode.INCORRECTLY_PARTITIONED_TOPICS]


def test_description_of_what_is_configured() -> None:
    """Goal: internal topics are described with their partitions once the topology was configured for a group that was
    there, and something was written after that."""
    cluster = streams_cluster()
    join(cluster, "a")
    partitions = []
    for name in ("a", "b"):
        partitions.append(described(cluster).topology.subtopologies[0].state_changelog_topics[0].partitions)
        beat(cluster, "a", 2)
        partitions.append(described(cluster).topology.subtopologies[0].state_changelog_topics[0].partitions)
        join(cluster, name)
    partitions.append(described(cluster).topology.subtopologies[0].state_changelog_topics[0].partitions)
    assert partitions == [0, 0, 0, 0, ORDERS.partition_count]


def test_a_marker_shows_what_is_configured() -> None:
    """Goal: the end of a transaction in the same partition is something written, too."""
    cluster = streams_cluster()
    join(cluster, "a")
    beat(cluster, "a", 2)
    cluster.ask(WriteTxnMarkerRequest, partition=0, producer_id=1, producer_epoch=0, committed=False)
    changelog = described(cluster).topology.subtopologies[0].state_changelog_topics[0]
    assert changelog.partitions == ORDERS.partition_count


# Members that go, and time


def test_leaves_and_is_silent() -> None:
    """Goal: a member that leaves, or is silent for its session, is removed with the same records; the other member gets
    all tasks."""
    for is_silent in (False, True):
        cluster = streams_cluster()
        join(cluster, "a")
        join(cluster, "b")
        cluster.wait(30_000)
        beat(cluster, "a", 2)
        cluster.log.clear()
        if is_silent:
            cluster.wait(15_000)
        else:
            left = beat(cluster, "b", LEFT)
            assert (left.error, left.member_epoch, left.heartbeat_interval_ms) == (Error.NONE, LEFT, 0)
        assert types(cluster) == OUT
        assert beat(cluster, "b", 3).error is Error.UNKNOWN_MEMBER_ID
        released = beat(cluster, "a", 2, owned=FIRST_HALF)
        assert (released.member_epoch, released.assignment) == (4, None), "what it gave up is free only now"
        assert beat(cluster, "a", 4).assignment == TasksByRole(active=ALL)


def test_gives_nothing_up() -> None:
    """Goal: a member that has not given up its tasks is removed when its rebalance timeout is over."""
    cluster = streams_cluster()
    join(cluster, "a", rebalance_timeout_ms=10_000)
    join(cluster, "b")
    beat(cluster, "a", 2, owned=ALL)
    cluster.log.clear()
    cluster.wait(9_000)
    beat(cluster, "a", 2, owned=ALL)
    assert types(cluster) == []
    cluster.wait(1_000)
    assert types(cluster) == OUT
    assert [*group_of(cluster).members] == ["b"]


def test_initial_delay() -> None:
    """Goal: the members of a new group are given nothing until the delay is over, and then all of them their share."""
    cluster = streams_cluster(group_streams_initial_rebalance_delay_ms=3_000)
    joined = join(cluster, "a")
    assert codes(joined) == [StatusCode.ASSIGNMENT_DELAYED]
    assert (joined.member_epoch, joined.assignment) == (1, TasksByRole())
    assert codes(join(cluster, "b")) == [StatusCode.ASSIGNMENT_DELAYED]
    cluster.log.clear()
    cluster.wait(3_000)
    assert types(cluster) == ["target_assignment_member", *TARGET]
    assert beat(cluster, "a", 1).assignment == TasksByRole(active=FIRST_HALF)
    assert beat(cluster, "b", 1).assignment == TasksByRole(active=SECOND_HALF)
    assert join(cluster, "c").status == ()


def test_initial_delay_of_one() -> None:
    """Goal: a member that only joined is given nothing as the delay is over, since its topology is not configured yet,
    but with its next heartbeat."""
    cluster = streams_cluster(group_streams_initial_rebalance_delay_ms=3_000)
    join(cluster, "a")
    assert cluster.wait(3_000) == []
    given = beat(cluster, "a", 1)
    assert (given.member_epoch, given.assignment) == (2, TasksByRole(active=ALL))


# Failures


def test_load() -> None:
    """Goal: a coordinator that loads the log knows what the one that wrote it knew, and watches sessions and members
    that have something to give up."""
    cluster = streams_cluster()
    join(cluster, "a", rebalance_timeout_ms=10_000, rack_id="rack-1", user_endpoint=Endpoint("host", 1))
    join(cluster, "b")
    beat(cluster, "a", 2, owned=ALL)
    loaded = Coordinator(cluster.config)
    loaded.topics.update(cluster.coordinator.topics)
    loaded.load(0, cluster.log, now_ms=cluster.now_ms)
    group, before = loaded.streams_group(GROUP), group_of(cluster)
    assert group is not None
    assert dict(group.members.items()) == dict(before.members.items())
    assert (group.target, group.words, group.epoch) == (before.target, before.words, before.epoch)
    assert (group.topology, group.target_epoch, group.state) == (TOPOLOGY, 3, "Reconciling")
    loaded.advance(cluster.now_ms + 10_000)
    assert [*group.members] == ["b"]
    loaded.advance(cluster.now_ms + cluster.config.group_streams_session_timeout_ms)
    assert group.state == "Empty"


def test_append_fails() -> None:
    """Goal: a heartbeat whose records cannot be written is refused, and changes nothing."""
    cluster = streams_cluster()
    words: dict[str, Any] = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": (), "rebalance_timeout_ms": 1}
    request = StreamsGroupHeartbeatRequest(0, group_id=GROUP, member_id="a", member_epoch=0, topology=TOPOLOGY, **words)
    result = cluster.coordinator.handle(request, now_ms=0, append_error=Error.NOT_LEADER_OR_FOLLOWER)
    (response,) = result.responses
    assert (getattr(response, "error", None), result.batches) == (Error.NOT_COORDINATOR, ())
    assert cluster.coordinator.streams_group(GROUP) is None
    join(cluster, "a")
    changed = StreamsGroupHeartbeatRequest(0, group_id=GROUP, member_id="a", member_epoch=2, rack_id="rack-1")
    cluster.coordinator.handle(changed, now_ms=cluster.now_ms, append_error=Error.NOT_LEADER_OR_FOLLOWER)
    assert group_of(cluster).configured is None
    assert group_of(cluster).members["a"].rack_id is None

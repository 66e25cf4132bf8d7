"""Goal: streams groups of 4.4 have static members, a time between two targets, roles that change at once, and a plan,
as `lab.kafka.streams_differential` shows it on a 4.4 broker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.model.config import KAFKA_4_2, KAFKA_4_4
from groupledger.coordinator.model.groups.modern.epochs import AWAY
from groupledger.coordinator.model.groups.modern.topics import Topic
from groupledger.coordinator.model.groups.streams.member import Endpoint, StreamsMemberState
from groupledger.coordinator.model.groups.streams.tasks import Task, Tasks, TasksByRole
from groupledger.coordinator.model.groups.streams.topology import Subtopology, Topology
from groupledger.coordinator.model.handlers.streams.messages import StreamsGroupDescribeRequest
from groupledger.schemas.kafka.errors import Error
from tests.coordinator.model.consumers import GROUP, ORDERS, PAYMENTS, Cluster
from tests.coordinator.model.streams_applications import LEFT, TOPOLOGY, beat, group_of, join, streams_cluster, types

if TYPE_CHECKING:
    from groupledger.coordinator.model.groups.streams.assignors import TasksToAssign

ALL = (("0", (0, 1, 2, 3, 4, 5)), ("1", (0, 1, 2)))
FIRST_HALF, SECOND_HALF = (("0", (0, 2, 4)), ("1", (0, 2))), (("0", (1, 3, 5)), ("1", (1,)))
REPLACED = ["current_member_assignment", "target_assignment_member", "member_metadata"]
ONE = Topology(0, (Subtopology(subtopology_id="0", source_topics=("single",)),))


def cluster_of_4_4(**settings: Any) -> Cluster:
    return streams_cluster(**{"release": KAFKA_4_4, "group_streams_assignment_interval_ms": 0, **settings})


def two_static(cluster: Cluster) -> None:
    """Lets two static members join, and take their tasks."""
    for name in ("a", "b"):
        join(cluster, name, instance_id=f"instance of {name}", process_id=f"process of {name}")
    beat(cluster, "a", 2, owned=ALL)
    beat(cluster, "a", 2, owned=FIRST_HALF)
    beat(cluster, "b", 3)
    assert group_of(cluster).state == "Stable"
    cluster.log.clear()


def test_comes_back() -> None:
    """Goal: a static member that was away has its tasks at once under another id, without an epoch."""
    cluster = cluster_of_4_4()
    two_static(cluster)
    gone = beat(cluster, "a", AWAY, instance_id="instance of a")
    assert (gone.error, gone.member_epoch) == (Error.NONE, AWAY)
    assert (types(cluster), group_of(cluster).state) == (["current_member_assignment"], "Reconciling")
    assert {*group_of(cluster).members["a"].assigned.values()} == {0}
    cluster.log.clear()
    back = join(cluster, "c", instance_id="instance of a", process_id="process of a", client_id="another")
    assert (back.member_epoch, back.assignment) == (3, TasksByRole(active=FIRST_HALF))
    again = ["member_metadata", "target_assignment_member", "current_member_assignment"]
    assert types(cluster) == [*REPLACED, *again, "member_metadata", "current_member_assignment"]
    assert group_of(cluster).state == "Stable"
    described = cluster.ask(StreamsGroupDescribeRequest, group_ids=(GROUP,)).groups[0].members
    assert {each.member_id: each.instance_id for each in described} == {"b": "instance of b", "c": "instance of a"}


def test_another_process_begins_an_epoch() -> None:
    """Goal: a static member that comes back in another process begins an epoch."""
    cluster = cluster_of_4_4()
    two_static(cluster)
    beat(cluster, "a", AWAY, instance_id="instance of a")
    assert join(cluster, "c", instance_id="instance of a").member_epoch == 4
    assert {*group_of(cluster).members} == {"b", "c"}


def test_who_may_use_an_instance_id() -> None:
    """Goal: nobody joins under the instance id of a member that is there, or sends anything else under it."""
    cluster = cluster_of_4_4()
    two_static(cluster)
    words: Any = {"instance_id": "instance of a"}
    assert join(cluster, "c", **words).error is Error.UNRELEASED_INSTANCE_ID
    for epoch in (3, LEFT, AWAY):
        assert beat(cluster, "c", epoch, **words).error is Error.FENCED_INSTANCE_ID
        assert beat(cluster, "a", epoch, instance_id="unknown").error is Error.UNKNOWN_MEMBER_ID
    assert beat(cluster, "a", AWAY).error is Error.INVALID_REQUEST, "it names no instance id"
    assert types(cluster) == []


def test_stays_away() -> None:
    """Goal: a static member that stays away is removed when its session ends, and not when it had to give up tasks."""
    cluster = cluster_of_4_4(group_streams_session_timeout_ms=30_000)
    join(cluster, "a", instance_id="i", rebalance_timeout_ms=10_000)
    join(cluster, "b")
    beat(cluster, "a", 2, owned=ALL)
    assert group_of(cluster).members["a"].state is StreamsMemberState.UNREVOKED_TASKS
    beat(cluster, "a", AWAY, instance_id="i")
    cluster.wait(15_000)
    assert group_of(cluster).members["a"].epoch == AWAY
    beat(cluster, "b", 3)
    cluster.wait(15_000)
    assert [*group_of(cluster).members] == ["b"]
    assert group_of(cluster).static_members == {}


def test_another_instance_id() -> None:
    """Goal: a member that joins under another instance id no longer has the former one."""
    cluster = cluster_of_4_4()
    for instance_id in ("i", "j"):
        assert join(cluster, "a", instance_id=instance_id).error is Error.NONE
    assert group_of(cluster).static_members == {"j": "a"}


def test_what_begins_an_epoch() -> None:
    """Goal: for a static member, only what an assignor may look at begins an epoch."""
    cluster = cluster_of_4_4()
    join(cluster, "a", instance_id="i")
    beat(cluster, "a", 2, instance_id="i", user_endpoint=Endpoint("host", 1), rebalance_timeout_ms=1_000)
    assert (group_of(cluster).epoch, group_of(cluster).members["a"].rebalance_timeout_ms) == (2, 1_000)
    assert beat(cluster, "a", 2, instance_id="i", rack_id="rack-1").member_epoch == 3


def test_full_group() -> None:
    """Goal: a full group takes nobody, except who is there already."""
    cluster = cluster_of_4_4(group_streams_max_size=1)
    join(cluster, "a", instance_id="i")
    beat(cluster, "a", AWAY, instance_id="i")
    assert join(cluster, "c").error is Error.GROUP_MAX_SIZE_REACHED
    assert join(cluster, "b", instance_id="i").error is Error.NONE
    assert join(cluster, "b").error is Error.NONE


def test_time_between_targets() -> None:
    """Goal: for a second after a target there is no other one; a member that joins meanwhile has no tasks, at the epoch
    of the last target."""
    cluster = cluster_of_4_4(group_streams_assignment_interval_ms=1_000)
    join(cluster, "a")
    early = join(cluster, "b")
    assert (early.member_epoch, early.assignment, group_of(cluster).state) == (2, TasksByRole(), "Assigning")
    assert [each.detail for each in early.status] == ["Assignment delayed due to the configured assignment interval."]
    cluster.wait(1_000)
    late = beat(cluster, "b", 2)
    assert (late.member_epoch, late.status, group_of(cluster).target_epoch) == (3, (), 3)


@pytest.mark.parametrize("release", [KAFKA_4_2, KAFKA_4_4])
def test_last_member_leaves(release: str) -> None:
    """Goal: since 4.4 a group without members has a target, that of nobody, for its epoch."""
    cluster = cluster_of_4_4(release=release)
    join(cluster, "a")
    assert bool(group_of(cluster).targeted_at_ms) is (release == KAFKA_4_4)
    cluster.log.clear()
    beat(cluster, "a", LEFT)
    assert types(cluster) == [*REPLACED, "metadata", *["target_assignment_metadata"][: release == KAFKA_4_4]]


def test_endpoints() -> None:
    """Goal: an endpoint has the partitions that there are, and is gone when its member joins again without it."""
    cluster = cluster_of_4_4()
    both = Topology(1, (Subtopology(subtopology_id="0", source_topics=(ORDERS.name, PAYMENTS.name)),))
    join(cluster, "b", topology=both)
    joined = join(cluster, "a", topology=both, user_endpoint=Endpoint("host", 1))
    assert joined.endpoints[0].active == ()
    beat(cluster, "b", 2, owned=(("0", (0, 1, 2, 3, 4, 5)),))
    beat(cluster, "b", 2, owned=(("0", (1, 3, 5)),))
    given = beat(cluster, "a", 3, endpoint_information_epoch=-1)
    assert given.endpoints[0].active == ((ORDERS.name, (0, 2, 4)), (PAYMENTS.name, (0, 2)))
    without = join(cluster, "a", topology=both, endpoint_information_epoch=-1)
    assert without.endpoints == ()
    assert without.endpoint_information_epoch == given.endpoint_information_epoch + 1


# Roles


def cluster_of_one_task(*targets: dict[str, Tasks]) -> Cluster:
    """Returns a cluster in which the n-th target is computed for n members."""

    def assignor(asked: TasksToAssign) -> dict[str, Tasks]:
        return targets[len(asked.processes) - 1]

    cluster = cluster_of_4_4(streams_assignor=assignor)
    cluster.coordinator.topics["single"] = Topic("single", "AAAAAAAAAAAAAAAAAAAABA", 1)
    return cluster


def test_roles_change() -> None:
    """Goal: a member gets the standby of its active task at once, and keeps a standby until it has the task active."""
    active, standby = (frozenset({Task(role, "0", 0)}) for role in ("active", "standby"))
    cluster = cluster_of_one_task({"a": active}, {"a": active, "b": standby}, {"a": standby, "b": active})
    for name in ("a", "b", "c"):
        join(cluster, name, topology=ONE)
    owned = (("0", (0,)),)
    both = beat(cluster, "a", 2, owned=owned)
    assert (both.member_epoch, both.assignment) == (2, TasksByRole(standby=owned))
    waits = beat(cluster, "b", 3, active_tasks=(), standby_tasks=owned, warmup_tasks=())
    assert (waits.member_epoch, waits.assignment) == (4, None)
    assert group_of(cluster).members["b"].state is StreamsMemberState.UNRELEASED_TASKS
    assert beat(cluster, "a", 2, active_tasks=(), standby_tasks=owned, warmup_tasks=()).member_epoch == 4
    assert beat(cluster, "b", 4).assignment == TasksByRole(active=owned)


# The plan


def test_a_failed_request_leaves_its_plan() -> None:
    """Goal: a request that failed leaves its plan for the epoch; when all have reached it, an epoch begins by which
    members go to their target."""
    cluster = cluster_of_4_4()
    del cluster.coordinator.topics[PAYMENTS.name]
    join(cluster, "a")
    assert join(cluster, "b", user_endpoint=Endpoint("host", 1)).error is Error.UNKNOWN_SERVER_ERROR
    cluster.coordinator.topics[PAYMENTS.name] = PAYMENTS
    planned = beat(cluster, "a", 2)
    assert (planned.member_epoch, planned.assignment) == (3, None)
    assert group_of(cluster).target["a"]
    cluster.log.clear()
    given = beat(cluster, "a", 3)
    assert (given.member_epoch, given.assignment) == (4, TasksByRole(active=ALL))
    assert types(cluster) == ["metadata", "target_assignment_metadata", "current_member_assignment"]


def test_a_refused_request_takes_the_plan() -> None:
    """Goal: a request under a used instance id is refused, but the member that has it no longer is in the plan, and
    gives its tasks up if it is not there yet."""
    cluster = cluster_of_4_4()
    join(cluster, "a", instance_id="i")
    join(cluster, "b")
    assert join(cluster, "c", instance_id="i").error is Error.UNRELEASED_INSTANCE_ID
    assert beat(cluster, "a", 2, owned=ALL, instance_id="i").assignment == TasksByRole()
    assert group_of(cluster).target["a"]


# Refusals


def test_warmups_and_regular_expressions() -> None:
    """Goal: a 4.2 broker refuses warm-up tasks, and every broker source topics by regular expressions."""
    for release, error in ((KAFKA_4_2, Error.INVALID_REQUEST), (KAFKA_4_4, Error.NONE)):
        cluster = cluster_of_4_4(release=release)
        join(cluster, "a")
        warmup = {"active_tasks": (), "standby_tasks": (), "warmup_tasks": (("0", (0,)),)}
        assert beat(cluster, "a", 2, **warmup).error is error
        by_regex = replace(TOPOLOGY.subtopologies[0], source_topic_regex=("orders.*",))
        assert join(cluster, "b", topology=Topology(1, (by_regex,))).error is Error.INVALID_REQUEST

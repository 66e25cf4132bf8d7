"""Goal: the truth is right in rare cases, too: lost generations, removals by hand, syncs that never come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from groupledger.coordinator.model.messages import JoinGroupResponse, LeaveGroupRequest, LeavingMember
from groupledger.coordinator.simulator.scenarios.script import Script
from groupledger.coordinator.simulator.simulation import Simulation

if TYPE_CHECKING:
    from groupledger.coordinator.model.messages import Response
    from groupledger.coordinator.simulator.application import Application
    from groupledger.coordinator.simulator.truth import Truth


@pytest.fixture
def group() -> Script:
    simulation = Simulation(3)
    return Script(simulation, "g", 0, simulation.source.source("group"), simulation.now_ms)


def run_until(group: Script, minutes: float) -> Truth:
    group.simulation.run(group.began_at_ms + round(minutes * 60_000))
    return group.simulation.recorder.truth


def leaves_unsynced(application: Application) -> None:
    """The application dies when it learns that the join phase is over."""

    def is_joined(response: Response) -> bool:
        return isinstance(response, JoinGroupResponse) and response.generation_id > 1

    application.crashes_when = is_joined


def test_a_generation_without_record_is_lost_with_its_coordinator(group: Script) -> None:
    """Goal: after the failover the group is back in its last recorded generation, and the number of the lost generation
    is used again; a member of only the lost generation is gone."""
    applications = group.deploy(3, [group.topic("orders", 4)])
    group.start(applications[:2])
    run_until(group, 1)
    leader = group.leader()
    assert leader is not None
    leaves_unsynced(leader)
    group.plan(1, "start", applications[2].start)
    truth = run_until(group, 1.2)
    assert [(row.generation, row.revision) for row in truth.generations] == [(0, 0), (1, 0), (2, None)]
    broker = group.simulation.brokers.coordinator_of("g")
    assert broker is not None
    group.simulation.crash_broker(broker, 60_000)
    truth = run_until(group, 4)

    lost, again = truth.generations[2:4]
    assert (lost.generation, lost.revision, again.generation, again.revision) == (2, None, 2, 0)
    assert lost.ended_at_ms is not None
    assert lost.ended_at_ms <= again.started_at_ms
    newcomer = [row for row in truth.members if row.client_id == applications[2].client_id]
    assert [row.leave_cause for row in newcomer] == ["coordinator_failover", None]
    assert [(row.to_generation, row.changes is None) for row in truth.causes[:3]] == [(1, False), (2, True), (2, False)]
    of_leader = next(row for row in truth.members if row.client_id == leader.client_id)
    assert of_leader.leave_cause in ("failed_to_rejoin", "session_expired")


def test_a_member_that_never_syncs(group: Script) -> None:
    """Goal: the sync timer removes it, before its session (of ten minutes) can expire."""
    applications = group.deploy(2, [group.topic("orders", 4)], session_timeout_ms=600_000, max_poll_interval_ms=60_000)
    group.start(applications[:1])
    run_until(group, 1)
    leaves_unsynced(applications[1])
    group.plan(1, "crash_before_sync", applications[1].start, by=applications[1])
    truth = run_until(group, 4)
    assert [cause.trigger for cause in truth.causes] == ["joined", "joined", "sync_expired"]
    victim = next(row for row in truth.members if row.client_id == applications[1].client_id)
    assert (victim.leave_cause, truth.causes[-1].member_ids) == ("sync_expired", (victim.member_id,))
    assert truth.causes[-1].changes == ("member_left",)


def test_an_administrator_removes_a_static_member(group: Script) -> None:
    """Goal: a removal by instance id is distinguished from a member's own leave."""
    applications = group.deploy(2, [group.topic("orders", 4)], is_static=True)
    group.start(applications)
    victim = applications[1]
    group.plan(1, "crash", victim.crash)
    leaving = LeavingMember("", victim.config.group_instance_id, "it is gone for good")
    request = LeaveGroupRequest(group.simulation.new_id(), "g", (leaving,))
    group.plan(1.1, "remove", group.administrator().send, request)
    truth = run_until(group, 3)
    assert [(cause.trigger, cause.client_reason) for cause in truth.causes[1:]] == [
        ("admin_removed", "it is gone for good")
    ]
    assert next(row for row in truth.members if row.client_id == victim.client_id).leave_cause == "admin_removed"


def test_a_twin_is_known_by_the_name_of_the_first(group: Script) -> None:
    """Goal: a process that takes over a static member's instance under another client id and host is to the coordinator
    the client that was there before, and owns under that name.
    """
    applications = group.deploy(2, [group.topic("orders", 4)], is_static=True)
    (twin,) = group.deploy(1, applications[0].topics)
    group.start(applications)
    group.plan(1, "crash", applications[0].crash)
    group.plan(1.1, "start", lambda: twin.start(group_instance_id=applications[0].config.group_instance_id))
    truth = run_until(group, 2)
    first = [row for row in truth.members if row.group_instance_id == applications[0].config.group_instance_id]
    assert [(row.client_id, row.client_host, row.leave_cause) for row in first] == [
        (applications[0].client_id, applications[0].client_host, "replaced"),
        (applications[0].client_id, applications[0].client_host, None),
    ]
    broker = group.simulation.brokers.coordinator_of("g")
    assert broker is not None
    known = group.simulation.brokers.coordinators[broker].group("g")
    assert known is not None
    assert {member.client_id for member in known.members.values()} == {each.client_id for each in applications}
    assert {row.client_id for row in truth.owners} == {each.client_id for each in applications}


def test_a_follow_up_that_somebody_else_began(group: Script) -> None:
    """Goal: a member that has to give something up comes back only with the round that a newcomer's join started: for
    the change before it, that round is a follow-up all the same."""
    leader, slow, third, fourth = group.deploy(4, [group.topic("orders", 4)], assignors=("cooperative-sticky",))
    group.start([leader, slow])

    def hangs(response: Response) -> bool:
        if isinstance(response, JoinGroupResponse) and response.generation_id > 1:
            slow.crashes_when = None
            slow.hang(20_000)  # before it has seen the partitions that it has to give up
        return False

    slow.crashes_when = hangs
    group.plan(1, "start", third.start)
    group.plan(1.2, "start", fourth.start)
    truth = run_until(group, 3)
    assert [(cause.trigger, cause.changes) for cause in truth.causes[1:]] == [
        ("joined", ("member_joined",)),
        ("joined", ("cooperative_follow_up", "member_joined")),
        ("metadata_changed", ("cooperative_follow_up",)),
    ]

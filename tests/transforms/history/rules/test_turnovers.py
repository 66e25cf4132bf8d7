"""Goal: a deployment that the simulator played is recognised, nothing else is called a deployment, and unknown figures
are called unknown."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.coordinator.simulator.run import prepare
from groupledger.coordinator.simulator.scenarios import SCENARIOS
from groupledger.coordinator.simulator.simulation import BEGAN_AT_MS
from groupledger.schemas.instants import instant_of_ms, instant_of_us
from groupledger.schemas.words import TurnoverKind
from groupledger.transforms.deploys.rules.cost import compared, cost_of
from groupledger.transforms.history.rules.turnovers import Turnover, turnovers, with_versions
from lab.truth.simulated import HOUR_MS, LEISURELY, groups_in, groups_of, ledger_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from groupledger.coordinator.simulator.scenarios.script import Script
    from lab.truth.simulated import Group

SEED = 7
AT = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
LATER = AT + 60 * MINUTE
INSTANTS = ("joined_at", "left_at", "valid_from", "valid_to", "happened_at")


def rows_of(group: Group, table: str) -> list[dict[str, Any]]:
    """Returns the rows of a group in a table as questions read them."""
    return [
        {name: instant_of_us(value) if name in INSTANTS and value is not None else value for name, value in row.items()}
        for row in ledger_of(group).rows[table]
    ]


def found_in(group: Group) -> list[Turnover]:
    return turnovers(rows_of(group, "members"), instant_of_ms(group.until_ms))


def played(name: str) -> Group:
    return groups_of(name, SEED, 1, is_leisurely=True)[0]


@pytest.mark.parametrize(
    ("name", "action", "apart"),
    [
        ("rolling-restart", "rolling_restart", 1),
        ("rolling-restart-static", "rolling_restart", 1),
        ("protocol-upgrade", "protocol_upgrade", 2),
    ],
)
def test_restarts_one_after_the_other(name: str, action: str, apart: int) -> None:
    """Goal: each round of restarts is one deployment, from its first member to its last."""
    group = played(name)
    deploys = [each for each in found_in(group) if each.is_deploy is not False]
    assert [each.kind for each in deploys] == [TurnoverKind.DEPLOY] * apart
    acts = [instant_of_ms(each.happened_at_ms) for each in group.truth.actions if each.action == action]
    rounds = [acts[at : at + len(acts) // apart] for at in range(0, len(acts), len(acts) // apart)]
    for deploy, of_round in zip(deploys, rounds, strict=True):
        assert (len(deploy.before), len(deploy.gone), len(deploy.after)) == (3, 3, 3)
        assert of_round[0] <= deploy.began_at <= of_round[0] + MINUTE
        assert of_round[-1] <= deploy.ended_at <= of_round[-1] + MINUTE
        cost = cost_of(deploy, rows_of(group, "rebalances"), rows_of(group, "assignments"), [])
        is_static = name == "rolling-restart-static"
        assert (cost["rebalances"] == 0, cost["partitions_moved"] == 0) == (is_static, is_static)
        assert (cost["lag_before"], cost["lag_peak"]) == (None, None)  # nothing was sampled


def surge(script: Script) -> None:
    """New pods on hosts of their own start before the old ones are closed, twice; then one falls into a crash loop."""
    script.pace, script.processing_ms = LEISURELY, (5_000, 15_000)
    topic = script.topic("orders", 6)
    running = script.deploy(3, [topic])
    script.start(running)
    for begin in (15, 40):
        following = script.deploy(3, [topic])
        for number, (old, new) in enumerate(zip(running, following, strict=True)):
            script.start([new], begin + number, "surge")
            script.plan(begin + number + 0.5, "surge", old.close, by=old)
        running = following
    for number in range(6):
        script.bounce(running[0], 65 + 2 * number, "crash_loop", 5)


def test_pods_that_surge() -> None:
    """Goal: a rolling deployment whose pods overlap is one deployment, with other hosts; a crash loop after it is no
    deployment."""
    scenario = replace(SCENARIOS["rolling-restart"], play=surge, hours=1.5)
    simulation = prepare(scenario, SEED, 1)
    simulation.run(BEGAN_AT_MS + round(1.5 * HOUR_MS))
    (group,) = groups_in(simulation, simulation.take(is_last=True).batches)
    began, first, second, loop = found_in(group)
    assert [began.kind, first.kind, second.kind] == [TurnoverKind.BEGAN, TurnoverKind.DEPLOY, TurnoverKind.DEPLOY]
    assert (loop.kind, loop.is_deploy) == (TurnoverKind.RESTLESS, False)
    assert {row["client_host"] for row in first.before}.isdisjoint(row["client_host"] for row in first.after)
    costs = [cost_of(each, rows_of(group, "rebalances"), rows_of(group, "assignments"), []) for each in (first, second)]
    assert all(each["rebalances"] >= 3 for each in costs)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("scale-out", {TurnoverKind.BEGAN, TurnoverKind.SCALED}),
        ("scale-in", {TurnoverKind.BEGAN, TurnoverKind.SCALED}),
        ("flapping-member", {TurnoverKind.BEGAN, TurnoverKind.RESTLESS}),
        ("crash", {TurnoverKind.BEGAN, TurnoverKind.SCALED}),
        ("group-reborn", {TurnoverKind.BEGAN, TurnoverKind.ENDED}),
    ],
)
def test_what_is_no_deployment(name: str, kinds: set[str]) -> None:
    found = found_in(played(name))
    assert {each.kind for each in found} == kinds
    assert {each.is_deploy for each in found} == {False}


def tenure(number: int, begin: int, end: int | None, **others: Any) -> dict[str, Any]:
    """Returns a member that joins and leaves at these minutes."""
    return {
        "incarnation": 1,
        "member_id": f"m{number}",
        "client_id": "c",
        "client_host": "/h",
        "group_instance_id": None,
        "from_offset": 10 * begin + number,
        "to_offset": None if end is None else 10 * end + number,
        "joined_at": AT + begin * MINUTE,
        "left_at": None if end is None else AT + end * MINUTE,
        "is_start_known": True,
        "is_end_known": True,
        "leave_cause": None if end is None else "left",
        "leave_cause_confidence": 0.9,
        **others,
    }


def replaced(**others: Any) -> list[dict[str, Any]]:
    """Returns two members, each of them replaced."""
    old = [tenure(number, 0, 20 + number, **others) for number in (1, 2)]
    return [*old, *(tenure(number, 18 + number, None) for number in (3, 4))]


@pytest.mark.parametrize(
    ("members", "kind", "is_deploy"),
    [
        (replaced(), TurnoverKind.DEPLOY, True),
        (replaced(leave_cause=None, leave_cause_confidence=None), TurnoverKind.DEPLOY, True),
        (replaced(is_end_known=False), TurnoverKind.HIDDEN, None),
        ([*replaced()[:3], tenure(4, 22, None, is_start_known=False)], TurnoverKind.HIDDEN, None),
        (replaced(leave_cause="session_expired"), TurnoverKind.SILENT, None),
        (replaced(leave_cause="session_expired", leave_cause_confidence=0.5), TurnoverKind.DEPLOY, True),
        (replaced(leave_cause="left_poll_timeout"), TurnoverKind.TOO_SLOW, False),
        ([*replaced(), tenure(5, 0, None)], TurnoverKind.PARTLY, False),
        ([tenure(1, 0, 20), tenure(2, 20, 22), tenure(3, 22, None)], TurnoverKind.RESTLESS, False),
        ([tenure(1, 0, 20), tenure(2, 21, None)], TurnoverKind.DEPLOY, True),
        # Soon after the group began, or began again.
        ([tenure(1, 0, 2), tenure(2, 0, 3), tenure(3, 2, None), tenure(4, 3, None)], TurnoverKind.DEPLOY, True),
        ([tenure(5, 0, 1), tenure(1, 20, 22), tenure(2, 23, None)], TurnoverKind.DEPLOY, True),
        ([tenure(1, 0, None), tenure(2, 2, None)], TurnoverKind.SCALED, False),
    ],
)
def test_kinds(members: list[dict[str, Any]], kind: str, is_deploy: bool | None) -> None:
    found = turnovers(members, LATER)[-1]
    assert (found.kind, found.is_deploy) == (kind, is_deploy)


def test_the_end_of_the_log() -> None:
    """Goal: while only some members were replaced, whether it is a deployment is open for some minutes."""
    members = [tenure(1, 0, 20), tenure(2, 21, None), tenure(3, 0, None)]
    found = [turnovers(members, AT + minutes * MINUTE)[-1] for minutes in (25, 60)]
    assert [each.is_deploy for each in found] == [None, False]


def test_versions() -> None:
    """Goal: clients of another version were deployed, however they left; of the same version nobody knows."""
    silent = turnovers(replaced(leave_cause="session_expired"), LATER)[-1]
    assert with_versions(silent, ["java 3.9"], ["java 4.0"]).is_deploy is True
    for before, after in ((["java 3.9"], ["java 3.9"]), ([], ["java 4.0"])):
        assert with_versions(silent, before, after).is_deploy is None


def test_cost() -> None:
    """Goal: the peak of lag is that of the rounds of the deployment and of the next; a cooperative follow-up counts."""
    deploy = turnovers(replaced(), LATER)[-1]
    place = {"topic": "t", "partition": 0}
    owned = [
        {**place, "valid_from": AT, "valid_to": AT + 21 * MINUTE},
        {**place, "valid_from": AT + 22 * MINUTE, "valid_to": None},
    ]
    rounds = [
        {"sampled_at": AT + minutes * MINUTE, "lag_sum": lag}
        for minutes, lag in ((1, 900), (19, 40), (22, 50), (24, 70), (29, 80))
    ]
    cost = cost_of(deploy, [rebalance(2, 21), rebalance(3, 23, caused_by=2), rebalance(4, 50)], owned, rounds)
    assert (cost["rebalances"], cost["partitions_moved"], cost["unowned_partition_seconds"]) == (2, 4, 60)
    assert (cost["lag_before"], cost["lag_peak"], cost["lag_peak_at"]) == (40, 70, AT + 24 * MINUTE)
    assert (cost["stopped_partition_seconds_min"], cost["stopped_partition_seconds_max"]) == (None, None)


def rebalance(generation: int, minutes: int, caused_by: int | None = None) -> Mapping[str, Any]:
    return {
        "to_generation": generation,
        "from_generation": generation - 1,
        "happened_at": AT + minutes * MINUTE,
        "caused_by_generation": caused_by,
        "changes": [],
        "partitions_moved": 2,
        "partitions_kept": 0,
        "pause_scope": None,
        "pause_lower_ms": None,
        "partition_pauses": [],
    }


def test_those_before() -> None:
    """Goal: medians are those of known values, and of the last ten deployments."""
    costs = [
        {"lasted_seconds": 60 * number, "rebalances": number, "lag_peak": None}
        | {"unowned_partition_seconds": 0, "stopped_partition_seconds_min": None if number % 2 else number}
        for number in range(12)
    ]
    assert compared([]) is None
    found = compared(costs)
    assert found is not None
    assert (found["deploys"], found["rebalances"], found["stopped_partition_seconds_min"]) == (10, 6.5, 6)
    assert found["lag_peak"] is None

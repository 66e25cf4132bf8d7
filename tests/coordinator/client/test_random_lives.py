"""Random lives of a group: whatever happens to its members, ownership stays single and the group comes to rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groupledger.coordinator.client.consumer import MemberState
from groupledger.coordinator.client.events import FatalError, Joined
from groupledger.coordinator.client.messages import Destination
from groupledger.coordinator.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from groupledger.schemas.kafka.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

pytestmark = pytest.mark.slow

LISTS = [("range",), ("cooperative-sticky",), ("sticky", "roundrobin"), ("cooperative-sticky", "range")]
NAMES = "abcd"
SETTINGS = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 10_000,
    "max_poll_interval_ms": 15_000,
    "metadata_max_age_ms": 20_000,
}
REFUSALS = [Error.NOT_COORDINATOR, Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS]
APIS = [JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest]
ACTIONS = ["start", "close", "freeze", "thaw", "process", "poll", "disconnect", "produce", "grow", "refuse", "lose"]
Step = tuple[str, int, int]
"""What happens, to which of the applications, and after how many milliseconds."""


def live(cluster: Any, assignors: tuple[str, ...], steps: Sequence[Step]) -> list[Any]:
    """Play the steps, then give everyone time. Returns all applications there ever were."""
    started: list[Any] = []
    running: dict[int, Any] = {}
    for action, slot, milliseconds in steps:
        application = running.get(slot)
        if action == "start" and application is None:
            static = {"group_instance_id": NAMES[slot]} if slot == 0 else {}
            running[slot] = cluster.start(f"{NAMES[slot]}{len(started)}", assignors=assignors, **SETTINGS, **static)
            started.append(running[slot])
        elif application is not None:
            act(cluster, action, application, milliseconds)
            if action == "close":
                del running[slot]
        cluster.run(milliseconds)
    for application in running.values():
        application.thaw()
        application.is_polling = True
    cluster.run(120_000)
    return started


def act(cluster: Any, action: str, application: Any, number: int) -> None:
    if action == "close":
        application.thaw()
        application.close()
    elif action == "freeze":
        application.freeze()
    elif action == "thaw":
        application.thaw()
    elif action in ("process", "poll"):
        application.is_polling = action == "poll"
    elif action == "disconnect" and not application.is_frozen:
        application.consumer.disconnected(list(Destination)[number % 2], cluster.now_ms)
    elif action == "produce":
        cluster.produce("payments", number % 7)
    elif action == "grow":
        cluster.topic("payments", min(8, len(cluster.broker.topics["payments"]) + 1))
    elif action == "refuse":
        cluster.script(APIS[number % 4], REFUSALS[number % 3 if number % 4 else 3])
    elif action == "lose":
        cluster.script(APIS[number % 4], "the connection is lost")


def assert_sound(cluster: Any, started: Sequence[Any]) -> None:
    owners: dict[int, dict[str, set[tuple[str, int]]]] = {}
    for application in started:
        generations = [event.generation_id for event in application.seen(Joined)]
        assert generations == sorted(generations)
        for event in application.seen(Joined):
            identity = application.consumer.config.group_instance_id or event.member_id
            owners.setdefault(event.generation_id, {})[identity] = set(event.assignment)
        assert application.seen(FatalError) == []
    for assigned in owners.values():
        assert sum(map(len, assigned.values())) == len(set().union(*assigned.values()))
    members = [one for one in started if not one.consumer.is_closed]
    partitions = sorted(partition for one in members for partition in one.consumer.assignment)
    assert {one.consumer.state for one in members} <= {MemberState.STABLE}
    assert len({one.consumer.generation_id for one in members}) <= 1
    if members:
        assert partitions == [("payments", number) for number in range(len(cluster.broker.topics["payments"]))]
        ends = {number: end for number, (_, end) in enumerate(cluster.broker.topics["payments"])}
        assert cluster.committed() == ends


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", *ACTIONS]), st.integers(0, 3), st.sampled_from([0, 1, 2_999, 3_000, 7_001, 16_002])
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(assignors=st.sampled_from(LISTS), steps=STEPS)
def test_any_life(new_cluster: Callable[..., Any], assignors: tuple[str, ...], steps: list[Step]) -> None:
    """Goal: in every generation each partition has one owner, generations grow for every member, and once things are
    quiet all members are in one stable generation, own every partition once, and have read and committed it all."""
    cluster = new_cluster()
    cluster.topic("payments", 6)
    assert_sound(cluster, live(cluster, assignors, steps))


def test_same_events_under_any_hash_seed() -> None:
    """Goal: nothing depends on Python's hashes: processes that hash differently leave the same story."""
    program = (
        "import sys, importlib.util\n"
        "spec = importlib.util.spec_from_file_location('life', sys.argv[1])\n"
        "life = importlib.util.module_from_spec(spec)\n"
        "sys.modules['life'] = life\n"
        "spec.loader.exec_module(life)\n"
        "cluster = life.Cluster()\n"
        "cluster.topic('payments', 6)\n"
        "cluster.topic('orders', 3)\n"
        "apps = [cluster.start(n, 'payments', 'orders', client_rack='east') for n in 'abc']\n"
        "cluster.run(20_000)\n"
        "apps[0].close()\n"
        "cluster.run(20_000)\n"
        "print([(one.events, one.sent) for one in apps])\n"
    )
    here = Path(__file__)
    stories = set()
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(here.parents[3])}
        command = [sys.executable, "-c", program, str(here.with_name("conftest.py"))]
        stories.add(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    (story,) = stories
    assert story.count("Joined(") > 3

"""The scenarios of the classic protocol on a real broker, which answers and writes what the coordinator does.

All are played at the same time, each with groups of its own, on a broker whose timeouts are a fifth of those in the
scenarios. Those that need a failover come last; then the broker is restarted with a limit on the size of groups, and
they go on, beside those that need the limit.

A scenario that fails is played once more when all else is over, over a restart of its own if it needs one: on a busy
machine a timer may have fired before the scenario looked whether it had not. A real difference shows again.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from lab.kafka.broker_driver import SETTINGS, Broker, BrokerDriver
from lab.kafka.local_broker import LocalBroker
from lab.scenarios import SCENARIOS, Scenario
from lab.scenarios.registry import DEAD_GROUP, FAILOVER, FORCED_STATE, LONG_WAIT, UNLOAD

if TYPE_CHECKING:
    from pathlib import Path

TIME_SCALE = 5
AT_ONCE = 12
RESTART_SECONDS_MAX = 120
HEAP = "512m"  # the broker of the other tests is there, too
PROPERTIES = {
    **SETTINGS,
    "group.initial.rebalance.delay.ms": str(3_000 // TIME_SCALE),
    "group.min.session.timeout.ms": str(10 // TIME_SCALE),
    "group.max.session.timeout.ms": str(600_000 // TIME_SCALE),
    "message.max.bytes": "20000",  # less than TOO_LARGE, which the scenarios make records of
}
# What scenarios ask for by their `settings`, in virtual time, and the broker has after its restart. Offsets expire late
# enough for the other scenarios to be done: an Empty group without offsets is deleted on that occasion.
GROUP_MAX_SIZE = 10
RETENTION_CHECK_INTERVAL_MS = 60_000
SETTINGS_AFTER_RESTART = {
    "group_max_size": GROUP_MAX_SIZE,
    "offsets_retention_check_interval_ms": RETENTION_CHECK_INTERVAL_MS,
}
PROPERTIES_AFTER_RESTART = {
    **PROPERTIES,
    "group.max.size": str(GROUP_MAX_SIZE),
    "offsets.retention.check.interval.ms": str(RETENTION_CHECK_INTERVAL_MS // TIME_SCALE),
}

_NEVER_DEAD = (
    DEAD_GROUP,
    "a group is Dead only once its partition is unloaded, and then the broker refuses for the partition",
)
_ONE_BROKER = (UNLOAD, "a single broker has nobody to give a partition to")
_NO_FAILURE = ("append_failure", "one broker loses neither leadership nor replicas; RecordTooLarge is played instead")
NOT_PLAYED: dict[str, tuple[str, str]] = {
    "NewClassicGroupAppendFailure": _NO_FAILURE,
    "SyncGroupAppendFailure": _NO_FAILURE,
    "DeadGroup": _NEVER_DEAD,
    "StaticRejoinInDeadGroup": _NEVER_DEAD,
    "HeartbeatDeadGroup": _NEVER_DEAD,
    "LeaveDeadGroup": _NEVER_DEAD,
    "OffsetCommitDeadGroup": _NEVER_DEAD,
    "StaticReplaceInEmptyGroupWithMembers": (FORCED_STATE, "no request leads to an Empty group with members"),
    "NewMemberJoinExpiration": (LONG_WAIT, "the new member timeout of 300 s is a constant of the broker"),
    "OffsetsExpire": (LONG_WAIT, "the broker's shortest retention is a minute; OffsetsExpireAsRequested is played"),
    "OnUnloaded": _ONE_BROKER,
    "OnUnloadedWhilePreparing": _ONE_BROKER,
}
"""What is not played on a broker: by name, the need that can't be met, and why."""

PLAYED = [scenario for scenario in SCENARIOS if scenario.name not in NOT_PLAYED]


def test_each_scenario_is_played_or_listed() -> None:
    """A listed scenario exists and has the need that the list names; a played one has none of these needs."""
    listed = {scenario.name: scenario for scenario in SCENARIOS if scenario.name in NOT_PLAYED}
    assert listed.keys() == NOT_PLAYED.keys()
    assert all(need in listed[name].needs for name, (need, _) in NOT_PLAYED.items())
    unmet = {need for need, _ in NOT_PLAYED.values()}
    assert not [scenario.name for scenario in PLAYED if scenario.needs & unmet]
    assert {scenario.number for scenario in SCENARIOS} == set(range(1, 68))


@dataclass
class Restart:
    """Where scenarios wait for the broker's restart."""

    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    done: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.arrived.release()
        assert self.done.wait(RESTART_SECONDS_MAX), "the broker was not restarted"


@dataclass
class Stage:
    """Plays scenarios on a broker, many at a time, and keeps what became of each."""

    pool: ThreadPoolExecutor
    broker: Broker
    restart: Restart = field(default_factory=Restart)
    outcomes: dict[str, Future[None]] = field(default_factory=dict)

    def play(self, scenario: Scenario, group_id: str) -> None:
        driver = BrokerDriver(self.broker, group_id, time_scale=TIME_SCALE, restart=self.restart, **scenario.settings)
        try:
            scenario.play(driver)
            driver.finish()
        finally:
            driver.close()

    def start(self, scenarios: list[Scenario]) -> None:
        for scenario in scenarios:
            self.outcomes[scenario.name] = self.pool.submit(self.play, scenario, scenario.name)

    def end(self, scenarios: list[Scenario]) -> None:
        """Wait for these, then repeat those that failed, one by one."""
        wait(self.outcomes[scenario.name] for scenario in scenarios)
        for scenario in scenarios:
            if self.outcomes[scenario.name].exception():
                again = self.pool.submit(self.play, scenario, f"{scenario.name}-again")
                self.outcomes[scenario.name] = again
                wait([again])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[None]]:
    """What became of each scenario, by name."""
    need_failover = [scenario for scenario in PLAYED if FAILOVER in scenario.needs]
    need_settings = [scenario for scenario in PLAYED if scenario.settings]
    others = [scenario for scenario in PLAYED if scenario not in (*need_failover, *need_settings)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        stage = play_over_restart(tmp_path_factory.mktemp("scenarios"), pool, others, need_failover, need_settings)
        failed = [scenario for scenario in need_failover if stage.outcomes[scenario.name].exception()]
        if failed:
            stage.outcomes |= play_over_restart(tmp_path_factory.mktemp("again"), pool, [], failed, []).outcomes
    return stage.outcomes


def play_over_restart(
    directory: Path,
    pool: ThreadPoolExecutor,
    before: list[Scenario],
    over: list[Scenario],
    after: list[Scenario],
) -> Stage:
    """Plays scenarios before, over and after the restart of a broker of their own, and returns what became of them."""
    with LocalBroker(directory, properties=PROPERTIES, heap=HEAP) as broker:
        stage = Stage(pool, Broker.prepare(broker.bootstrap_servers))
        stage.start(before)
        stage.end(before)
        stage.start(over)  # last, or their sessions would end before the broker does
        for _ in over:
            stage.restart.arrived.acquire(timeout=RESTART_SECONDS_MAX)
    with LocalBroker(directory, properties=PROPERTIES_AFTER_RESTART, heap=HEAP) as broker:
        stage.broker.bootstrap_servers = broker.bootstrap_servers
        stage.restart.done.set()
        stage.start(after)
        stage.end(after)
        wait(stage.outcomes.values())
    return stage


@pytest.mark.parametrize("scenario", PLAYED, ids=[f"{scenario.number:02d}-{scenario.name}" for scenario in PLAYED])
def test_scenario_against_kafka(scenario: Scenario, outcomes: dict[str, Future[None]]) -> None:
    """The broker does what the scenario says, and answers and writes what the coordinator does, field by field."""
    assert scenario.settings.items() <= SETTINGS_AFTER_RESTART.items()
    outcomes[scenario.name].result()

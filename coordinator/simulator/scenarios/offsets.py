"""Scenarios about committed offsets: resets, refusals, transactions, expiry and compaction."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from groupledger.coordinator.model.config import Config
from groupledger.coordinator.model.messages import OffsetCommitRequest, OffsetToCommit
from groupledger.coordinator.simulator.application import RawClient
from groupledger.coordinator.simulator.scenarios.registry import scenario
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS, SECOND_MS, Script
from groupledger.coordinator.simulator.simulation import Settings
from groupledger.coordinator.simulator.transactions import TransactionalApplication

if TYPE_CHECKING:
    from groupledger.coordinator.simulator.application import Application

_HOST = "/10.0.0.66"


@scenario("admin-reset", "The group is stopped, an administrator rewinds its offsets, and it starts again.")
def admin_reset(group: Script) -> None:
    applications = group.deploy(2, [group.topic("orders", 4)])
    group.start(applications)
    for application in applications:
        group.plan(10, "stop", application.close, by=application)
    administrator = group.administrator()

    def reset() -> None:
        rewound = tuple(
            OffsetToCommit(topic=topic, partition=partition, offset=max(offset - 1_000, 0))
            for topic, partition, offset in group.committed()
        )
        administrator.send(OffsetCommitRequest(group.simulation.new_id(), group.group_id, offsets=rewound))

    group.plan(15, "admin_reset", reset)
    group.start(applications, 20)


@scenario(
    "zombie-commits", "Commits of former members are refused: unknown member, illegal generation, fenced instance."
)
def zombie_commits(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)], is_static=True, enable_auto_commit=False)
    group.start(applications)
    _twin_takes_the_instance(group, applications[0])
    _member_of_the_past(group, applications[1])
    _generation_of_the_past(group, applications[2])


def _twin_takes_the_instance(group: Script, application: Application) -> None:
    """A second process starts with the same instance id while the first is frozen: the first is fenced."""
    (twin,) = group.deploy(1, application.topics, enable_auto_commit=False)
    group.plan(10, "instance_started_twice", application.freeze, 30 * SECOND_MS, by=application)
    instance_id = application.config.group_instance_id
    group.plan(10.2, "start", lambda: twin.start(group_instance_id=instance_id), by=twin)


def _member_of_the_past(group: Script, application: Application) -> None:
    """A static member outlives its session frozen, and commits as it wakes."""
    pause_ms = application.config.session_timeout_ms + 35 * SECOND_MS
    group.plan(20, "long_gc", application.freeze, pause_ms, by=application)


def _generation_of_the_past(group: Script, application: Application) -> None:
    """A client that keeps its member id and forgets to take the new generation, as librdkafka's last commit does."""
    simulation = group.simulation
    client = RawClient(simulation, group.group_id, application.client_id, _HOST, group.source.source("zombie"))
    client.planted = "stale_generation"

    def commit() -> None:
        consumer = application.consumer
        if consumer is None:
            return
        offsets = tuple(
            OffsetToCommit(topic=topic, partition=partition, offset=1) for topic, partition in consumer.assignment
        )
        instance_id = application.config.group_instance_id
        request = OffsetCommitRequest(
            simulation.new_id(),
            group.group_id,
            offsets=offsets,
            generation_id=consumer.generation_id - 1,
            member_id=consumer.member_id,
            group_instance_id=instance_id,
        )
        client.send(request)

    group.plan(28, "stale_generation", commit)


@scenario(
    "transactional-commits", "A consume-process-produce group commits in transactions, and some of these are aborted."
)
def transactional_commits(group: Script) -> None:
    applications = group.deploy(2, [group.topic("orders", 4)], TransactionalApplication, enable_auto_commit=False)
    group.start(applications)
    group.plan(10, "crash", applications[0].crash, by=applications[0])
    group.start(applications[:1], 15)


@scenario(
    "offset-expiry",
    "The offsets of a topic that a group gave up expire; then it stops, and loses the others and itself.",
    hours=1,
    settings=Settings(Config(offsets_retention_ms=20 * MINUTE_MS, offsets_retention_check_interval_ms=5 * MINUTE_MS)),
)
def offset_expiry(group: Script) -> None:
    topics = [group.topic("orders", 4), group.topic("payments", 2)]
    applications = group.deploy(2, topics)
    group.start(applications)
    for application in applications:
        group.plan(5, "subscription_change", partial(application.subscribe, topics[0]), by=application)
        group.plan(32, "stop", application.close, by=application)


@scenario(
    "compaction",
    "A group whose past the log cleaner has thinned, except for the last minutes before the capture.",
    hours=0.75,
    settings=Settings(is_compacted=True),
)
def compaction(group: Script) -> None:
    applications = group.deploy(3, [group.topic("orders", 6)])
    group.start(applications)
    group.bounce(applications[0], 10, "rolling_restart", 20)
    group.plan(25, "crash", applications[1].crash, by=applications[1])
    group.plan(30, "compaction", group.simulation.clean_logs)
    group.start(applications[1:2], 35)

"""Scenarios about the topics that a group reads: topics that are recreated or idle, and topics whose records are
deleted too early."""

from __future__ import annotations

from groupledger.coordinator.simulator.scenarios.registry import scenario
from groupledger.coordinator.simulator.scenarios.script import MINUTE_MS, RECORDS_PER_MINUTE, Script


@scenario("topic-recreated", "The group is stopped, its topic is deleted and made anew, and the group starts again.")
def topic_recreated(group: Script) -> None:
    topic = group.topic("orders", 4)
    applications = group.deploy(2, [topic], auto_offset_reset="earliest")
    group.start(applications)
    for application in applications:
        group.plan(8, "stop", application.close, by=application)

    def recreate() -> None:
        source, topics, now_ms = group.source.source("recreated"), group.simulation.topics, group.simulation.now_ms
        # Partitions that are added later begin at offset 0; those of `create` begin as in a topic with a past.
        topics.create(topic, 0, records_per_minute=RECORDS_PER_MINUTE, now_ms=now_ms, source=source)
        topics.add_partitions(topic, 4, records_per_minute=RECORDS_PER_MINUTE, now_ms=now_ms)

    group.plan(12, "topic_recreated", recreate)
    group.start(applications, 20)


@scenario("retention-passes", "The group is stopped for longer than its topic keeps records, and starts again.")
def retention_passes(group: Script) -> None:
    applications = group.deploy(2, [group.topic("orders", 4, retention_ms=6 * MINUTE_MS)], auto_offset_reset="earliest")
    group.start(applications)
    for application in applications:
        group.plan(8, "stop", application.close, by=application)
    group.start(applications, 22)


@scenario("idle-topic", "Nothing is produced for a quarter of an hour.")
def idle_topic(group: Script) -> None:
    group.start(group.deploy(2, [group.topic("orders", 4)]))
    for minutes, percent in ((6, 0), (21, 100)):
        group.plan(minutes, "production", group.produce, percent)


@scenario(
    "idle-hour",
    "Consumers that commit what they have read; nothing is produced, and so committed, for an hour.",
    hours=1.5,
)
def idle_hour(group: Script) -> None:
    group.start(group.deploy(2, [group.topic("orders", 4)], enable_auto_commit=False))
    for minutes, percent in ((10, 0), (70, 100)):
        group.plan(minutes, "production", group.produce, percent)


ABOUT_TOPICS = (topic_recreated, retention_passes, idle_topic, idle_hour)

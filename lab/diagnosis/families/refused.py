"""Plays in which the coordinator refuses requests: because of settings, permissions, or commits from outside."""

from __future__ import annotations

import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import ResourceType  # type: ignore[attr-defined]

from lab.diagnosis.clients import CLIENTS, JAVA, LIBRDKAFKA
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play
from lab.diagnosis.raw import commit_as

METADATA_BYTES = 5_000  # the broker takes 4,096
REFUSED_S = 3.0


@play()
def other_assignor(group: Group) -> None:
    """A new member supports none of the assignors that the other members have."""
    group.start("1", "2", partition_assignment_strategy="range")
    group.calm()
    group.cause("inconsistent_protocol", "3")
    group.start("3", partition_assignment_strategy="cooperative-sticky")


@play()
def session_too_short(group: Group) -> None:
    group.start("1")
    group.calm()
    group.cause("invalid_session_timeout", "2")
    group.start("2", session_timeout_ms=3_000, heartbeat_interval_ms=1_000)


@play((LIBRDKAFKA,))
def group_full(group: Group) -> None:
    """A fifth member wants to join, but the broker allows a group four."""
    group.start("1", "2", "3", "4")
    group.calm()
    group.cause("group_full", "5")
    group.start("5")


@play((JAVA, LIBRDKAFKA))
def unknown_assignor_of_broker(group: Group) -> None:
    group.start("1", group_protocol="consumer")
    group.calm()
    group.cause("unsupported_assignor", "2")
    group.start("2", group_protocol="consumer", group_remote_assignor="round-the-houses")


@play()
def metadata_too_large(group: Group) -> None:
    group.start("1", enable_auto_commit="false")
    group.send("1", "commit", 0, 10)
    group.calm()
    group.cause("offset_metadata_too_large", "1")
    group.send("1", "commit", 0, METADATA_BYTES)


@play(ends_sessions=True)
def group_right_lost(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("group_not_authorized", "1", "2", beside="members_expired session_timeout")
    group.stage.deny(ResourceType.GROUP, group.id)


@play(ends_sessions=True)
def topic_right_lost(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("topic_not_authorized", "1", "2", beside="polls_without_commit")
    group.stage.deny(ResourceType.TOPIC, group.topic)


@play(CLIENTS)
def commits_beside_members(group: Group) -> None:
    """A script assigns itself a partition, and commits with the id of a group that has members."""
    group.start("1", "2")
    group.calm()
    script = group.outsider("script")
    group.cause("commit_from_outside", "script")
    consumer = Consumer({"bootstrap.servers": group.stage.servers, "group.id": group.id, "client.id": script})
    consumer.assign([TopicPartition(group.topic, 0, 0)])
    while group.stage.now() < group.stage.seconds - 30:
        with suppress(KafkaException):  # it is refused each time
            consumer.commit(offsets=[TopicPartition(group.topic, 0, 1)], asynchronous=False)
        time.sleep(REFUSED_S)
    consumer.close()


@play((LIBRDKAFKA,))
def in_a_members_name(group: Group) -> None:
    """A client at another address commits with a member's id and generation."""
    consumer = Consumer(group.settings_of("1"))
    consumer.subscribe([group.topic])
    group.played.clients.append(group.client_id("1"))
    group.keep_polling(consumer)
    group.calm()
    group.cause("speaks_in_anothers_name", "1", beside="member_went_back two_committers")
    member_id = group.member_id("1")
    while group.stage.now() < group.stage.seconds - 10:
        commit_as(group, member_id, generation=1, offset=1)
        time.sleep(REFUSED_S)


@play()
def two_applications(group: Group) -> None:
    """Two unrelated applications use one group id, and each reads a topic of its own."""
    other = f"{group.topic}-2"
    group.stage.make_topic(other, 4)
    group.stage.feed.set(other, dict.fromkeys(range(4), 1.0))
    group.cause("two_applications", "1", "2")
    group.start("1")
    group.start("2", topics=other)
    group.calm()
    for _ in range(2):  # whenever one of them is started again, the other rebalances
        group.close("2")
        group.start("2", topics=other)
        time.sleep(30)

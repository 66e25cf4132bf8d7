"""Plays in which a group rebalances, hangs in a rebalance, or has no assignment afterwards."""

from __future__ import annotations

import time
from typing import Any

from lab.diagnosis.clients import CLIENTS, JAVA, KAFKA_PYTHON, LIBRDKAFKA, LONG_POLL_INTERVAL_MS
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play

RECORD_BYTES_MAX = 2_500
LONG_TOPICS = 50
TOPIC_CHANGES_EVERY_S = 15.0


@play(CLIENTS, ends_sessions=True)
def waits_for_member(group: Group) -> None:
    """A member hangs, and its poll interval allows it ten minutes to rejoin. Then a third member joins, and all wait
    for the one that hangs."""
    group.start("1", "2", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)
    group.calm()
    group.send("2", "stall")
    time.sleep(5)
    group.cause("waits_for_member", "2")
    group.start("3", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)


@play((JAVA, LIBRDKAFKA), ends_sessions=True)
def holds_back_partitions(group: Group) -> None:
    """In a KIP-848 group the member that owns all partitions hangs, so that it does not release those that a new member
    is to get."""
    group.start("1", group_protocol="consumer", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)
    group.calm()
    group.send("1", "stall")
    time.sleep(5)
    group.cause("held_back_partitions alive_and_not_polling", "1")
    group.start("2", group_protocol="consumer", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)


@play((LIBRDKAFKA,))
def assignment_too_large(group: Group) -> None:
    """A deploy subscribes to so many topics that the group's record is larger than `__consumer_offsets` accepts."""
    names = [f"{group.topic}-{'x' * 60}-{number}" for number in range(LONG_TOPICS)]
    for name in names:
        group.stage.make_topic(name, 1)
    group.start("1")
    group.calm()
    group.stage.limit_offsets_records(RECORD_BYTES_MAX)
    group.cause("assignment_too_large")
    group.send("1", "subscribe", ",".join([group.topic, *names]))
    time.sleep(40)
    group.send("1", "subscribe", group.topic)


def _with_assignor(group: Group, assignor: str) -> None:
    """A deploy brings an assignor that has a fault."""
    group.start("1", "2")
    group.calm()
    group.close("1", "2")
    group.start("1", "2", partition_assignment_strategy=assignor)


@play((KAFKA_PYTHON,))
def assignor_gives_nothing(group: Group) -> None:
    _with_assignor(group, "nothing")
    group.cause("assignor_gives_nothing")


@play((KAFKA_PYTHON,), ends_sessions=True)
def assignor_fails(group: Group) -> None:
    _with_assignor(group, "failing")
    group.cause("leader_sends_no_assignment", "1", "2", beside="session_timeout")  # of members that wait for it


def _deploy(group: Group, **changed: Any) -> None:
    group.start("1", "2", **changed)
    group.calm()
    cause = group.cause("deploy")
    for name in ("1", "2"):
        group.close(name)
        group.start(name, **changed)
        time.sleep(12)
    group.end(cause)


@play(CLIENTS)
def deploy(group: Group) -> None:
    _deploy(group)


@play((JAVA, LIBRDKAFKA))
def deploy_modern(group: Group) -> None:
    _deploy(group, group_protocol="consumer")


@play(CLIENTS)
def scale_up(group: Group) -> None:
    group.start("1")
    group.calm()
    group.cause("scaling", "2", "3")
    group.start("2")
    time.sleep(10)
    group.start("3")


@play((JAVA, LIBRDKAFKA))
def scale_down(group: Group) -> None:
    group.start("1", "2", "3")
    group.calm()
    group.cause("scaling", "3")
    group.close("3")


@play((JAVA, KAFKA_PYTHON))
def topic_not_there(group: Group) -> None:
    """A deploy subscribes to a topic that does not exist. librdkafka is not played, because it does not even join the
    group then."""
    group.start("1", "2")
    group.calm()
    group.close("1", "2")
    group.cause("subscribed_topic_missing")
    group.start("1", "2", topics=f"{group.topic}-2")


@play(CLIENTS)
def subscription_alternates(group: Group) -> None:
    """A member changes its subscription again and again, between one topic and two."""
    other = f"{group.topic}-2"
    group.stage.make_topic(other, 2)
    group.start("1", "2")
    group.calm()
    group.cause("subscription_alternates", "2")
    for number in range(16):
        group.send("2", "subscribe", group.topic if number % 2 else f"{group.topic},{other}")
        time.sleep(7)


@play((JAVA, LIBRDKAFKA), partitions=2)
def topics_keep_changing(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("topics_keep_changing")
    for count in range(3, 11):
        group.stage.add_partitions(group.topic, count)
        time.sleep(TOPIC_CHANGES_EVERY_S)

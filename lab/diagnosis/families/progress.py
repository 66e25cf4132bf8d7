"""Plays in which the group has members, and lags or makes no progress."""

from __future__ import annotations

import time

from lab.diagnosis.clients import CLIENTS, JAVA, KAFKA_PYTHON, LIBRDKAFKA, LONG_POLL_INTERVAL_MS
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play

POISON_AFTER = 40
PLENTY = 4.0
SLOW_MS = 700
RESTART_S = 2.0


@play()
def hangs_and_heartbeats(group: Group) -> None:
    """A member's poll loop hangs. Its poll interval is ten minutes, so it goes on with heartbeats, and stays in the
    group."""
    group.start("1", "2", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)
    group.calm()
    group.cause("alive_and_not_polling commits_stopped", "2")
    group.send("2", "stall")


@play()
def never_commits(group: Group) -> None:
    group.start("1", "2", enable_auto_commit="false")
    group.calm()
    group.cause("never_commits", "1", "2")


@play()
def commits_stop(group: Group) -> None:
    """A deploy starts members that no longer commit."""
    group.start("1")
    group.calm()
    group.close("1")
    group.cause("polls_without_commit commits_stopped", "1")
    group.start("1", enable_auto_commit="false")


@play()
def one_record_ends_each(group: Group) -> None:
    """A certain record ends any process that gets it, and each process is started again."""
    group.start("1", "2")
    group.send("1", "stop", f"{group.topic}-1", POISON_AFTER, "close")
    group.send("2", "stop", f"{group.topic}-1", POISON_AFTER, "close")
    while "failed" not in {event for name in ("1", "2") for event in group.heard(name)}:
        time.sleep(0.5)
    group.cause("one_record_stops_every_owner", "1", "2", beside="crash_loop")
    while group.stage.now() < group.stage.seconds - 20:
        for name in ("1", "2"):
            if group.await_closed(name, 1.0):
                time.sleep(RESTART_S)
                group.start(name)
                group.send(name, "stop", f"{group.topic}-1", POISON_AFTER, "close")


@play()
def one_record_is_tried_again(group: Group) -> None:
    """The member retries one record again and again, and makes progress on its other partitions."""
    group.start("1")
    group.send("1", "stop", f"{group.topic}-1", POISON_AFTER, "retry")
    while "failed" not in group.heard("1"):
        time.sleep(0.5)
    group.cause("commits_one_offset_again one_record_stops_every_owner", "1")


@play()
def slower_than_producers(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("slower_than_producers", "1", "2")
    for name in ("1", "2"):
        group.send(name, "pace", SLOW_MS)
    group.feed(PLENTY)


@play((JAVA, LIBRDKAFKA), partitions=2)
def more_members_than_partitions(group: Group) -> None:
    group.start("1", "2", "3")
    group.calm()
    group.cause("more_members_than_partitions slower_than_producers", "1", "2", "3")
    for name in ("1", "2", "3"):
        group.send(name, "pace", SLOW_MS)
    group.feed(PLENTY)


@play((JAVA, LIBRDKAFKA))
def partition_skew(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("partition_skew hot_key", "1", "2")
    for name in ("1", "2"):
        group.send(name, "pace", 200)
    group.feed_partition(1, 3 * PLENTY)


@play((JAVA, LIBRDKAFKA), partitions=1, rate=PLENTY)
def uneven_assignment(group: Group) -> None:
    """The group subscribes to four topics with one partition each, and the range assignor gives all of them to the
    first of two members."""
    others = [f"{group.topic}-{number}" for number in (2, 3, 4)]
    for other in others:
        group.stage.make_topic(other, 1)
        group.stage.feed.set(other, {0: PLENTY})
    for name in ("1", "2"):
        group.start(name, topics=",".join([group.topic, *others]))
    group.calm()
    group.cause("uneven_assignment slower_than_producers", "1", "2")
    for name in ("1", "2"):
        group.send(name, "pace", 150)


@play((JAVA, LIBRDKAFKA))
def one_slow_member(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("one_slow_member", "2")
    group.send("2", "pace", 2 * SLOW_MS)


@play((JAVA, LIBRDKAFKA))
def quota(group: Group) -> None:
    """The broker throttles the clients' fetches by a quota."""
    group.feed(1.0, size=10_000)
    group.start("1", "2")
    group.calm()
    group.cause("client_quota", "1", "2", beside="slower_than_producers commits_one_offset_again")
    for name in ("1", "2"):
        group.stage.limit_bytes(group.client_id(name), 6_000)


@play()
def paused(group: Group) -> None:
    """The application pauses its partitions and goes on polling. Some clients go on committing their positions, too."""
    group.start("1")
    group.calm()
    group.cause("polls_without_commit commits_stopped commits_one_offset_again", "1")
    group.send("1", "pause")


@play((LIBRDKAFKA, KAFKA_PYTHON))
def unsubscribed(group: Group) -> None:
    """A deploy subscribes to another topic, and the offsets that were committed for the former topic stay."""
    other = f"{group.topic}-2"
    group.stage.make_topic(other, 2)
    group.start("1")
    group.calm()
    group.close("1")
    group.cause("unsubscribed")
    group.start("1", topics=other)


@play(CLIENTS)
def catches_up(group: Group) -> None:
    """A group had no members for a while, and now catches up with the records that were written meanwhile."""
    group.start("1")
    group.until_committed()
    group.close("1")
    group.feed(3 * PLENTY)
    group.calm()
    group.feed(1.0)
    group.cause("catching_up")
    group.start("1")
    group.send("1", "pace", 100)

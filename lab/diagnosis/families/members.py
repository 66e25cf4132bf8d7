"""Plays in which members leave, are removed, hang, or come and go."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from kafka.admin import KafkaAdminClient, MemberToRemove

from lab.diagnosis.clients import CLIENTS, JAVA, LIBRDKAFKA, LONG_POLL_INTERVAL_MS
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play
from lab.diagnosis.stage import FROZEN, VICTIMS

LOOP_STAYS_S, LOOP_AWAY_S = 5.0, 3.0
STALL_S = 30.0
SPARE_S = 25.0


@play()
def scaled_to_zero(group: Group) -> None:
    group.start("1", "2")
    group.calm()
    group.cause("scaled_to_zero members_left", "1", "2")
    group.close("1", "2")


@play()
def last_member_left(group: Group) -> None:
    group.start("1")
    group.calm()
    group.cause("members_left scaled_to_zero", "1")
    group.close("1")


@play(ends_sessions=True)
def all_killed(group: Group) -> None:
    group.start("1", host=VICTIMS)
    group.until(group.stage.kill_s)
    group.cause("members_expired", "1", beside="session_timeout")


@play(ends_sessions=True)
def all_hang(group: Group) -> None:
    group.start("1")
    group.calm()
    group.cause("members_polled_too_late", "1", beside="poll_timeout")
    group.send("1", "stall")


@play(ends_sessions=True)
def one_killed(group: Group) -> None:
    group.start("1")
    group.start("2", host=VICTIMS)
    group.until(group.stage.kill_s)
    group.cause("session_timeout", "2")


@play(ends_sessions=True)
def one_frozen(group: Group) -> None:
    """One process is suspended for longer than its session timeout, and then continues."""
    group.start("1")
    group.start("2", host=FROZEN)
    group.until(group.stage.freeze_s)
    cause = group.cause("session_timeout zombie went_on_after_removal", "2")
    group.until(group.stage.thaw_s)
    group.end(cause)


@play((JAVA, LIBRDKAFKA), ends_sessions=True)
def one_killed_modern(group: Group) -> None:
    group.start("1", group_protocol="consumer")
    group.start("2", host=VICTIMS, group_protocol="consumer")
    group.until(group.stage.kill_s)
    group.cause("session_timeout", "2")


@play(ends_sessions=True)
def slow_batch(group: Group) -> None:
    """A member does not poll for longer than its poll interval, and comes back."""
    group.start("1", "2")
    group.calm()
    cause = group.cause("poll_timeout", "2")
    group.send("2", "stall")
    time.sleep(STALL_S)
    group.send("2", "resume")
    group.end(cause)


@play((JAVA, LIBRDKAFKA), ends_sessions=True)
def slow_batch_modern(group: Group) -> None:
    group.start("1", "2", group_protocol="consumer")
    group.calm()
    # librdkafka stops to send heartbeats then, and is removed for that.
    expires = "session_timeout" if group.client == LIBRDKAFKA else ""
    cause = group.cause(f"poll_timeout held_back_partitions {expires}", "2", beside="went_on_after_removal")
    group.send("2", "stall")
    time.sleep(STALL_S)
    group.send("2", "resume")
    group.end(cause)


@play((JAVA, LIBRDKAFKA), ends_sessions=True)
def too_slow_for_its_batches(group: Group) -> None:
    """A member exceeds its poll interval again and again."""
    group.start("1", "2")
    group.calm()
    group.cause("poll_timeout crash_loop", "2")
    for _ in range(3):
        group.send("2", "stall")
        time.sleep(STALL_S)
        group.send("2", "resume")
        time.sleep(15)


def _crash_loop(group: Group, **changed: Any) -> None:
    group.start("1", **changed)
    group.calm()
    group.cause("crash_loop", "2", beside="new_owner_began_earlier")
    while group.stage.now() < group.stage.seconds - SPARE_S:
        group.start("2", **changed)
        time.sleep(LOOP_STAYS_S)
        group.close("2")
        time.sleep(LOOP_AWAY_S)


@play(CLIENTS)
def crash_loop(group: Group) -> None:
    _crash_loop(group)


@play((JAVA, LIBRDKAFKA))
def crash_loop_modern(group: Group) -> None:
    _crash_loop(group, group_protocol="consumer")


@play(ends_sessions=True)
def instance_twice(group: Group) -> None:
    """Two processes use one instance id. Each is started again when it has been fenced, as a supervisor does."""
    group.start("1", group_instance_id="first", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)
    group.start("2", group_instance_id="second", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)
    group.calm()
    group.cause("instance_started_twice", "2", "3", beside="crash_loop")
    for name in ("3", "2", "3", "2"):
        group.start(name, group_instance_id="second", max_poll_interval_ms=LONG_POLL_INTERVAL_MS)
        time.sleep(20)


@play((JAVA, LIBRDKAFKA), ends_sessions=True)
def instance_twice_modern(group: Group) -> None:
    group.start("1", group_instance_id="first", group_protocol="consumer")
    group.start("2", group_instance_id="second", group_protocol="consumer")
    group.calm()
    group.cause("instance_started_twice", "3")
    for name in ("3", "4", "5"):
        group.start(name, group_instance_id="second", group_protocol="consumer")
        time.sleep(40)


@play()
def removed_by_administrator(group: Group) -> None:
    """An administrator removes a static member by its instance id, and it does not come back."""
    group.start("1", group_instance_id="first")
    group.start("2", group_instance_id="second")
    group.calm()
    group.close("2")
    group.cause("removed_by_administrator", "2")
    with closing(KafkaAdminClient(bootstrap_servers=group.stage.servers)) as admin:
        admin.remove_group_members(group.id, [MemberToRemove(group_instance_id="second")])


@play(ends_sessions=True)
def static_member_away(group: Group) -> None:
    """A static member is closed without leaving the group. Its partitions stay reserved until its long session ends."""
    long: dict[str, Any] = {"session_timeout_ms": 240_000, "max_poll_interval_ms": LONG_POLL_INTERVAL_MS}
    group.start("1", group_instance_id="first", **long)
    group.start("2", group_instance_id="second", **long)
    group.calm()
    group.cause("static_member_away", "2", beside="session_timeout")  # which ends in the last minute
    group.close("2")

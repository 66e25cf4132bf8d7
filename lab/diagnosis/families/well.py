"""Plays of healthy groups: the diagnosis must report nothing, or only normal operation."""

from __future__ import annotations

import time

from lab.diagnosis.clients import JAVA, LIBRDKAFKA
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play


@play()
def well(group: Group) -> None:
    group.start("1", "2")


@play((JAVA, LIBRDKAFKA))
def well_modern(group: Group) -> None:
    group.start("1", "2", group_protocol="consumer")


@play()
def well_static(group: Group) -> None:
    """A static member is restarted before its session ends."""
    group.start("1", group_instance_id="first")
    group.start("2", group_instance_id="second")
    group.calm()
    group.close("2")
    group.start("2", group_instance_id="second")


@play((LIBRDKAFKA,), rate=0.0)
def well_and_idle(group: Group) -> None:
    """Nothing is ever written to the topic, so the group has never committed."""
    group.start("1")


@play((LIBRDKAFKA,))
def well_in_bursts(group: Group) -> None:
    group.start("1", "2")
    while group.stage.now() < group.stage.seconds - 40:
        group.feed(10.0)
        time.sleep(5)
        group.feed(0.0)
        time.sleep(25)
    group.feed(0.0)


@play((LIBRDKAFKA,))
def work_is_done(group: Group) -> None:
    """Both members are closed when they have read everything."""
    group.start("1", "2")
    group.calm()
    group.feed(0.0)
    time.sleep(30)
    group.cause("scaled_to_zero members_left", "1", "2")
    group.close("1", "2")

"""Plays in which two things go wrong at once, with different members."""

from __future__ import annotations

import time

from lab.diagnosis.clients import JAVA, LIBRDKAFKA
from lab.diagnosis.families.progress import PLENTY, SLOW_MS
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play
from lab.diagnosis.stage import VICTIMS


@play((JAVA, LIBRDKAFKA))
def slow_and_refused(group: Group) -> None:
    """The members are slower than the producers, and the coordinator refuses a new member."""
    group.start("1", "2")
    group.calm()
    group.cause("slower_than_producers", "1", "2")
    for name in ("1", "2"):
        group.send(name, "pace", SLOW_MS)
    group.feed(PLENTY)
    group.cause("inconsistent_protocol", "3")
    group.start("3", partition_assignment_strategy="cooperative-sticky")


@play((JAVA, LIBRDKAFKA), ends_sessions=True)
def killed_and_slow_batch(group: Group) -> None:
    """One member is killed, and later another one exceeds its poll interval."""
    group.start("1", "2")
    group.start("3", host=VICTIMS)
    group.until(group.stage.kill_s)
    group.cause("session_timeout", "3")
    group.until(group.stage.kill_s + 40)
    group.cause("poll_timeout", "2")
    group.send("2", "stall")
    time.sleep(30)
    group.send("2", "resume")


@play((JAVA,))
def crash_loop_and_sought_back(group: Group) -> None:
    group.start("1")
    group.calm()
    group.cause("crash_loop", "2")
    for number in range(9):
        group.start("2")
        time.sleep(5)
        if number == 6:
            group.cause("member_went_back", "1")
            group.send("1", "rewind", 20)
        group.close("2")
        time.sleep(3)


@play((JAVA, LIBRDKAFKA))
def reset_and_too_large_metadata(group: Group) -> None:
    group.start("1", enable_auto_commit="false")
    group.send("1", "commit", 0, 10)
    group.calm()
    group.close("1")
    group.cause("reset_at_rest")
    group.reset({partition: max(0, offset - 20) for partition, offset in group.committed().items()})
    group.start("1", enable_auto_commit="false")
    group.cause("offset_metadata_too_large", "1")
    group.send("1", "commit", 0, 5_000)

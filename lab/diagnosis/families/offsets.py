"""Plays in which committed offsets move other than by normal progress, or are wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lab.diagnosis.clients import CLIENTS, JAVA, KAFKA_PYTHON, LIBRDKAFKA
from lab.diagnosis.group import Group  # noqa: TC001  # the registry calls by it
from lab.diagnosis.plays import play
from lab.diagnosis.raw import commit_to_expire

if TYPE_CHECKING:
    from collections.abc import Callable

BACK, AHEAD = 20, 1_000
EXPIRES_MS = 30_000
MIRROR_EVERY_S, MIRROR_BEHIND = 10.0, 3


def _reset(group: Group, moved: Callable[[int], int]) -> None:
    group.close("1", "2")
    committed = group.committed()
    group.reset({partition: moved(offset) for partition, offset in committed.items()})


@play(CLIENTS)
def reset_back(group: Group) -> None:
    """An administrator stops the group, resets its offsets to lower ones, and starts it again."""
    group.start("1", "2")
    group.calm()
    group.cause("reset_at_rest")
    _reset(group, lambda offset: max(0, offset - BACK))
    group.start("1", "2")


@play((LIBRDKAFKA,))
def reset_ahead(group: Group) -> None:
    """An administrator stops the group, moves its offsets past records that it has not read, and starts it again."""
    group.start("1", "2")
    group.until_committed()
    group.close("1", "2")
    group.calm()
    time.sleep(15)
    group.cause("skipped_at_rest", beside="scaled_to_zero")
    committed = group.committed()
    group.reset({partition: offset + BACK for partition, offset in committed.items()})
    group.start("1", "2")


@play((JAVA, KAFKA_PYTHON))
def seeks_back(group: Group) -> None:
    """A member seeks back. librdkafka is not played, because it commits no lower offset by itself, so that nothing
    would show the seek."""
    group.start("1")
    group.calm()
    group.cause("member_went_back", "1")
    group.send("1", "rewind", BACK)


@play(CLIENTS)
def commits_beyond_the_end(group: Group) -> None:
    group.start("1", enable_auto_commit="false")
    group.send("1", "commit", 0, 0)
    group.calm()
    group.cause("commit_ahead_of_end", "1")
    group.send("1", "commit", AHEAD, 0)


@play((LIBRDKAFKA,))
def reset_beyond_the_end(group: Group) -> None:
    """A tool commits offsets beyond the end of the topic, as after a move to another cluster."""
    group.calm()
    group.cause("commit_ahead_of_end")
    group.reset(dict.fromkeys(range(group.partitions), AHEAD))


@play(CLIENTS)
def commits_the_last_offset(group: Group) -> None:
    """The application commits the offset of the last record instead of the next offset. Then nothing more is written to
    the topic."""
    group.start("1", enable_auto_commit="false")
    group.send("1", "commit", -1, 0)
    group.calm()
    group.feed(0.0)
    group.cause("commits_last_instead_of_next", "1")


@play((LIBRDKAFKA,))
def mirror_on_standby(group: Group) -> None:
    """A mirror commits the group's offsets on a standby cluster, where the group has no members."""
    group.cause("mirror_moves_offsets")
    while group.stage.now() < group.stage.seconds - 15:
        group.reset({partition: max(0, end - MIRROR_BEHIND) for partition, end in group.ends().items()})
        time.sleep(MIRROR_EVERY_S)


@play((LIBRDKAFKA,))
def offsets_deleted(group: Group) -> None:
    """Somebody deletes the group while it is stopped. Then the group starts again at the beginning of the log."""
    group.start("1")
    group.calm()
    group.close("1")
    group.cause("group_deleted")
    (answer,) = group.stage.admin.delete_consumer_groups([group.id]).values()
    answer.result()
    time.sleep(10)
    group.start("1")


@play((JAVA, LIBRDKAFKA))
def removed_before_it_was_read(group: Group) -> None:
    """Records are removed that the group had not read yet: by DeleteRecords here, with the same effect as by
    retention."""
    group.start("1")
    group.until_committed()
    group.close("1")
    group.calm()
    time.sleep(BACK)
    committed = group.committed()
    group.cause("passed_by_retention")
    for partition, offset in committed.items():
        group.stage.delete_records(group.topic, partition, offset + BACK // 2)
    time.sleep(15)
    group.start("1")


def _expire(group: Group) -> None:
    """Leaves the group with offsets that end soon: each is committed once more, with a retention of its own."""
    group.start("1")
    group.calm()
    group.close("1")
    for partition, offset in group.committed().items():
        commit_to_expire(group, partition, offset, retention_ms=EXPIRES_MS)
    time.sleep(EXPIRES_MS / 1000 + 10)


@play((LIBRDKAFKA,))
def offsets_expire(group: Group) -> None:
    """The group has no members for so long that its offsets expire."""
    _expire(group)
    group.cause("group_expired members_left scaled_to_zero", "1")


@play((JAVA, LIBRDKAFKA))
def offsets_expire_and_it_comes_back(group: Group) -> None:
    """The group's offsets expire. When it comes back, it starts where auto.offset.reset says, at the beginning of the
    log."""
    _expire(group)
    group.cause("offsets_expired", "1", beside="group_expired members_left scaled_to_zero")
    group.start("1")

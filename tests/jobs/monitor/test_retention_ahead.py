"""Goal: the monitor says when retention overtakes a group, and nothing where it can't know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupledger.jobs.monitor.retention_ahead import RetentionAhead
from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import (
    Circumstances,
    Commit,
    GroupPartition,
    LagRow,
    LagRules,
    PartitionWindow,
    TopicWindow,
    Watermark,
    lag_row,
)

START_MS, MINUTE_MS = 1_760_000_000_000, 60_000
PLACE = TopicPartition("orders", 0)
RULES = LagRules()


def seen(ahead: RetentionAhead, rounds: int, *, consumed: int, deleted: int, **last: Any) -> dict[str, float]:
    """Plays rounds of a minute in which `consumed` records are read, and `deleted` are removed in every second one."""
    samples, window = TopicWindow(), PartitionWindow()
    row: LagRow | None = None
    for number in range(rounds):
        at_ms = START_MS + number * MINUTE_MS
        samples.add(Watermark(at_ms, number // 2 * 2 * deleted, 100_000, 100_000))
        window.absorb(Commit(10_000 + number * consumed, at_ms, 0, number), None, RULES)
        now = Circumstances(sampled_at_ms=at_ms, group_state="Stable")
        row = lag_row(GroupPartition("g", *PLACE), samples, window, now, RULES)
        ahead.look([row])
    assert row is not None
    return ahead.seconds([replace(row, **last)], {"g": {PLACE: window}})


def test_retention_comes_nearer() -> None:
    """Goal: the time is the distance from the log's start to the commit, by the pace of both."""
    left = 10_000 + 19 * 60 - 18 * 120
    assert seen(RetentionAhead(), 20, consumed=60, deleted=120) == {"g": pytest.approx(left)}
    at_rest = seen(RetentionAhead(), 20, consumed=60, deleted=120, status="stopped")
    assert at_rest == {"g": pytest.approx(left / 2)}


@pytest.mark.parametrize(
    ("rounds", "consumed", "deleted", "last"),
    [
        (20, 120, 60, {}),  # it reads faster
        (20, 60, 0, {}),  # nothing is deleted
        (12, 60, 120, {}),  # the start has not moved often enough
        (20, 60, 120, {"lag": None}),  # its commit is not known
        (20, 60, 120, {"committed_offset": 0}),  # it is passed already
    ],
)
def test_nothing_is_foretold(rounds: int, consumed: int, deleted: int, last: dict[str, Any]) -> None:
    assert seen(RetentionAhead(), rounds, consumed=consumed, deleted=deleted, **last) == {}


def test_another_topic_of_the_same_name() -> None:
    """Goal: the log of a deleted topic says nothing about the new topic of the same name."""
    ahead = RetentionAhead()
    assert seen(ahead, 20, consumed=60, deleted=120)
    assert seen(ahead, 6, consumed=60, deleted=120) == {}

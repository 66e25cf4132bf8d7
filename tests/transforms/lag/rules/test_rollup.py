"""Goal: sums, maxima and statuses of groups and topics count what is known, and nothing that is not the group's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
    rollup,
)

NOW_MS = 1_760_000_000_000


def row(topic: str, partition: int, lag: int | None, **fields: Any) -> LagRow:
    rules = LagRules()
    samples, window = TopicWindow(), PartitionWindow()
    samples.add(Watermark(NOW_MS, 0, 1_000, 1_000))
    if lag is not None:
        window.absorb(Commit(1_000 - lag, NOW_MS - 10_000 - partition, 0, 1), None, rules)
    now = Circumstances(sampled_at_ms=NOW_MS, group_state="Stable")
    found = lag_row(GroupPartition("g", topic, partition), samples, window, now, rules)
    return replace(found, **fields)


def test_group_and_topics() -> None:
    """Goal: the group first, then its topics; the worst partition is the lowest of those with the highest lag."""
    rows = [
        row("b", 0, 30, lag_seconds=4.0, lag_per_second=-2.0, status="growing", burrow_status="STALL"),
        row("a", 1, 30, lag_seconds=None, lag_seconds_lower_bound=9.0, lag_per_second=-1.0, commit_interval_ms=5_000),
        row("a", 0, 0),
        row("a", 2, None),
        row("old", 0, 500, flags=("unsubscribed",), status="unsubscribed", burrow_status="STOP"),
    ]
    group, a, b, old = rollup(rows)
    assert (group.topic, a.topic, b.topic, old.topic) == (None, "a", "b", "old")
    assert (group.lag_sum, group.lag_max, group.worst_topic, group.worst_partition) == (60, 30, "a", 1)
    assert (group.partitions, group.partitions_without_lag, group.partitions_unsubscribed) == (5, 1, 1)
    assert (group.lag_seconds_max, group.lag_seconds_lower_bound) == (9.0, 9.0)
    assert (group.lag_per_second, group.catch_up_seconds) == (-3.0, 20.0)
    assert (group.commit_age_ms, group.commit_interval_ms) == (10_000, 5_000)
    assert (group.status, group.burrow_status, group.group_state) == ("growing", "ERR", "Stable")
    assert (old.lag_sum, old.partitions_unsubscribed, old.status) == (None, 1, "ok")


def test_a_group_that_reads_nothing() -> None:
    """Goal: a group is unsubscribed if records wait and no member subscribes to any of its topics, but not while it
    rebalances, nor if it reads another topic, or if nothing is left."""
    old = {"flags": ("unsubscribed",), "status": "unsubscribed"}
    left = [row("old", 0, 500, **old), row("old", 1, 0, flags=("unsubscribed",))]
    group, topic = rollup(left)
    assert (group.status, group.lag_sum, topic.status) == ("unsubscribed", None, "ok")
    moving = [replace(each, group_state="PreparingRebalance") for each in left]
    for others in (moving, [*left, row("new", 0, 0)], [*left, row("new", 0, None)], left[1:]):
        assert rollup(others)[0].status != "unsubscribed"


def test_nothing_known_is_null() -> None:
    """Goal: no lag of any partition is no lag of the group, not 0."""
    (group, _) = rollup([row("a", 0, None)])
    assert (group.lag_sum, group.lag_max, group.worst_topic, group.catch_up_seconds, group.commit_age_ms) == (None,) * 5
    assert group.status == "no_commit"


def test_growing_lag_has_no_catch_up_time() -> None:
    """Goal: a lag that does not shrink has no time until the group has caught up."""
    (group, _) = rollup([row("a", 0, 10, lag_per_second=0.5)])
    assert group.catch_up_seconds is None

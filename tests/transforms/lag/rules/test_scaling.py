"""Goal: the number for autoscalers counts what more consumers would work off, and is never 0 by mistake."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupledger.schemas.words import NoCommit, words_of
from groupledger.transforms.lag.rules import (
    Circumstances,
    GroupPartition,
    LagRow,
    LagRules,
    LagToScaleBy,
    TopicWindow,
    Watermark,
    lag_row,
    lag_to_scale_by,
)

NOW_MS = 1_760_000_000_000


def row(partition: int, lag: int | None, **fields: Any) -> LagRow:
    """A row with this lag; without one, nothing is committed in a log from 100 to 300."""
    topic = TopicWindow()
    topic.add(Watermark(NOW_MS, 100, 300, 300))
    none = lag_row(GroupPartition("g", "t", partition), topic, None, Circumstances(sampled_at_ms=NOW_MS), LagRules())
    return replace(none, **fields) if lag is None else replace(none, lag=lag, **{"flags": (), "status": "ok"} | fields)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 405), ("latest", 7), ("none", 5), ("error", 5)])
def test_without_a_commit(policy: str, expected: int) -> None:
    """Goal: each policy has its number, and all say how many partitions have no lag."""
    rows = [row(0, 5), row(1, None), row(2, None), row(3, 900, flags=("unsubscribed",), status="unsubscribed")]
    assert lag_to_scale_by(rows, policy) == LagToScaleBy(expected, 0, 2)
    assert policy in words_of(NoCommit)


@pytest.mark.parametrize("policy", words_of(NoCommit))
def test_what_is_not_known_is_not_counted(policy: str) -> None:
    """Goal: a partition without a watermark, or committed beyond its end, is no partition without a commit."""
    unknown = row(0, None, flags=("ahead_of_log",), status="ahead_of_log")
    assert lag_to_scale_by([unknown], policy) == LagToScaleBy(None, 0, 1)
    assert lag_to_scale_by([], policy) == LagToScaleBy(None, 0, 0)


def test_behind_an_open_transaction() -> None:
    """Goal: records that a consumer can't read yet are no reason for more consumers."""
    waiting = row(0, 229, status="waiting_for_transaction", lag_read_committed=0)
    assert lag_to_scale_by([waiting, row(1, 3)], "latest").lag == 3


def test_persistent_lag() -> None:
    """Goal: the lag of a stuck consumer can be left out; the lag of partitions without a consumer can't, or the group
    would stay at zero members."""
    stuck = row(0, 50, status="stopped", owned=True, group_state="Stable")
    rows = [stuck, row(1, 3)]
    assert lag_to_scale_by(rows, "latest") == LagToScaleBy(53, 50, 0)
    assert lag_to_scale_by(rows, "latest", without_persistent=True) == LagToScaleBy(3, 50, 0)
    assert lag_to_scale_by([stuck], "latest", without_persistent=True) == LagToScaleBy(0, 50, 0)
    for alone in (replace(stuck, owned=False), replace(stuck, group_state="Empty")):
        assert lag_to_scale_by([alone], "latest", without_persistent=True) == LagToScaleBy(50, 0, 0)

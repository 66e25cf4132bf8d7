"""Goal: every number of a row, its sign, its nulls and its flags, on rounds worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupledger.transforms.lag.rules import (
    Circumstances,
    Commit,
    GroupPartition,
    LagRow,
    LagRules,
    NextRecord,
    Owner,
    PartitionWindow,
    TopicWindow,
    Watermark,
    lag_row,
    out_of_date,
    rollup,
    with_next_record,
)

RULES = LagRules()
NOW_MS = 1_760_000_000_000
PLACE = GroupPartition("g", "orders", 0)
COMMIT = Commit(80, NOW_MS - 5_000, kafka_partition=3, kafka_offset=7, leader_epoch=2)
WATERMARK = Watermark(NOW_MS, 10, 100, 100)


def row(
    commit: Commit | None = COMMIT,
    *watermarks: Watermark,
    rules: LagRules = RULES,
    **circumstances: Any,
) -> LagRow:
    topic = TopicWindow()
    for watermark in watermarks or (WATERMARK,):
        topic.add(watermark)
    window = PartitionWindow()
    if commit is not None:
        window.absorb(commit, None, rules)
    return lag_row(PLACE, topic, window, Circumstances(sampled_at_ms=NOW_MS, **circumstances), rules)


def numbers(found: LagRow) -> tuple[int | None, ...]:
    return found.raw_lag, found.lag, found.lag_read_committed, found.messages_lost


@pytest.mark.parametrize(
    ("committed", "log_start", "high_watermark", "last_stable", "expected", "flags"),
    [
        (80, 10, 100, 100, (20, 20, 20, 0), ()),
        (100, 10, 100, 100, (0, 0, 0, 0), ()),
        (80, 10, 100, 90, (20, 20, 10, 0), ("open_transaction",)),
        (95, 10, 100, 90, (5, 5, 0, 0), ("open_transaction",)),
        (80, 85, 100, 100, (20, 15, 15, 5), ("messages_lost",)),  # retention passes the consumer
        (80, 100, 100, 100, (20, 0, 0, 20), ("messages_lost",)),  # and the log is empty
        (0, 0, 0, 0, (0, 0, 0, 0), ()),
        (120, 10, 100, 100, (-20, None, None, None), ("ahead_of_log",)),
    ],
)
def test_numbers(
    committed: int,
    log_start: int,
    high_watermark: int,
    last_stable: int,
    expected: tuple[int | None, ...],
    flags: tuple[str, ...],
) -> None:
    """Goal: raw lag with its sign; lag from the commit or the log's start, never below 0."""
    found = row(replace(COMMIT, committed_offset=committed), Watermark(NOW_MS, log_start, high_watermark, last_stable))
    assert (numbers(found), found.flags) == (expected, flags)


@pytest.mark.parametrize("commit", [None, replace(COMMIT, committed_offset=None)])
def test_no_commit_is_null(commit: Commit | None) -> None:
    """Goal: never 0 where nothing is committed, was removed, or is the offset -1 that Kafka answers as none."""
    found = row(commit, owner=Owner(owned=True, member_id="m"))
    assert numbers(found) == (None, None, None, None)
    assert (found.lag_seconds, found.status, found.flags) == (None, "no_commit", ("no_commit",))
    assert (found.high_watermark, found.owner) == (100, "m")


def test_an_empty_log_without_a_commit_is_well() -> None:
    """Goal: if nothing is left to read nobody is in trouble, whatever was committed; this is known of the present round
    only, and not if the log hides the commit."""
    never, emptied = Watermark(NOW_MS, 0, 0, 0), Watermark(NOW_MS, 500, 500, 500)
    for watermark in (never, emptied):
        found = row(None, watermark)
        assert (numbers(found), found.status, found.flags) == ((None, 0, 0, None), "ok", ("no_commit",))
        assert (time_of(found), found.burrow_status) == ((0.0, None, "zero"), None)
    assert row(None, never._replace(sampled_at_ms=NOW_MS - 60_000)).status == "no_commit"
    assert (row(None, never, has_lost_commit=True).lag, row(None, WATERMARK).status) == (None, "no_commit")


def test_a_commit_beyond_the_end() -> None:
    """Goal: a commit that the log has never reached, as mirroring leaves it, is no lag of 0 and not well, by Burrow's
    word neither; but the end of an earlier round may have been passed by now."""
    commit, end = replace(COMMIT, committed_offset=5_000), Watermark(NOW_MS, 0, 30, 30)
    found = row(commit, end)
    assert numbers(found) == (-4_970, None, None, None)
    assert (found.status, found.burrow_status, found.lag_seconds) == ("ahead_of_log", "REWIND", None)
    (group, _) = rollup([found])
    assert (group.lag_sum, group.partitions_without_lag) == (None, 1)
    assert (group.status, group.burrow_status) == ("ahead_of_log", "ERR")
    late = row(commit, end._replace(sampled_at_ms=NOW_MS - 60_000))
    assert (late.lag, late.status, late.flags) == (0, "ok", ("stale_sample",))


def test_no_watermark_is_null() -> None:
    """Goal: a topic that is gone, or a broker that is silent for too long, leaves no number."""
    gone = lag_row(PLACE, None, window_of(COMMIT), Circumstances(sampled_at_ms=NOW_MS), RULES)
    too_old = row(COMMIT, WATERMARK._replace(sampled_at_ms=NOW_MS - RULES.watermark_age_max_ms - 1))
    for found in (gone, too_old):
        assert numbers(found) == (None, None, None, None)
        assert (found.committed_offset, found.high_watermark, found.status) == (80, None, "unknown")
        assert found.flags == ("no_watermark",)


def window_of(commit: Commit) -> PartitionWindow:
    window = PartitionWindow()
    window.absorb(commit, None, RULES)
    return window


def test_stale_sample() -> None:
    """Goal: the end of an earlier round counts for a while, and is flagged."""
    found = row(COMMIT, WATERMARK._replace(sampled_at_ms=NOW_MS - 60_000))
    assert (found.lag, found.flags) == (20, ("stale_sample",))
    assert row(has_hidden_commits=True).flags == ("hidden_commits",)


@pytest.mark.parametrize("commit", [COMMIT, replace(COMMIT, committed_offset=1), None])
def test_commits_of_before_the_round(commit: Commit | None) -> None:
    """Goal: beside an end of now, a commit that is known until a minute ago gives no number, no loss to retention and
    no status: not even "none", since the group may have committed since. The row says until when commits are known."""
    until_ms = NOW_MS - 60_000
    found = row(commit, Watermark(NOW_MS, 50, 9_000, 9_000), commits_until_ms=until_ms)
    assert numbers(found) == (None, None, None, None)
    assert (found.status, found.burrow_status, found.flags) == ("unknown", None, ("commits_late",))
    assert (found.commits_until_ms, found.commit_age_ms, found.lag_seconds) == (until_ms, None, None)
    (group, _) = rollup([found])
    assert (group.status, group.lag_sum, group.commit_age_ms) == ("unknown", None, None)


def test_a_row_that_is_out_of_date() -> None:
    """Goal: a row of a round that is too long ago claims nothing but whom it is about, and until when that was
    known."""
    old = replace(row(COMMIT), flags=("messages_lost", "unowned"), owner="m")
    found = out_of_date(old, "Stable")
    assert numbers(found) == (None, None, None, None)
    assert (found.committed_offset, found.status, found.flags) == (None, "unknown", ("commits_late", "unowned"))
    assert (found.commits_until_ms, found.group_state, found.owner) == (NOW_MS, "Stable", "m")


def test_topic_recreated_by_id() -> None:
    """Goal: a commit of the former topic has no lag on the new one, even where offsets would look fine."""
    found = row(replace(COMMIT, topic_id="old"), WATERMARK._replace(topic_id="new"))
    assert numbers(found) == (20, None, None, None)
    assert (found.flags, found.status) == (("topic_recreated",), "unknown")


@pytest.mark.parametrize(
    ("committed", "committed_at_ms", "flags"),
    [
        (5, NOW_MS - 70_000, ("topic_recreated",)),  # before the last sample of the former topic
        (5, NOW_MS - 62_000, ()),  # within the margin of the clocks: nobody knows
        (450, NOW_MS - 10_000, ("topic_recreated",)),  # only the former topic was ever so long
        (600, NOW_MS - 10_000, ("ahead_of_log",)),
    ],
)
def test_topic_recreated_without_id(committed: int, committed_at_ms: int, flags: tuple[str, ...]) -> None:
    """Goal: clients that send no id are judged by when the former topic was last seen, and by how long it was."""
    samples = (Watermark(NOW_MS - 60_000, 0, 500, 500, topic_id="old"), WATERMARK._replace(topic_id="new"))
    found = row(replace(COMMIT, committed_offset=committed, commit_timestamp_ms=committed_at_ms), *samples)
    assert found.flags == (*flags, *(("messages_lost",) if committed == 5 and not flags else ()))


def test_truncated() -> None:
    """Goal: a commit after the end of a log that was longer once is distinguished from one that never made sense."""
    samples = (Watermark(NOW_MS - 60_000, 0, 90, 90), Watermark(NOW_MS, 0, 70, 70))
    assert row(COMMIT, *samples).flags == ("truncated",)
    assert row(replace(COMMIT, committed_offset=91), *samples).flags == ("ahead_of_log",)


@pytest.mark.parametrize(
    ("owner", "flags"),
    [
        (Owner(owned=True), ()),
        (Owner(), ()),
        (Owner(owned=False), ("unowned",)),
        (Owner(owned=False, is_subscribed=True), ("unowned",)),
        (Owner(owned=False, is_subscribed=False), ("unsubscribed",)),
    ],
)
def test_ownership(owner: Owner, flags: tuple[str, ...]) -> None:
    """Goal: nobody's partition, for a while or for good; unknown stays unknown."""
    found = row(owner=owner)
    assert (found.owned, found.flags) == (owner.owned, flags)


# Time


def test_time_lag() -> None:
    """Goal: zero without lag; interpolated; a bound outside of the window; never more than is known."""
    samples = (Watermark(NOW_MS - 20_000, 0, 60, 60), WATERMARK)
    assert time_of(row(replace(COMMIT, committed_offset=100), *samples)) == (0.0, None, "zero")
    assert time_of(row(COMMIT, *samples)) == (9.75, None, "interpolated")
    assert time_of(row(replace(COMMIT, committed_offset=59), *samples)) == (20.0, 20.0, "outside_window")
    assert time_of(row(replace(COMMIT, committed_offset=59))) == (None, None, "outside_window")  # of the first round
    assert time_of(row(None)) == (None, None, None)


def test_time_lag_is_at_least_the_standstill() -> None:
    """Goal: a record that was left to read two days ago, when the group was first seen at its offset, is as old, though
    samples reach back a day only."""
    topic, window = TopicWindow(), window_of(COMMIT)
    for age_ms in (172_800_000, 60_000, 0):
        topic.add(WATERMARK._replace(sampled_at_ms=NOW_MS - age_ms))
        found = lag_row(PLACE, topic, window, Circumstances(sampled_at_ms=NOW_MS - age_ms), RULES)
    assert time_of(found) == (172_800.0, 172_800.0, "outside_window")


def test_time_lag_begins_where_the_log_does() -> None:
    """Goal: records that retention removed can't be read any more, and do not count for the time lag."""
    samples = (Watermark(NOW_MS - 20_000, 0, 60, 60), WATERMARK._replace(log_start_offset=90))
    assert time_of(row(COMMIT, *samples)) == (4.75, None, "interpolated")


def test_exact_time_lag() -> None:
    """Goal: the record's own time where it was read; a time in the future is no negative lag."""
    assert time_of(with_next_record(row(), NextRecord(NOW_MS - 1_234))) == (1.234, None, "exact")
    assert time_of(with_next_record(row(), NextRecord(NOW_MS + 5_000))) == (0.0, None, "exact")


def test_transaction_markers_only() -> None:
    """Goal: the lag of markers, which never goes away on a transactional topic, is reported as such."""
    found = with_next_record(row(replace(COMMIT, committed_offset=99)), NextRecord(None))
    assert (found.lag, time_of(found), found.status) == (0, (0.0, None, "exact"), "ok")
    assert found.flags == ("transaction_markers_only",)
    assert with_next_record(row(None), NextRecord(None)) == row(None)


def time_of(found: LagRow) -> tuple[float | None, float | None, str | None]:
    return found.lag_seconds, found.lag_seconds_lower_bound, found.lag_seconds_method

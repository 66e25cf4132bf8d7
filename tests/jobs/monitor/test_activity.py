"""Goal: each event of a group is counted once, however often the history writes its rows, and shown by cause, trigger
and duration."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupledger.jobs.monitor.activity import WINDOW_MS, Activity, Count, events_of
from groupledger.jobs.monitor.activity_metrics import GroupActivity, activity_metrics, holding_of
from groupledger.jobs.monitor.exposition import RoundMetrics
from groupledger.jobs.monitor.group_info import GroupInfo
from groupledger.jobs.monitor.metric_list import BY_GROUP
from groupledger.jobs.monitor.rules import Elections
from groupledger.schemas.words import PauseScope
from groupledger.transforms.lag.rules import Owner

BEGAN_MS = 1_800_000_000_000


def at_us(elapsed_s: float) -> int:
    return BEGAN_MS * 1_000 + round(elapsed_s * 1_000_000)


def rebalance(generation: int, elapsed_s: float, **changed: Any) -> dict[str, Any]:
    row = {"group_id": "g", "incarnation": 1, "to_generation": generation, "from_generation": generation - 1}
    row |= {"happened_at": at_us(elapsed_s), "inferred_trigger": "joined", "sync_wait_ms": 40}
    row |= {"pause_scope": PauseScope.GROUP, "pause_lower_ms": 0, "pause_upper_ms": None, "partition_pauses": None}
    return row | {"partitions_moved": 2, "partitions_lost": 0, **changed}


def tenure(member_id: str, joined_s: float, left_s: float | None = None, cause: str | None = None) -> dict[str, Any]:
    row = {"group_id": "g", "incarnation": 1, "member_id": member_id, "from_offset": 1, "is_start_known": True}
    left_at = None if left_s is None else at_us(left_s)
    return row | {"joined_at": at_us(joined_s), "left_at": left_at, "leave_cause": cause}


def samples_of(activity: GroupActivity, info: GroupInfo) -> dict[tuple[str, ...], float]:
    """Returns what is served of the group, by name and by the values of the other labels."""
    registry = CollectorRegistry()
    registry.register(RoundMetrics(list(activity_metrics("c", {"g": info}, activity))))
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            words = [text for label, text in sorted(sample.labels.items()) if label not in BY_GROUP]
            key = (sample.name.removeprefix("kafka_consumergroup_group_"), *words)
            found[key] = sample.value
    return found


def test_an_event_counts_once() -> None:
    """Goal: rows that come again, and that get a pause later, count once each; events of before the monitor do not
    count, and neither does a birth."""
    rows = [rebalance(1, 1), rebalance(2, 5), rebalance(3, 9, inferred_trigger=None), rebalance(4, -1)]
    members = [tenure("a", -5, 9, "session_expired"), tenure("b", 5)]
    first = Activity(BEGAN_MS).after(events_of(rows, members, []))
    reported = rebalance(2, 5, pause_upper_ms=2_000)
    second = first.after(events_of([reported, *rows[2:]], members, [])).after(events_of([reported], [], []))
    for found in (first, second):
        assert found.counts[Count.REBALANCES] == {("g", "joined"): 1, ("g", "unknown"): 1}
        assert found.counts[Count.JOINED] == {("g", ""): 1}
        assert found.counts[Count.LEFT] == {("g", "session_expired"): 1}
    assert first.durations[Count.PAUSED] == {}
    assert second.durations[Count.PAUSED]["g", "joined"].sum_s == 2
    assert sum(second.durations[Count.TOOK]["g", "joined"].counts) == 1


def test_the_window_moves_with_what_was_read() -> None:
    """Goal: events of hours that the history reads at once all count, and its memory is bounded by the window."""
    hour_s = 3_600
    late = Activity(BEGAN_MS).after(events_of([rebalance(2 + hour, hour * hour_s) for hour in range(10)], [], []))
    assert late.counts[Count.REBALANCES] == {("g", "joined"): 10}
    assert late.from_ms == BEGAN_MS + 9 * hour_s * 1_000 - WINDOW_MS
    # Each of the seven in the window has an event for itself and one for its duration.
    assert len(late.seen) == 14
    again = late.after(events_of([rebalance(2, 0), rebalance(11, 9 * hour_s), rebalance(12, 9.5 * hour_s)], [], []))
    assert again.counts[Count.REBALANCES] == {("g", "joined"): 11}


def test_pauses_of_partitions_and_epochs() -> None:
    """Goal: a pause of partitions is that of the slowest, once all have committed; an epoch took until it converged."""
    partly = [{"pause_upper_ms": 700}, {"pause_upper_ms": None}]
    whole = [{"pause_upper_ms": 700}, {"pause_upper_ms": 90_000}]
    rows = [
        rebalance(number, 1, pause_scope=PauseScope.PARTITIONS, partition_pauses=pauses, sync_wait_ms=None)
        for number, pauses in ((2, partly), (3, whole), (4, []))
    ]
    epoch = {"group_id": "g", "incarnation": 1, "generation": 3, "revision": 0}
    epochs = [{**epoch, "started_at": at_us(1), "converged_at": at_us(5)}, {**epoch, "generation": 4, "started_at": 0}]
    epochs[1]["converged_at"] = None
    found = Activity(BEGAN_MS).after(events_of(rows, [], epochs)).durations
    assert [each.sum_s for each in found[Count.PAUSED].values()] == [90]
    assert [each.sum_s for each in found[Count.TOOK].values()] == [4]


def test_what_is_served() -> None:
    """Goal: read by a real parser, histograms are cumulative, causes that alarm are there with 0, and no other group
    is."""
    rows = [rebalance(2, 5, sync_wait_ms=500), rebalance(3, 6, sync_wait_ms=2_000_000)]
    members = [tenure("a", 1, 6, "rebalance_timeout"), {**tenure("b", 1), "group_id": "other"}]
    activity = Activity(BEGAN_MS).after(events_of(rows, members, []))
    owners = [Owner(owned=True, member_id=member) for member in ("a", "a", "b")]
    holding = holding_of(owners)
    assert holding is not None
    reported = GroupActivity(activity, {"g": 7}, {5: 2}, {"g": holding})
    found = samples_of(reported, GroupInfo(member_count=3, storms=4, kafka_partition=5))
    expected = {
        ("members_joined_total",): 1,
        ("members_left_total", "rebalance_timeout"): 1,
        ("members_left_total", "session_expired"): 0,
        ("rebalances_by_trigger_total", "joined"): 2,
        ("rebalance_seconds_bucket", "0.1", "joined"): 0,
        ("rebalance_seconds_bucket", "1.0", "joined"): 1,
        ("rebalance_seconds_bucket", "+Inf", "joined"): 2,
        ("rebalance_seconds_sum", "joined"): 2_000.5,
        ("commits_total",): 7,
        ("coordinator_moves_total",): 2,
        ("storms_total",): 4,
        ("assigned_partitions",): 3,
        ("max_partitions_per_member",): 2,
        ("idle_members",): 1,
    }
    assert {key: found[key] for key in expected} == expected
    unknown = samples_of(GroupActivity(Activity(BEGAN_MS)), GroupInfo())
    assert {name for name, *_ in unknown} == {"members_joined_total", "members_left_total", "commits_total"}


def test_elections() -> None:
    """Goal: each new leader epoch counts as a move, also one that no round saw; an epoch that goes back, or that nobody
    reports, does not."""
    elections = Elections()
    for epoch in (4, 4, None, 7, 6, 7):
        elections.look([(0, epoch), (1, 2)])
    assert elections.moves == {0: 3, 1: 0}

"""Goal: our own status, on lags by time worked out by hand.

A partition is played: a round every 30 s, each with (committed offset, end) and the commits before it.
"""

from __future__ import annotations

import pytest

from groupledger.schemas.words import LagStatus, words_of
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
    with_next_record,
)
from groupledger.transforms.lag.rules.status import BURROW_BESIDE, worst

RULES = LagRules()
START_MS = 1_760_000_000_000
ROUND_MS = 30_000


def play(
    positions: list[tuple[int, int]],
    *,
    silent_from: int | None = None,
    state: str = "Stable",
    owner: Owner | None = None,
    rules: LagRules = RULES,
) -> list[LagRow]:
    """A commit comes 1 s before each round, until `silent_from`."""
    topic, window = TopicWindow(), PartitionWindow()
    rows = []
    for number, (committed, end) in enumerate(positions):
        now_ms = START_MS + number * ROUND_MS
        if silent_from is None or number < silent_from:
            before = topic.latest.high_watermark if topic.latest else None
            window.absorb(Commit(committed, now_ms - 1_000, 0, number), before, rules)
        topic.add(Watermark(now_ms, 0, end, end))
        now = Circumstances(sampled_at_ms=now_ms, owner=owner or Owner(owned=True), group_state=state)
        rows.append(lag_row(GroupPartition("g", "t", 0), topic, window, now, rules))
    return rows


def statuses(rows: list[LagRow]) -> list[str]:
    """Without repetitions."""
    found = [row.status for row in rows]
    return [status for number, status in enumerate(found) if number == 0 or status != found[number - 1]]


def test_growing_and_one_dip() -> None:
    """Goal: lag that grows is growing, also with a dip that makes Burrow's rules say OK."""
    positions = [(number * 10, number * 30) for number in range(1, 25)]
    assert statuses(play(positions)) == ["ok", "growing"]
    positions[20:] = [(committed + 25, end) for committed, end in positions[20:]]
    rows = play(positions)
    assert statuses(rows) == ["ok", "growing"]
    assert (rows[-1].status, rows[-1].burrow_status) == ("growing", "OK")
    assert rows[-1].lag_per_second == pytest.approx(20 / 30, rel=0.2)


def test_steady_lag_is_ok() -> None:
    """Goal: lag that is neither worked off nor growing is no alarm, whatever its size; nor is a trickle."""
    assert statuses(play([(number * 10, number * 10 + 1_000_000) for number in range(30)])) == ["ok"]
    assert statuses(play([(number * 10, number * 10 + number // 3) for number in range(30)])) == ["ok"]


def test_stalled_and_stopped() -> None:
    """Goal: no progress for two minutes: with commits of the same offset, or without any."""
    positions = [(100, 100)] * 3 + [(100, 100 + number * 10) for number in range(1, 10)]
    assert statuses(play(positions)) == ["ok", "stalled"]
    assert statuses(play(positions, silent_from=3)) == ["ok", "stopped"]
    rows = play(positions)
    assert [row.status for row in rows].index("stalled") == 3 + 120_000 // ROUND_MS
    assert rows[-1].no_progress_since_ms == rows[3].sampled_at_ms


def rest(lag: int, *, opened: bool = True, is_open: bool = False, markers: int | None = None) -> LagRow:
    """The last of twenty rounds in which a group rests so many offsets before the end, without a commit; the first
    round may have shown an open transaction, and the last may show one."""
    topic, window = TopicWindow(), PartitionWindow()
    window.absorb(Commit(100, START_MS - 1_000, 0, 1), None, RULES)
    rows = []
    for number in range(20):
        now_ms, end = START_MS + number * ROUND_MS, 100 + lag
        stable = end - 1 if (number == 0 and opened) or (number == 19 and is_open) else end
        topic.add(Watermark(now_ms, 0, end, stable, markers_at_end=markers))
        rows.append(lag_row(GroupPartition("g", "t", 0), topic, window, Circumstances(sampled_at_ms=now_ms), RULES))
    return rows[-1]


def test_the_marker_of_a_transaction() -> None:
    """Goal: a group one offset before the end of a topic with transactions has read all; it is stopped if a record is
    left: without transactions, or with more to read."""
    found = rest(1)
    assert (found.status, found.lag, found.flags) == ("ok", 1, ("transaction_markers_only",))
    assert (found.lag_seconds, found.lag_seconds_method) == (0.0, "zero")
    assert with_next_record(found, NextRecord(None)).flags == ("transaction_markers_only",)
    assert with_next_record(found, NextRecord(START_MS)).flags == ()
    for stopped in (rest(1, opened=False), rest(2)):
        assert stopped.status == "stopped"
        assert "transaction_markers_only" not in stopped.flags


@pytest.mark.parametrize(("lag", "markers"), [(1, 1), (2, 2), (2, 5)])
def test_known_markers(lag: int, markers: int) -> None:
    """Goal: records that are known to be markers are no lag, from the first round on, though no sample saw one of the
    topic's short transactions open, and Burrow's rules count them as none."""
    found = rest(lag, opened=False, markers=markers)
    assert (found.status, found.burrow_status) == ("ok", "OK")
    assert (found.raw_lag, found.lag, found.lag_read_committed, found.lag_seconds) == (lag, 0, 0, 0.0)
    assert found.flags == ("transaction_markers_only",)
    assert found.no_progress_since_ms is None


@pytest.mark.parametrize(("lag", "markers"), [(1, 0), (3, 2)])
def test_a_record_before_the_markers(lag: int, markers: int) -> None:
    """Goal: a group with a record left to read stands still, on a topic with transactions too."""
    found = rest(lag, markers=markers)
    assert (found.status, found.lag, found.flags) == ("stopped", lag, ())


@pytest.mark.parametrize(("committed", "markers"), [(54, None), (53, 1)])
def test_an_open_transaction(committed: int, markers: int | None) -> None:
    """Goal: a group that has read up to the last stable offset waits for the transaction, however long it is open, and
    is never stopped by it; when the transaction is over, progress is due from then on."""
    topic, window, rows = TopicWindow(), PartitionWindow(), []
    window.absorb(Commit(committed, START_MS - 1_000, 0, 1), None, RULES)
    for number in range(60):
        now_ms, end = START_MS + number * ROUND_MS, 229 if number else 54
        stable = 54 if number < 50 else end
        topic.add(Watermark(now_ms, 0, end, stable, markers_at_end=markers if number < 50 else None))
        now = Circumstances(sampled_at_ms=now_ms, group_state="Stable")
        rows.append(lag_row(GroupPartition("g", "t", 0), topic, window, now, RULES))
    assert statuses(rows) == ["ok", "waiting_for_transaction", "ok", "stopped"]
    waiting = rows[1:50]
    assert {(row.burrow_status, row.lag_read_committed, row.flags) for row in waiting} == {
        ("OK", 0, ("open_transaction",))
    }
    assert [row.lag for row in waiting] == [row.raw_lag for row in waiting]
    assert [row.status for row in rows].index("stopped") == 50 + 120_000 // ROUND_MS


def test_beside_an_open_transaction() -> None:
    """Goal: a group that has committed records left to read, or that reads uncommitted ones, is judged like any
    other."""
    for committed in (50, 60):
        topic, window = TopicWindow(), PartitionWindow()
        window.absorb(Commit(committed, START_MS - 1_000, 0, 1), None, RULES)
        for number in range(20):
            now_ms = START_MS + number * ROUND_MS
            topic.add(Watermark(now_ms, 0, 90, 54))
            found = lag_row(GroupPartition("g", "t", 0), topic, window, Circumstances(sampled_at_ms=now_ms), RULES)
        assert (found.status, found.flags) == ("stopped", ("open_transaction",))


def test_what_burrow_may_say() -> None:
    """Goal: a status has beside it only statuses of Burrow that the table of both allows, and the table has all our
    statuses."""
    assert set(BURROW_BESIDE) == set(words_of(LagStatus))
    played = [
        *play([(number * 10, number * 30) for number in range(1, 25)]),
        *play([(100, 100)] * 3 + [(100, 100 + number * 10) for number in range(1, 60)]),
        *play([(100, 100)] * 3 + [(100, 100 + number * 10) for number in range(1, 60)], silent_from=3),
        *play([(100 - number, 200) for number in range(20)]),
        *play([(100, 200)] * 9, state="PreparingRebalance"),
        *play([(100, 200)] * 9, owner=Owner(owned=False, is_subscribed=False)),
        *play([(500, 200)] * 9),
        rest(1, is_open=True),
        lag_row(GroupPartition("g", "t", 0), None, None, Circumstances(sampled_at_ms=START_MS), RULES),
    ]
    window = PartitionWindow()
    window.absorb(Commit(1, START_MS, 0, 1), None, RULES)
    played.append(lag_row(GroupPartition("g", "t", 0), None, window, Circumstances(sampled_at_ms=START_MS), RULES))
    assert {row.status for row in played} == set(words_of(LagStatus))
    for row in played:
        assert row.burrow_status in BURROW_BESIDE[row.status], row
        assert row.lag != 0 or row.burrow_status == "OK"


def test_a_topic_made_anew_has_no_transactions() -> None:
    """Goal: knowledge of a topic's transactions does not count for the next topic of its name."""
    topic = TopicWindow()
    topic.add(Watermark(START_MS, 0, 10, 9, topic_id="a"))
    assert topic.has_transactions
    topic.add(Watermark(START_MS + ROUND_MS, 0, 1, 1, topic_id="b"))
    assert not topic.has_transactions


def test_idle_partition_gets_a_record() -> None:
    """Goal: a partition that rested for an hour is not at a standstill when a record comes."""
    rows = play([(100, 100)] * 120 + [(100, 101), (101, 101)], silent_from=1)
    assert statuses(rows) == ["ok"]


def test_slow_committer() -> None:
    """Goal: a group that commits every ten minutes has three times that before it counts as stopped."""
    positions = [(number // 20 * 100, number * 5 + 100) for number in range(70)]
    topic, window, rows = TopicWindow(), PartitionWindow(), []
    for number, (committed, end) in enumerate(positions):
        now_ms = START_MS + number * ROUND_MS
        if number % 20 == 0:
            window.absorb(Commit(committed, now_ms - 1_000, 0, number), None, RULES)
        topic.add(Watermark(now_ms, 0, end, end))
        rows.append(lag_row(GroupPartition("g", "t", 0), topic, window, Circumstances(sampled_at_ms=now_ms), RULES))
    assert rows[-1].commit_interval_ms == 600_000
    assert "stopped" not in statuses(rows[21:])


def test_rewound_until_made_good() -> None:
    """Goal: an offset that went back is reported until it is where it was."""
    positions = [(number * 10, number * 10 + 5) for number in range(10, 15)]
    positions += [(number * 20, 145 + number) for number in range(1, 12)]
    found = [row.status for row in play(positions)]
    assert found[5:11] == ["rewound"] * 6
    assert "rewound" not in found[11:]


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Reconciling", "Assigning"])
def test_rebalancing(state: str) -> None:
    """Goal: a group that stands still in a rebalance is shown as rebalancing; without lag there is nothing to
    report."""
    positions = [(100, 100 + number * 10) for number in range(10)]
    assert statuses(play(positions, state=state)) == ["ok", "rebalancing"]


def test_a_rebalance_that_hangs() -> None:
    """Goal: a group that has stood still in a rebalance for ten minutes has stopped, as the state alone excuses nothing
    any more; one that goes on meanwhile has not."""
    positions = [(100, 100 + number * 10) for number in range(60)]
    rows = play(positions, state="PreparingRebalance", silent_from=1)
    assert statuses(rows) == ["ok", "rebalancing", "stopped"]
    assert [row.status for row in rows].index("stopped") == 1 + 600_000 // ROUND_MS
    goes_on = [(100 + number * 10, 200 + number * 10) for number in range(60)]
    assert statuses(play(goes_on, state="PreparingRebalance")) == ["rebalancing"]


def test_unsubscribed() -> None:
    """Goal: a topic that nobody reads any more has lag and no problem."""
    owner = Owner(owned=False, is_subscribed=False)
    rows = play([(100, 100 + number * 10) for number in range(1, 20)], silent_from=1, owner=owner)
    assert statuses(rows) == ["unsubscribed"]


def test_worst() -> None:
    """Goal: a group is as its worst partition."""
    assert worst(["ok", "growing", "stopped", "rebalancing"]) == "stopped"
    assert worst([]) == "ok"


def test_state_survives_a_round_without_watermark() -> None:
    """Goal: a broker that is away for long leaves the standstill where it began."""
    topic, window = TopicWindow(), PartitionWindow()
    window.absorb(Commit(10, START_MS, 0, 1), None, RULES)
    topic.add(Watermark(START_MS, 0, 20, 20))
    place, first = GroupPartition("g", "t", 0), Circumstances(sampled_at_ms=START_MS)
    since_ms = lag_row(place, topic, window, first, RULES).no_progress_since_ms
    later = first._replace(sampled_at_ms=START_MS + 600_000)
    row = lag_row(place, topic, window, later, RULES)
    assert (row.status, row.no_progress_since_ms) == ("unknown", since_ms)
    topic.add(Watermark(START_MS + 630_000, 0, 20, 20))
    row = lag_row(place, topic, window, first._replace(sampled_at_ms=START_MS + 630_000), RULES)
    assert row.status == "stopped"

"""Goal: an answer has the error of the replay beside it, is an interval, and is refused if it rests on nothing."""

from dataclasses import replace
from itertools import pairwise

from groupledger.coordinator.what_if.answer import Interval, answers, unknown_times
from groupledger.coordinator.what_if.setting import CONSUMER, Setting
from groupledger.coordinator.what_if.workload import LEFT, PAUSED, SILENT, MemberSilence, Tenure, Workload

TOPICS = (("orders", 6),)
STATIC = Setting(is_static=True)


def restarts(count: int, actual: Setting | None = None, end: str = LEFT) -> Workload:
    """Returns a group of two members; one of them was started again so often, ten minutes apart."""
    bounds = [None, *(600_000 * number for number in range(1, count + 1)), None]
    tenures = [
        Tenure(
            member_id=f"member-{number}",
            joined_ms=None if start is None else start + 20_000,
            left_ms=stop,
            end=end if stop is not None else "",
            client_id="client-1",
        )
        for number, (start, stop) in enumerate(pairwise(bounds))
    ]
    other = Tenure(member_id="other", joined_ms=None, left_ms=None, client_id="client-2")
    return Workload(actual=actual or Setting(), tenures=(*tenures, other), topics=TOPICS, records_per_second=2.0)


def observed(rebalances: int) -> dict[str, Interval | None]:
    return {"rebalances": Interval(rebalances, rebalances), "stopped_partition_seconds": Interval(0, 1_000)}


def test_reported() -> None:
    """Goal: three restarts are six rebalances, as observed; static membership would have avoided them all."""
    (answer,) = answers(restarts(3), [STATIC], observed(6))
    assert answer.refusal is None
    assert answer.error == 0
    reported = answer.figures["rebalances"]
    assert (reported.observed, reported.replayed, reported.asked, reported.spared) == (
        Interval(6, 6),
        Interval(6, 6),
        Interval(0, 0),
        Interval(6, 6),
    )
    assert answer.figures["partitions_moved"].observed is None
    assert "records_processed_twice" in answer.figures


def test_error_of_the_replay() -> None:
    """Goal: a small error of the replay widens the answer; a large one refuses it, and names the figure that
    differs."""
    (close,) = answers(restarts(3), [STATIC], observed(7))
    assert close.refusal is None
    assert close.figures["rebalances"].asked == Interval(0, 1)
    assert close.figures["rebalances"].spared == Interval(5, 7)
    (far,) = answers(restarts(3), [STATIC], observed(12))
    assert far.figures == {}
    assert far.refusal is not None
    assert far.refusal.startswith("The replay of the actual setting has 6 rebalances where 12 were observed")


def test_nothing_happened() -> None:
    """Goal: a group in which nothing happened has nothing to spare."""
    (answer,) = answers(restarts(0), [STATIC], observed(0))
    assert answer.figures["rebalances"].spared == Interval(0, 0)


def test_the_same_setting() -> None:
    """Goal: a question about the group's own setting, such as KIP-848, is refused, instead of an answer that it saves
    nothing."""
    modern = Setting(assigned_by=CONSUMER)
    (same, static) = answers(restarts(1, modern), [modern, replace(modern, is_static=True)], observed(2))
    assert (same.refusal, same.figures) == ("The group has this setting already: there is nothing to compare.", {})
    assert static.refusal is None


def test_unknown_times() -> None:
    """Goal: a shorter session is never judged; a longer one only if nobody was removed for silence."""
    left, silent = restarts(1), restarts(1, end=SILENT)
    assert "shorter session.timeout.ms" in str(unknown_times(left, Setting(session_ms=10_000)))
    assert "shorter max.poll.interval.ms" in str(unknown_times(left, Setting(max_poll_interval_ms=10_000)))
    assert unknown_times(left, Setting(session_ms=90_000)) is None
    assert "longer session.timeout.ms" in str(unknown_times(silent, Setting(session_ms=90_000)))
    assert unknown_times(silent, Setting(max_poll_interval_ms=900_000)) is None
    assert unknown_times(silent, STATIC) is None
    heard = replace(silent, silences=())
    assert unknown_times(heard, Setting(session_ms=10_000)) is None
    assert unknown_times(heard, Setting(session_ms=90_000)) is None
    assert "shorter max.poll.interval.ms" in str(unknown_times(heard, Setting(max_poll_interval_ms=10_000)))


def test_a_pause() -> None:
    """Goal: a member that paused for longer than its session costs two rebalances and its partitions, one that was
    heard of in time nothing."""
    back_ms = 1_000_000
    tenures = (
        Tenure(member_id="a", joined_ms=None, left_ms=None, client_host="/1"),
        Tenure(member_id="b", joined_ms=None, left_ms=back_ms - 12_000, end=PAUSED, client_host="/2"),
        Tenure(member_id="c", joined_ms=back_ms + 2_000, left_ms=None, client_host="/2"),
    )
    workload = Workload(
        actual=Setting(), tenures=tenures, topics=TOPICS, silences=(MemberSilence("b", back_ms - 60_000, back_ms),)
    )
    (longer, same, shorter) = answers(
        workload, [Setting(session_ms=each) for each in (90_000, 50_000, 30_000)], observed(2)
    )
    assert (longer.refusal, longer.error) == (None, 0.0)
    assert longer.figures["rebalances"].asked == Interval(0, 0)
    assert longer.figures["partitions_moved"].asked == Interval(0, 0)
    assert same.figures["rebalances"].asked == shorter.figures["rebalances"].asked == Interval(2, 2)


def test_the_initial_delay() -> None:
    """Goal: a group that stopped as a whole and started again is one rebalance with a delay that gathers all, and one
    more without it; the delay itself is time in which its partitions stand still."""
    tenures = [
        tenure
        for name in "abcd"
        for tenure in (
            Tenure(member_id=f"{name}1", joined_ms=None, left_ms=600_000, end=LEFT, client_id=name),
            Tenure(member_id=f"{name}2", joined_ms=900_000, left_ms=None, client_id=name),
        )
    ]
    workload = Workload(actual=Setting(), tenures=tuple(tenures), topics=TOPICS)
    found = answers(workload, [Setting(initial_delay_ms=each) for each in (0, 5_000, 10_000)], observed(2))
    assert [each.error for each in found] == [0.0] * 3
    less, *same = (each.figures["rebalances"].spared for each in found)
    assert less.high < 0
    assert all(-1 <= each.low <= 0 <= each.high < 1 for each in same)  # rounds of the stop vary with the heartbeats
    none, short, long = (each.figures["stopped_partition_seconds"].asked for each in found)
    partitions = TOPICS[0][1]
    assert none.high < partitions * 5 <= short.low
    assert partitions * 10 <= long.low

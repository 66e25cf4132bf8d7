"""Goal: while the ingest is behind, rounds wait for their commits, and a round is published whole or not at all."""

from __future__ import annotations

from groupledger.jobs.kafka.sampling import SampledRound, SampledWatermark
from groupledger.jobs.monitor.pending import WAITING_MAX, PendingRounds
from groupledger.schemas.kafka.names import OFFSETS_TOPIC

AT_MS, INTERVAL_MS, AGE_MAX_MS = 1_760_000_000_000, 15_000, 60_000


def round_(number: int, *ends: int) -> SampledRound:
    """A round that saw these ends of the partitions 0, 1 and so on."""
    rows = (SampledWatermark(OFFSETS_TOPIC, key, 0, end, end) for key, end in enumerate(ends))
    return SampledRound(AT_MS + number * INTERVAL_MS, tuple(rows), (), {}, {})


def test_a_round_is_reported_as_soon_as_its_commits_are_read() -> None:
    pending = PendingRounds(AGE_MAX_MS)
    pending.add(round_(0, 10, 5))
    assert pending.take({0: 9, 1: 5}, AT_MS) is None
    ready = pending.take({0: 10, 1: 7}, AT_MS + 2_000)
    assert ready is not None
    assert (ready.sampled.sampled_at_ms, {*ready.passed}) == (AT_MS, {0, 1})
    assert pending.known_ms == AT_MS
    assert pending.take({0: 10, 1: 7}, AT_MS + 3_000) is None


def test_batches_that_take_longer_than_the_interval() -> None:
    """Goal: no round's end is reached by the batch under way; the newest of the rounds that were passed is published
    all the same, and that goes on with every batch."""
    pending = PendingRounds(2 * AGE_MAX_MS)
    reported = []
    for number in range(20):
        now_ms = AT_MS + number * INTERVAL_MS + 10_000
        pending.add(round_(number, 100 * number))
        began = number // 3 * 3 - 3  # the last batch that has ended began then, and read up to the end of then
        ready = pending.take({0: 100 * max(began, 0)}, now_ms)
        if ready is not None:
            assert {*ready.passed} == {0}
            assert now_ms - ready.sampled.sampled_at_ms <= 2 * AGE_MAX_MS
            reported.append((ready.sampled.sampled_at_ms - AT_MS) // INTERVAL_MS)
    assert reported == [0, 3, 6, 9, 12, 15]


def test_a_round_that_has_waited_for_too_long() -> None:
    """Goal: the newest round is published without the partition of the log that is not read, and says which it has;
    nothing is published of an earlier round any more."""
    pending = PendingRounds(AGE_MAX_MS)
    for number in range(5):
        pending.add(round_(number, 100 * number, 5))
        ready = pending.take({0: 0, 1: 5}, AT_MS + number * INTERVAL_MS + 1_000)
        if number:
            assert (ready is None) == (number < 4)
    assert ready is not None
    assert ({*ready.passed}, ready.sampled.sampled_at_ms) == ({1}, AT_MS + 4 * INTERVAL_MS)
    assert pending.take({0: 300, 1: 5}, AT_MS + 4 * INTERVAL_MS + 2_000) is None
    assert pending.known_ms == AT_MS + 3 * INTERVAL_MS


def test_what_waits_is_bounded() -> None:
    """Goal: when many rounds wait for long, every second one is dropped, and the newest stays."""
    pending = PendingRounds(10**9)
    for number in range(100):
        pending.add(round_(number, 100 * number + 100))
        assert pending.take({0: 0}, AT_MS) is None
        assert len(pending._waiting) <= WAITING_MAX
    ready = pending.take({0: 10_000}, AT_MS)
    assert ready is not None
    assert ready.sampled.sampled_at_ms == AT_MS + 99 * INTERVAL_MS

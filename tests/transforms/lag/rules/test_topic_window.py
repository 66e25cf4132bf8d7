"""Goal: time by interpolation is right inside the window, and marked outside of it; the number of kept samples is
bounded and does not depend on when they were thinned."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.transforms.lag.rules import FormerTopic, TopicWindow, Watermark
from groupledger.transforms.lag.rules.sample_times import BUCKETS_PER_AGE, WINDOW_MS, bucket_ms
from groupledger.transforms.lag.rules.topic_window import THIN_ABOVE

START_MS = 1_760_000_000_000


def window_of(*samples: tuple[float, int], topic_id: str | None = None) -> TopicWindow:
    window = TopicWindow()
    for at_s, end in samples:
        window.add(Watermark(START_MS + round(at_s * 1_000), 0, end, end, topic_id=topic_id))
    return window


def appended(window: TopicWindow, offset: int) -> tuple[float | None, float | None]:
    """In seconds since the start."""
    at_ms, latest_ms = window.appended_at_ms(offset)
    return (
        None if at_ms is None else (at_ms - START_MS) / 1_000,
        None if latest_ms is None else (latest_ms - START_MS) / 1_000,
    )


def test_interpolation() -> None:
    """Goal: the k-th of n records at (k + 1/2) / n of the way between the samples around it."""
    window = window_of((0, 100), (10, 110), (20, 150))
    assert appended(window, 100) == (0.5, None)
    assert appended(window, 109) == (9.5, None)
    assert appended(window, 110) == (10.125, None)
    assert appended(window, 149) == (19.875, None)


def test_outside_the_window() -> None:
    """Goal: there is no extrapolation: records before the first sample are older than it, and no more is claimed."""
    assert appended(window_of((0, 100), (10, 110)), 99) == (None, 0)
    assert appended(window_of((0, 100)), 99) == (None, 0)
    assert appended(TopicWindow(), 99) == (None, None)


def test_idle_partition() -> None:
    """Goal: records after a long rest came after its last sample, not in the middle of it."""
    window = window_of((0, 100), (10, 100), (500, 100), (510, 101))
    assert appended(window, 100) == (505, None)


def test_truncated_log() -> None:
    """Goal: ends above the new one are forgotten, for those offsets were given out again."""
    window = window_of((0, 100), (10, 200), (20, 150), (30, 250))
    assert window.samples == [(START_MS, 100), (START_MS + 20_000, 150), (START_MS + 30_000, 250)]
    assert appended(window, 150) == (20.05, None)
    assert window.longest == 250


def test_new_topic_of_the_name() -> None:
    """Goal: nothing of the former topic is left but how far it was and when it was last seen."""
    window = window_of((0, 100), (10, 200), topic_id="a")
    window.add(Watermark(START_MS + 20_000, 0, 300, 300, topic_id="b"))
    assert window.former == FormerTopic("a", START_MS + 10_000, 200)
    assert window.samples == [(START_MS + 20_000, 300)]
    assert list(window.recent_ends) == [300]


def test_repeated_samples_change_nothing() -> None:
    """Goal: a round that comes again is passed over."""
    window = window_of((0, 100), (10, 200), (10, 999), (5, 150))
    assert window.samples == [(START_MS, 100), (START_MS + 10_000, 200)]


def test_a_day_is_bounded_and_the_error_in_proportion() -> None:
    """Goal: some hundred samples hold a day, each no further from the next than a fraction of its age."""
    window = window_of(*((at_s, at_s) for at_s in range(0, 100_000, 30)))
    samples = window.samples
    now_ms = samples[-1][0]
    assert len(samples) < THIN_ABOVE
    assert now_ms - samples[0][0] > WINDOW_MS * 14 // BUCKETS_PER_AGE
    for (earlier_ms, _), (later_ms, _) in pairwise(samples):
        assert later_ms - earlier_ms <= max(30_000, (now_ms - earlier_ms) * 2 // BUCKETS_PER_AGE)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 600_000), min_size=1, max_size=120), st.data())
def test_thinning_at_any_time_keeps_the_same(steps_ms: list[int], data: st.DataObject) -> None:
    """Goal: state that is thinned often, seldom, or recovered from samples that were thinned, is the same state."""
    times = [START_MS]
    for step_ms in steps_ms:
        times.append(times[-1] + step_ms)
    samples = [Watermark(at_ms, 0, number, number) for number, at_ms in enumerate(times)]
    seldom, often = TopicWindow(), TopicWindow()
    for sample in samples:
        seldom.add(sample)
        often.add(sample)
        if data.draw(st.booleans()):
            assert often.samples
    kept = TopicWindow()
    for at_ms, number in thinned(times):
        kept.add(Watermark(at_ms, 0, number, number))
    for offset in range(-1, len(times) + 1):
        assert seldom.appended_at_ms(offset) == kept.appended_at_ms(offset)
    assert often.samples == seldom.samples == thinned(times)


def thinned(times: list[int]) -> list[tuple[int, int]]:
    """By the definition: no later sample lies in the same bucket."""
    now_ms = times[-1]
    return [
        (at_ms, number)
        for number, at_ms in enumerate(times)
        if now_ms - at_ms <= WINDOW_MS
        and not any(
            later // bucket_ms(now_ms - at_ms) == at_ms // bucket_ms(now_ms - at_ms) for later in times[number + 1 :]
        )
    ]

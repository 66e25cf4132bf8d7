"""Goal: the points of a window, and the sums over them, equal those counted anew from all points."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from groupledger.transforms.lag.rules import StatusRules
from groupledger.transforms.lag.rules.points import POINTS_PER_WINDOW, Point, Points

START_MS = 1_760_000_000_000
RULES = StatusRules()


def slope_per_s(points: list[Point]) -> Fraction:
    """The least-squares line by its definition, through the middle of the points."""
    mean_ms = Fraction(sum(each.sampled_at_ms for each in points), len(points))
    mean_lag = Fraction(sum(each.lag for each in points), len(points))
    apart = [(each.sampled_at_ms - mean_ms, each.lag - mean_lag) for each in points]
    return Fraction(1_000 * sum(ms * lag for ms, lag in apart), sum(ms * ms for ms, _ in apart))


def test_points_are_bounded_and_aligned() -> None:
    """Goal: however often there is a round, a twentieth of the window is one point, and the newest is there."""
    often, seldom = Points(), Points()
    for at_ms in range(START_MS, START_MS + 1_200_000, 1_000):
        often.add(at_ms, at_ms, at_ms, RULES)
        if (at_ms + 1_000) % 30_000 == 0 or at_ms == START_MS + 1_199_000:
            seldom.add(at_ms, at_ms, at_ms, RULES)
    assert [*often] == [*seldom]
    assert len([*often]) <= POINTS_PER_WINDOW + 1
    assert often.slope_per_s() == seldom.slope_per_s() == 1_000


@given(
    st.lists(
        st.tuples(st.integers(1, 700_000), st.integers(0, 50), st.integers(0, 2**62)),
        min_size=1,
        max_size=80,
    ),
    st.booleans(),
)
def test_sums_are_those_of_the_points(rounds: list[tuple[int, int, int]], is_restored: bool) -> None:
    """Goal: after rounds at any distance, offsets that go back and any lag, also if the state was recovered in between,
    all answers are those of the remaining points."""
    points, at_ms = Points(), START_MS
    for number, (elapsed_ms, offset, lag) in enumerate(rounds):
        at_ms += elapsed_ms
        points.add(at_ms, offset, lag, RULES)
        if is_restored and number == len(rounds) // 2:
            points = Points([*points])
        kept = [*points]
        slope = points.slope_per_s()
        assert kept[-1] == Point(at_ms, offset, lag)
        assert points.is_rewound() == (offset < max(each.committed_offset for each in kept))
        assert slope == (float(slope_per_s(kept)) if len(kept) >= 4 else None)
        if slope is not None:
            span_s = (at_ms - kept[0].sampled_at_ms) / 1_000
            mean = sum(each.lag for each in kept) / len(kept)
            is_large = slope * span_s >= max(RULES.growth_records_min, RULES.growth_fraction_min * mean)
            assert points.is_growing(slope, RULES) == (span_s >= 300 and is_large)


def test_slope() -> None:
    """Goal: the least-squares line, none through few points, and no growth over a short time."""
    points = [Point(START_MS + number * 10_000, 0, number * 50) for number in range(10)]
    assert Points(points).slope_per_s() == 5
    assert Points(points[:3]).slope_per_s() is None
    assert not Points(points).is_growing(5, StatusRules())
    assert Points(points).is_growing(5, StatusRules(window_ms=120_000))
    assert not Points(points).is_growing(5, StatusRules(window_ms=120_000, growth_records_min=451))

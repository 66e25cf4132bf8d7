"""The timer structure, against a model that searches all deadlines."""

from hypothesis import given, settings
from hypothesis import strategies as st

from groupledger.coordinator.model.deadlines import Deadlines, Timer

TIMERS: list[Timer] = [("heartbeat", 0, "g", f"m{number}") for number in range(4)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(TIMERS), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.sampled_from(TIMERS), st.just(0)),
        st.tuples(st.just("pop"), st.just(TIMERS[0]), st.integers(0, 30)),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_fires_in_order_of_deadline_then_of_setting(steps: list[tuple[str, Timer, int]]) -> None:
    """Whatever is set, moved and cancelled: the next deadline is the earliest, ties in the order of setting."""
    deadlines = Deadlines()
    model: dict[Timer, tuple[int, int]] = {}
    for sequence, (action, timer, at_ms) in enumerate(steps):
        if action == "set":
            deadlines.set(timer, at_ms)
            model[timer] = (at_ms, sequence)
        elif action == "cancel":
            deadlines.cancel(timer)
            model.pop(timer, None)
        else:
            expected = min(((due, timer) for timer, due in model.items() if due[0] <= at_ms), default=None)
            assert deadlines.pop_due(at_ms) == (None if expected is None else (expected[0][0], expected[1]))
            if expected is not None:
                del model[expected[1]]
        assert deadlines.next_deadline_ms() == min((due[0] for due in model.values()), default=None)
        assert len(deadlines) == len(model)


def test_heap_does_not_grow_with_every_reset() -> None:
    """A session timer that is moved a thousand times keeps one entry."""
    deadlines = Deadlines()
    for now_ms in range(1_000):
        deadlines.set(TIMERS[0], now_ms + 45_000)
    assert len(deadlines._heap) == 1
    assert deadlines.next_deadline_ms() == 45_999


def test_cancel_partition() -> None:
    """An unloaded partition takes its timers along, and no others."""
    deadlines = Deadlines()
    deadlines.set(("join", 1, "g", ""), 10)
    deadlines.set(("join", 2, "h", ""), 20)
    deadlines.cancel_partition(1)
    assert deadlines.next_deadline_ms() == 20
    assert ("join", 1, "g", "") not in deadlines

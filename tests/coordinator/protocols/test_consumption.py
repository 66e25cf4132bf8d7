"""What intervals of consumption cost, beside a count of each millisecond and each record."""

from hypothesis import given
from hypothesis import strategies as st

from groupledger.coordinator.protocols.consumption import ConsumedInterval, Consumption, Cost, changes_ms, cost_of
from groupledger.coordinator.protocols.world import World
from groupledger.schemas.kafka.topic_partition import TopicPartition

P = TopicPartition("t", 0)
LAST = 40


@st.composite
def intervals(draw: st.DrawFn) -> list[ConsumedInterval]:
    found = []
    for number in range(draw(st.integers(0, 5))):
        begin, end = sorted(draw(st.tuples(st.integers(0, LAST), st.integers(0, LAST))))
        first, last = sorted(draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
        found.append(ConsumedInterval(P, f"m{number}", begin, end, first, last))
    return found


@given(intervals(), st.integers(0, LAST), st.integers(0, 10))
def test_costs(held: list[ConsumedInterval], from_ms: int, created_ms: int) -> None:
    """Goal: times without an owner and with more than one are those of counting each ms; so are repeated records."""
    counts = [sum(each.from_ms <= ms < each.to_ms for each in held) for ms in range(max(from_ms, created_ms), LAST)]
    seen: set[int] = set()
    twice = 0
    for each in sorted(held, key=lambda each: (each.from_ms, each.to_ms)):
        # An interval repeats what lies below the highest record that was read before it.
        below = set(range(max(seen, default=-1) + 1))
        records = set(range(each.from_offset, each.to_offset))
        twice += len(records & below) if each.from_ms >= from_ms else 0
        seen |= records
    expected = Cost(counts.count(0), sum(count > 1 for count in counts), twice)
    assert cost_of(held, {P: created_ms}, from_ms, LAST) == expected


def test_records_that_were_repeated_before_the_first_event() -> None:
    """Goal: an interval reads again at its beginning, so one that began before the counted time costs nothing, however
    long it lasts; one that begins within that time costs what it repeats."""
    first = ConsumedInterval(P, "m1", 0, 10, 0, 100)
    second = ConsumedInterval(P, "m2", 10, 50, 80, 500)
    third = ConsumedInterval(P, "m3", 50, 60, 470, 600)
    assert cost_of([first, second, third], {P: 0}, 0, 60).processed_twice == 20 + 30
    assert cost_of([first, second, third], {P: 0}, 20, 60).processed_twice == 30
    assert cost_of([first, second, third], {P: 0}, 20, 40).processed_twice == 0


def test_who_comes_back_catches_up() -> None:
    """Goal: a partition that nobody consumed for a while is caught up with at ten times its rate, and no faster."""
    world = World()
    consumption = Consumption(world, records_per_second=10)
    consumption.create(P)
    world.run(90_000)
    consumption.start("m", P)
    world.run(95_000)
    assert consumption.position("m", P) == 500
    world.run(110_000)
    assert consumption.position("m", P) == consumption.end(P) == 1_100
    consumption.stop("m", P)
    assert consumption.position("m", P) is None
    assert consumption.intervals() == [ConsumedInterval(P, "m", 90_000, 110_000, 0, 1_100)]
    assert changes_ms(consumption.intervals(), 110_000) == [90_000]

"""Goal: partitions that share the times of their samples know the same as each of them alone, and what they share is
chosen once for all of them, also after some of them missed a round."""

from __future__ import annotations

import gc
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch
from weakref import ref

from groupledger.schemas.kafka.topic_partition import TopicPartition
from groupledger.transforms.lag.rules import LagState, TopicWindow, Watermark, sample_times
from groupledger.transforms.lag.rules.topic_window import THIN_ABOVE

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable

START_MS = 1_760_000_000_000
ROUND_MS = 15_000


def places(count: int) -> list[TopicPartition]:
    return [TopicPartition("orders", partition) for partition in range(count)]


def take(state: LagState, number: int, sampled: Iterable[TopicPartition]) -> None:
    for place in sampled:
        state.sample(place, Watermark(START_MS + number * ROUND_MS, 0, number * 10, number * 10))
    state.thin_out()


def lists(state: LagState) -> set[int]:
    return {id(window._times) for window in state.topics.values()}


def test_shared_times_say_the_same() -> None:
    """Goal: whoever misses a round, comes late, is truncated or created anew, each partition knows what it would know
    with times of its own."""
    for seed in range(12):
        random, state, alone = Random(seed), LagState(), {place: TopicWindow() for place in places(12)}
        ends = dict.fromkeys(alone, 0)
        at_ms = START_MS
        for number in range(700):
            at_ms += random.choice((5_000, 15_000, 15_000, 15_000, 400_000))
            away = random.choice((0, 1, 2, 2, *[None] * 30))
            for place, window in alone.items():
                if place.partition % 3 == away or number < place.partition % 4 * 100:
                    continue
                ends[place] = max(ends[place] + random.randint(0, 50) - 3_000 * (random.random() < 0.002), 0)
                topic_id = f"id-{place.partition == 5 and number > 400}"
                sample = Watermark(at_ms, 0, ends[place], ends[place], topic_id=topic_id)
                assert state.sample(place, sample) == window.add(sample)
            state.thin_out()
        for place, window in alone.items():
            shared = state.topics[place]
            asked = range(0, ends[place], max(ends[place] // 50, 1))
            assert [shared.appended_at_ms(each) for each in asked] == [window.appended_at_ms(each) for each in asked]
            assert shared.samples == window.samples


def test_samples_are_chosen_once_for_all() -> None:
    """Goal: what to keep is looked up for one list of each broker's partitions, and not for each partition."""
    state, every = LagState(), places(60)
    of_broker = every[:20]
    looked_at = 0

    def counted(times_ms: array[int], index: int, count: int, cut_times_ms: tuple[int, ...]) -> bool:
        nonlocal looked_at
        looked_at += 1
        return stays(times_ms, index, count, cut_times_ms)

    stays = sample_times.stays
    with patch.object(sample_times, "stays", counted):
        for number in range(THIN_ABOVE + 20):
            take(state, number, every if number % 100 != 50 else every[20:])  # a broker is away three times
    assert len(lists(state)) == 2
    assert 0 < looked_at <= 2 * (THIN_ABOVE + 1)
    assert {len(state.topics[place].samples) for place in of_broker} != {len(state.topics[every[-1]].samples)}


def test_brokers_that_come_back_together() -> None:
    """Goal: of three brokers that went away one after the other, and came back in one round, each has one list once the
    samples are thinned out."""
    state, every = LagState(), places(60)
    for number in range(THIN_ABOVE + 50):
        take(state, number, [each for each in every if not 200 + each.partition % 3 <= number < 220])
    assert len(lists(state)) == 3


def test_what_was_missed_long_ago_makes_no_difference() -> None:
    """Goal: partitions that missed rounds, began late, or were created anew have one list with the others at last."""
    random, state, every = Random(1), LagState(), places(60)
    for number in range(8_000):  # more than a day
        is_late = number < 2_000
        sampled = [each for each in every if not is_late or random.random() > each.partition / 6_000]
        for place in sampled:
            topic_id = f"id-{place.partition % 7 == 0 and number > 1_000}"
            state.sample(place, Watermark(START_MS + number * ROUND_MS, 0, number, number, topic_id=topic_id))
        state.thin_out()
    assert len(lists(state)) == 1


def test_a_start_from_thinned_samples() -> None:
    """Goal: partitions whose samples begin at different times, as the table has them, have one list for each
    beginning."""
    state, every = LagState(), places(60)
    for number in range(40):
        take(state, number, [each for each in every if each.partition % 3 * 5 <= number])
    assert len(lists(state)) == 3


def test_former_lists_are_freed() -> None:
    """Goal: a partition that is sampled no more keeps the times that it has, and none of those that came after."""
    state, every = LagState(), places(3)
    take(state, 0, every)
    held = []
    for number in range(1, 4 * THIN_ABOVE):
        take(state, number, every[1:])
        if number % THIN_ABOVE == 0:
            held.append(ref(state.topics[every[1]]._times))
    gc.collect()
    assert [each() is None for each in held] == [True] * len(held)
    assert state.topics[every[0]].samples == [(START_MS, 0)]

"""Plays sequences on a broker and on the coordinator, many at a time, and shortens one that shows a difference.

Hypothesis only generates the sequences. It would play one example after another, but a broker can play many at a time.
A sequence is shortened by delta debugging: steps are left out as long as the rest still differs.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hypothesis

from lab.kafka.broker_driver import BrokerDriver, DifferenceError
from lab.kafka.connection import NoAnswerError
from lab.kafka.sequences import SEQUENCES, Player, Step

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator

    from lab.kafka.broker_driver import Broker

AT_ONCE = 8
PLAYS = 3  # of each smaller sequence: a difference may hang on the ids, which the broker draws
CONFIG: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0, "group_max_session_timeout_ms": 1_800_000}


@dataclass(frozen=True)
class Outcome:
    """The outcome of playing a sequence: what was compared, by kind and error, and the difference, or None if there was
    none."""

    steps: list[Step]
    compared: Counter[tuple[str, str]]
    difference: Exception | None = None


def play(broker: Broker, steps: list[Step], group_id: str) -> Outcome:
    driver = BrokerDriver(broker, group_id, tick_ms=1, **CONFIG)
    try:
        Player(driver).play(steps)
    except (DifferenceError, NoAnswerError, ValueError) as difference:  # ValueError: an error code unknown to us
        return Outcome(steps, driver.compared, difference)
    finally:
        driver.close()
    return Outcome(steps, driver.compared)


def generated(count: int, seed: int) -> list[list[Step]]:
    """Returns `count` sequences, which are the same for the same seed."""
    found: list[list[Step]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        phases=[hypothesis.Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(SEQUENCES)
    def collect(steps: list[Step]) -> None:
        found.append(steps)

    collect()
    return found


def play_all(broker: Broker, sequences: Iterable[list[Step]], prefix: str = "sequence") -> Iterator[Outcome]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(lambda one: play(broker, one[1], f"{prefix}-{one[0]}"), enumerate(sequences))


def explained(broker: Broker, outcome: Outcome) -> str:
    """Returns a text about a difference: the shortest sequence that shows it, and then the answers of coordinator and
    broker. If the difference does not come again, returns a sentence that says so."""
    group_ids = (f"again-{id(outcome)}-{number}" for number in itertools.count())

    def differs(steps: list[Step]) -> bool:
        return any(play(broker, steps, next(group_ids)).difference for _ in range(PLAYS))

    if not differs(outcome.steps):
        return f"not the same again in {PLAYS} plays: {outcome.difference}"
    steps = minimal(differs, outcome.steps)
    lines = [f"{name}({', '.join(f'{key}={value!r}' for key, value in named.items())})" for name, named in steps]
    again = play(broker, steps, next(group_ids)).difference or "(not in this play)"
    return "\n".join([*lines, str(again)])


def minimal(differs: Callable[[list[Step]], bool], steps: list[Step]) -> list[Step]:
    """Returns a part of the steps that still differs: leaves out halves, quarters, ... and single steps, as long as the
    rest differs."""
    size = len(steps)
    while size > 1:
        size = (size + 1) // 2
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            if differs(fewer):
                steps = fewer
                size = min(size, max(len(steps), 1))
            else:
                start += size
    return steps

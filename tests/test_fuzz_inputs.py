"""Goal: whatever reads from outside lets only the errors out that it declares; `make fuzz` is the long form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import fuzz_inputs
from bench.fuzz_cost import GROWTH, Shape, cost
from bench.fuzz_inputs import fuzz, shapes_of, targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.fuzz_cost import Cost
    from bench.fuzz_inputs import Outcomes

pytestmark = pytest.mark.slow

SEED = 20260211
# Each about half a second.
INPUTS = {
    "request_log": 1_500,
    "server_log": 5_000,
    "log_file": 300,
    "capture": 2_000,
    "manifest": 300,
    "state": 300,
    "settings": 40,
    "metrics": 150,
}


def short(name: str, count: int, seed: int = SEED) -> Outcomes:
    with targets() as found:
        assert {*found} == {*INPUTS}
        return fuzz(name, found[name], seed, count)


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_hostile_inputs(name: str) -> None:
    """Attack: nearly right and random inputs for each reader: each is read or refused, and all are counted."""
    outcomes = short(name, INPUTS[name])
    assert outcomes.total() >= INPUTS[name]
    assert len(outcomes) > 1


def test_a_seed_gives_the_same_inputs_again() -> None:
    """Goal: a failing input can be made again from the seed that is printed with it."""
    first, again, other = (short("request_log", 200, seed) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_the_fuzzer_notices_an_error_of_another_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: a planted bug makes it fail, with seed and input printed: the canary of the harness."""

    def broken(*_: object) -> None:
        raise IndexError

    monkeypatch.setattr(fuzz_inputs, "parse_requests", broken)
    with pytest.raises(IndexError):
        short("request_log", 10, seed=3)
    assert "request_log, seed 3, after 0 inputs: ([" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_every_reader_has_shapes(name: str) -> None:
    """Goal: each kind of input can be stretched, and its readers come to an end with it; no time is asserted here."""
    with targets() as found:
        (shape,) = shapes_of(name, found[name], SEED, 1)
        content, length = shape.make(5_000)
        assert length >= 5_000
        assert found[name].check(content).total() >= 1


def test_a_cost_out_of_proportion_is_noticed() -> None:
    """Goal: a reader whose time is quadratic is found, and one whose time is linear is not; steps are counted instead
    of time."""

    def read(steps: Callable[[int], int]) -> Cost:
        def check(content: int) -> None:
            passed_ns[0] += steps(content)

        return cost(check, [Shape(lambda size: (size, size), "any")] * 3)

    passed_ns = [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.fuzz_cost.time.process_time_ns", lambda: passed_ns[0])
        patch.setattr("bench.fuzz_cost.json.loads", lambda text: passed_ns.__setitem__(0, passed_ns[0] + len(text)))
        linear, quadratic = read(lambda size: 5 * size), read(lambda size: size * size)
    assert (linear.growth, linear.times_usual, linear.is_bounded) == (1, 1, True)
    assert quadratic.growth == pytest.approx(GROWTH)
    assert not quadratic.is_bounded

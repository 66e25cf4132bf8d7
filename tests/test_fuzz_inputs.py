"""Goal: whatever reads from outside lets only the errors out that it declares; `make fuzz` is the long form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import fuzz_inputs
from bench.fuzz_inputs import cost, fuzz, targets

if TYPE_CHECKING:
    from bench.fuzz_inputs import Outcomes

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


@pytest.mark.slow
@pytest.mark.parametrize("log", ["request_log", "server_log"])
def test_the_time_per_byte_is_told(log: str) -> None:
    """Goal: the measure works, for texts of half a megabyte; no number is asserted, as no test depends on time."""
    with targets() as found:
        text = found[log].shape
    assert text is not None
    measured = cost(log, text, SEED, shapes=5)
    assert measured.worst_ns >= measured.usual_ns > 0
    assert measured.growth > 0

"""Goal: a micro-batch waits for brokers that don't answer, within a bound, and is given up when asked to stop."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from groupledger.jobs.ingest import patience
from groupledger.jobs.ingest.patience import BatchGivenUpError, SettledError, until_answered
from groupledger.jobs.process.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Callable


class Waiting:
    """A ledger that keeps what it says, and answers that come after so many refusals."""

    def __init__(self, refusals: int, *, lease_lasts: int = 1_000) -> None:
        self.refusals, self.lease_lasts = refusals, lease_lasts
        self.said: list[str] = []
        self.ledger: Any = SimpleNamespace(warn=self.said.append, lease=SimpleNamespace(check=self.check))

    def check(self) -> None:
        self.lease_lasts -= 1
        if self.lease_lasts < 0:
            raise OutsideError("The lease is lost.")

    def ask(self) -> str:
        self.refusals -= 1
        if self.refusals >= 0:
            raise OutsideError("No broker answers.")
        return "answer"

    def answer(self, stop: threading.Event, ask: Callable[[], str] | None = None, **bound: float) -> str:
        return until_answered(ask or self.ask, "what is so", self.ledger, stop, **bound)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "RETRY_S", 0.001)


def test_brokers_that_answer_late() -> None:
    """Goal: an answer that comes after some refusals counts, and the wait is reported once."""
    waiting = Waiting(3)
    assert waiting.answer(threading.Event()) == "answer"
    assert waiting.said == ["waiting to learn what is so: No broker answers."]


def test_brokers_that_never_answer() -> None:
    """Goal: after the bound the refusal is raised, and a lease that is lost meanwhile ends the waiting."""
    with pytest.raises(OutsideError, match="No broker answers"):
        Waiting(1_000_000).answer(threading.Event(), wait_s_max=0.01)
    with pytest.raises(OutsideError, match="The lease is lost"):
        Waiting(1_000_000, lease_lasts=3).answer(threading.Event())


def test_asked_to_stop() -> None:
    """Goal: a process that is asked to stop while it waits gives the batch up, and does not go on without the
    answer."""
    waiting, stop = Waiting(1_000_000), threading.Event()

    def ask() -> str:
        stop.set()
        return waiting.ask()

    with pytest.raises(BatchGivenUpError, match="run it again"):
        waiting.answer(stop, ask)


@pytest.mark.parametrize("error", [SettledError, InputError])
def test_what_is_settled_is_not_asked_again(error: type[Exception]) -> None:
    """Goal: an answer that is a refusal for good ends the waiting at once."""
    asked = []

    def ask() -> str:
        asked.append(1)
        raise error("It is so.")

    with pytest.raises(error, match="It is so"):
        Waiting(0).answer(threading.Event(), ask)
    assert len(asked) == 1

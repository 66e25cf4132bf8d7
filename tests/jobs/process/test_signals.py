"""Goal: a job that is told to stop ends by itself, and its exit code says whether it had done all that it should."""

from __future__ import annotations

import signal

import pytest

from groupledger.jobs.process.signals import StopOnSignal


def stopped_pass(number: signal.Signals, error: Exception | None = None) -> None:
    with StopOnSignal() as stop:
        signal.raise_signal(number)
        assert stop.is_set()
        if error is not None:
            raise error


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_pass_that_is_stopped(number: signal.Signals, code: int) -> None:
    """Goal: a pass that was cut short is no success to whoever scheduled it; what it raises itself comes first."""
    with pytest.raises(SystemExit) as ended:
        stopped_pass(number)
    assert ended.value.code == code
    with pytest.raises(ValueError, match="of the job"):
        stopped_pass(number, ValueError("of the job"))


def test_what_goes_on_until_then() -> None:
    """Goal: a monitor that is told to stop has done its work; nobody stops a pass that ran to its end."""
    before = signal.getsignal(signal.SIGTERM)
    with StopOnSignal(goes_on=True) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
    with StopOnSignal() as stop:
        assert not stop.is_set()
    assert signal.getsignal(signal.SIGTERM) is before

"""Goal: steps that run together all run to their ends, and the error of one of them is raised."""

from __future__ import annotations

import threading

import pytest

from groupledger.jobs.process.worker import together


def test_together() -> None:
    """Goal: each waits here for the other, so both run at once."""
    meeting = threading.Barrier(2, timeout=60)
    together(meeting.wait, meeting.wait)


def test_a_step_that_fails() -> None:
    """Goal: its error comes when the others have ended, not before."""
    failed, ended = threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        raise LookupError("the step")

    def go_on() -> None:
        failed.wait(60)
        ended.set()

    with pytest.raises(LookupError, match="the step"):
        together(fail, go_on)
    assert ended.is_set()

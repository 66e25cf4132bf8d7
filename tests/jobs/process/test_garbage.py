"""Goal: the collector rests while it is asked to, and goes on afterwards, whatever happened and however many asked."""

from __future__ import annotations

import gc
from contextlib import ExitStack

import pytest

from groupledger.jobs.process.garbage import collector_rests


def test_it_goes_on_after_an_error() -> None:
    """Goal: an error leaves no process without a garbage collector."""
    rests = []

    @collector_rests()
    def work() -> None:
        rests.append(not gc.isenabled())
        raise LookupError

    with pytest.raises(LookupError):
        work()
    assert rests == [True]
    assert gc.isenabled()


def test_rounds_of_two_clusters() -> None:
    """Goal: rounds that overlap, one begun first and ended first, leave it enabled."""
    with ExitStack() as second:
        with collector_rests():
            second.enter_context(collector_rests())
        assert gc.isenabled()
    assert gc.isenabled()
